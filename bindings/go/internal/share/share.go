// SPDX-License-Identifier: Apache-2.0

// Package share is the Go half of a test across languages: it calls a library written in Rust (bindings/rust/share-demo,
// weir_share_demo.h), which is loaded at run time, with handles of Go's objects.
package share

/*
#cgo pkg-config: weir
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <weir/weir.h>

// As in weir_share_demo.h, but for handles of buffers, which are numbers to Go.
typedef weir_result (*share_make)(weir_pool, uint64_t words, uint64_t seed, weir_buffer *);
typedef weir_result (*share_check)(weir_context, weir_pool, weir_buffer, uint64_t seed, uint64_t *wrong);
typedef weir_result (*share_add)(weir_context, weir_pool, weir_stream, weir_device, weir_buffer, uint64_t addend);
typedef weir_result (*share_conflict)(weir_context, weir_pool, weir_buffer);

static weir_result call_make(void *f, void *pool, uint64_t words, uint64_t seed, uintptr_t *buffer) {
  return ((share_make)f)(pool, words, seed, (weir_buffer *)buffer);
}

static weir_result call_check(void *f, void *context, void *pool, uintptr_t buffer, uint64_t seed, uint64_t *wrong) {
  return ((share_check)f)(context, pool, (weir_buffer)buffer, seed, wrong);
}

static weir_result call_add(void *f, void *context, void *pool, void *stream, uint32_t device, uintptr_t buffer,
                            uint64_t addend) {
  return ((share_add)f)(context, pool, stream, device, (weir_buffer)buffer, addend);
}

static weir_result call_conflict(void *f, void *context, void *pool, uintptr_t buffer) {
  return ((share_conflict)f)(context, pool, (weir_buffer)buffer);
}
*/
import "C"

import (
	"fmt"
	"math/bits"
	"runtime"
	"unsafe"

	"weir.invalid/go/weir"
)

// Library is the loaded Rust library. It stays loaded.
type Library struct {
	makeBuffer, check, add, conflict unsafe.Pointer
}

// Open loads the library.
func Open(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	library := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if library == nil {
		return nil, fmt.Errorf("dlopen: %s", C.GoString(C.dlerror()))
	}
	l := &Library{}
	for symbol, at := range map[string]*unsafe.Pointer{"weir_share_make": &l.makeBuffer, "weir_share_check": &l.check,
		"weir_share_add": &l.add, "weir_share_conflict": &l.conflict} {
		name := C.CString(symbol)
		*at = C.dlsym(library, name)
		C.free(unsafe.Pointer(name))
		if *at == nil {
			return nil, fmt.Errorf("%s has no %s", path, symbol)
		}
	}
	return l, nil
}

func result(r C.weir_result) error {
	if r == 0 {
		return nil
	}
	return weir.Result(r)
}

// keep is deferred by code that gives the objects' handles to C: the collector does not know that they are used there. A buffer
// keeps its pool.
func keep(objects ...any) { runtime.KeepAlive(objects) }

// Make has Rust make a buffer of words of 8 bytes, with the sequence of seed. It is the caller's.
func (l *Library) Make(pool *weir.Pool, words, seed uint64) (*weir.Buffer, error) {
	defer runtime.KeepAlive(pool)
	var buffer C.uintptr_t
	if err := result(C.call_make(l.makeBuffer, pool.Handle(), C.uint64_t(words), C.uint64_t(seed), &buffer)); err != nil {
		return nil, err
	}
	return pool.AdoptBuffer(uintptr(buffer))
}

// Check has Rust count the words that are not the sequence of seed.
func (l *Library) Check(c *weir.Context, b *weir.Buffer, seed uint64) (wrong uint64, err error) {
	defer keep(c, b)
	var count C.uint64_t
	err = result(C.call_check(l.check, c.Handle(), b.Pool().Handle(), C.uintptr_t(b.Handle()), C.uint64_t(seed), &count))
	return uint64(count), err
}

// Add has Rust add to every word, by a function in the stream.
func (l *Library) Add(c *weir.Context, s *weir.Stream, b *weir.Buffer, addend uint64) error {
	defer keep(c, s, b)
	return result(C.call_add(l.add, c.Handle(), b.Pool().Handle(), s.Handle(), C.uint32_t(s.Device()), C.uintptr_t(b.Handle()),
		C.uint64_t(addend)))
}

// Conflict has Rust ask for a lease that its own forbids.
func (l *Library) Conflict(c *weir.Context, b *weir.Buffer) error {
	defer keep(c, b)
	return result(C.call_conflict(l.conflict, c.Handle(), b.Pool().Handle(), C.uintptr_t(b.Handle())))
}

// Word is of the sequence that seed begins, as Rust has it.
func Word(seed, index uint64) uint64 {
	return bits.RotateLeft64((seed^index)*0x9e3779b97f4a7c15, 31) ^ index
}
