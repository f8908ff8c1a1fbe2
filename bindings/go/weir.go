// SPDX-License-Identifier: Apache-2.0

// Package weir is the Go binding of Weir, a portable virtual-GPU-memory manager: it lets a program use more device
// memory than the device has. A [Context] finds the devices; a [Pool] has budgets over them and over host memory; a
// [Buffer] lives wherever the pool has room. A program acquires a [Lease] on the bytes that its next work on a
// [Stream] touches, enqueues the work, and releases the lease.
//
//	ctx, err := weir.NewContext(nil)
//	pool, err := ctx.NewPool(weir.PoolOptions{
//		Devices:    []weir.PoolDevice{{Device: 0, Budget: 64 << 20}},
//		HostBudget: 256 << 20,
//	})
//	stream, err := ctx.NewStream(0)
//	buffer, err := pool.NewBuffer(32 << 20, nil)
//	lease, err := pool.Acquire(context.Background(), stream, weir.ReadWrite(buffer))
//	// enqueue work on lease.Address(0)
//	err = lease.Release()
//
// The C library is found by pkg-config ("weir"). The library's own documentation has the model; what is said here is
// what Go adds to it.
//
// # Closing
//
// Everything has a Close method. It may be called by any goroutine, and more than once: the second call, and any other
// use after the first, answers an error that is [ErrClosed] (and [ErrInvalidHandle]), and does nothing. What is still
// used answers [ErrBusy] and stays open: a context with pools or streams, a pool with buffers or clients, a buffer
// with leases, anything with a call under way in another goroutine. So close in the reverse order of making, as
// deferred calls do. What is dropped without being closed is closed by a finalizer, some time after nothing refers to it
// any more; that is a safety net and not a plan, and [OnLeak] tells of each case. A [Hold] and an [Allocation] are only
// reported, since work on them may be running; what they are of stays open then.
//
// The Handle methods give C's handles, of which the collector knows nothing: runtime.KeepAlive(object) belongs after the
// last call of C with one, or the object may be closed during it.
//
// # Errors
//
// Errors of the library are of type *[Error], with its numbers; errors.Is knows them by [Result], as in
// errors.Is(err, weir.ErrOverBudget).
//
// # Goroutines
//
// All types may be used by several goroutines at once, but an [Arena], whose calls on one arena the caller serialises, and
// a [Lease], whose other methods must not run beside its Release.
//
// # Memory
//
// Slices of leased memory ([Lease.Bytes], [Slice]) are the library's memory, not Go's: they are valid until the lease is
// released, and the garbage collector neither sees into them nor keeps the lease for their sake.
package weir

/*
#cgo pkg-config: weir
#cgo CFLAGS: -std=gnu11
#include "shim.h"
*/
import "C"

import "unsafe"

// Version is the version of the library that the program runs with, as "1.0.0".
func Version() string { return C.GoString(C.weir_version_string()) }

// VersionNumber is [Version] to be compared: major * 1000000 + minor * 1000 + patch.
func VersionNumber() uint32 { return uint32(C.weir_version_number()) }

// HeaderVersion is the version of the headers that the program was built with.
const (
	HeaderVersionNumber = C.WEIR_VERSION_NUMBER // to be compared with VersionNumber
	HeaderVersionMajor  = C.WEIR_VERSION_MAJOR
	HeaderVersionMinor  = C.WEIR_VERSION_MINOR
	HeaderVersionPatch  = C.WEIR_VERSION_PATCH
)

// Whole, as a length, is from the offset to the buffer's end.
const Whole uint64 = 1<<64 - 1

// Budgets and quotas that are no number of bytes. None is nothing at all, where 0 means that Weir chooses, or that there is
// no quota.
const (
	Unlimited uint64 = 1<<64 - 1
	None      uint64 = 1<<64 - 2
)

// Device is a place with memory: an index below [Context.DeviceCount], or one of the constants.
type Device uint32

const (
	DeviceHost    Device = 0xffffffff // the CPU's own memory
	DeviceDefault Device = 0xfffffffe // the first of the pool, or of the context
	DeviceAll     Device = 0xfffffffd // every device of the pool, in defragmentation
	DeviceAny     Device = 0xfffffffc // as a buffer's home: Weir chooses one
)

// Tier is a rung of the ladder. The numbers are no order.
type Tier uint32

const (
	TierNone Tier = iota
	TierDevice
	TierPeer
	TierHost
	TierCompressed
	TierStorage
)

// Element is what a buffer's bytes are: it lets them be compressed better, and never changes them.
type Element uint32

const (
	ElementAny Element = iota // found out by looking
	ElementF16
	ElementBF16
	ElementF32
	ElementF64
)

// Priority is a class of eviction: lower ones go first.
type Priority int32

const (
	PriorityLowest Priority = iota - 2
	PriorityLow
	PriorityNormal
	PriorityHigh
	PriorityHighest
)

// foreign is the pointer whose bits are handle: for memory that is not Go's, and for handles that are pointers of C.
// Handles of buffers and leases are not: they are numbers that may look like an address of Go's heap.
func foreign(handle uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&handle))
}

// cStrings are strings of C that end together.
type cStrings struct{ all []unsafe.Pointer }

// add is nil for "": the library then takes its default.
func (s *cStrings) add(text string) *C.char {
	if text == "" {
		return nil
	}
	c := C.CString(text)
	s.all = append(s.all, unsafe.Pointer(c))
	return c
}

// list is an array in C memory, with a NULL at its end; nil for none.
func (s *cStrings) list(texts []string) **C.char {
	if len(texts) == 0 {
		return nil
	}
	memory := C.calloc(C.size_t(len(texts)+1), C.size_t(unsafe.Sizeof(uintptr(0))))
	s.all = append(s.all, memory)
	array := unsafe.Slice((**C.char)(memory), len(texts)+1)
	for i, text := range texts {
		c := C.CString(text)
		s.all = append(s.all, unsafe.Pointer(c))
		array[i] = c
	}
	return (**C.char)(memory)
}

// natives is the array in C memory.
func (s *cStrings) natives(of []Native) *C.weir_native {
	memory := C.calloc(C.size_t(len(of)), C.sizeof_weir_native)
	s.all = append(s.all, memory)
	for i, native := range unsafe.Slice((*C.weir_native)(memory), len(of)) {
		native.backend, native.handles = s.add(of[i].Backend), of[i].Handles
		unsafe.Slice((*C.weir_native)(memory), len(of))[i] = native
	}
	return (*C.weir_native)(memory)
}

func (s *cStrings) free() {
	for _, memory := range s.all {
		C.free(memory)
	}
	s.all = nil
}
