// SPDX-License-Identifier: Apache-2.0

package weir

// Streams. One with leases has users, so it can't be closed under them.

/*
#include "shim.h"
*/
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// Stream is an in-order queue of a device.
type Stream struct {
	object
	context *Context
	device  Device
	slots   *slots
	reach   bool // the CPU may dereference the addresses of leases
}

// NewStream creates a stream on a device. On [DeviceHost] leases give CPU addresses and the calling goroutine itself is
// the queue.
func (c *Context) NewStream(device Device) (*Stream, error) {
	const op = "create stream"
	return c.stream(op, device, func(handle *C.uintptr_t) *C.weirgo_error {
		return C.weirgo_stream_create(C.uintptr_t(c.handle), C.uint32_t(device), handle)
	})
}

// WrapNativeStream wraps a stream of the device's runtime (CUstream, hipStream_t, ...), which must outlive the Stream. One
// that means another queue on each thread (CUDA's CU_STREAM_PER_THREAD) may be used by the goroutine that wraps it only,
// which calls runtime.LockOSThread before and keeps that until the Stream is closed. On a device without
// CapStreamAnyThread no lease on a wrapped stream can be waited for, as that is done by a thread of the pool's: an
// [Pool.Acquire] whose ctx can end is ErrNotSupported where [Pool.TryAcquire] is ErrWouldBlock.
func (c *Context) WrapNativeStream(device Device, native unsafe.Pointer) (*Stream, error) {
	const op = "wrap native stream"
	return c.stream(op, device, func(handle *C.uintptr_t) *C.weirgo_error {
		return C.weirgo_stream_wrap(C.uintptr_t(c.handle), C.uint32_t(device), C.uintptr_t(uintptr(native)), handle)
	})
}

// WrapStream makes a Stream of a weir_stream of device that another language of the program owns. Close ends the Stream
// only.
func (c *Context) WrapStream(device Device, handle unsafe.Pointer) (*Stream, error) {
	const op = "wrap stream"
	if handle == nil {
		return nil, refused(op, ErrInvalidHandle, "the handle is nil")
	}
	s, err := c.stream(op, device, func(out *C.uintptr_t) *C.weirgo_error {
		*out = C.uintptr_t(uintptr(handle))
		return nil
	})
	if err == nil {
		s.borrowed = true
	}
	return s, err
}

func (c *Context) stream(op string, device Device, create func(*C.uintptr_t) *C.weirgo_error) (*Stream, error) {
	if err := c.enter(op); err != nil {
		return nil, err
	}
	reach, err := c.canReach(device)
	var handle C.uintptr_t
	if err == nil {
		err = failed(op, create(&handle))
	}
	if err != nil {
		c.leave()
		return nil, err
	}
	s := &Stream{context: c, device: device, reach: reach, slots: newSlots()}
	open(s, &s.object, kindStream, uintptr(handle), (*Stream).Close)
	return s, nil
}

// Handle is the weir_stream, for C and other languages. It is the Stream's as before:
// runtime.KeepAlive belongs after C's last use of it.
func (s *Stream) Handle() unsafe.Pointer { return foreign(s.handle) }

// Device is where the stream was made.
func (s *Stream) Device() Device { return s.device }

// Native is the runtime's own handle. ErrNotSupported on [DeviceHost].
func (s *Stream) Native() (unsafe.Pointer, error) {
	const op = "native stream"
	if err := s.enter(op); err != nil {
		return nil, err
	}
	defer s.leave()
	var native C.uintptr_t
	err := failed(op, C.weirgo_stream_native(C.uintptr_t(s.handle), &native))
	return foreign(uintptr(native)), err
}

// Close closes the stream without waiting for its work. ErrBusy while leases taken on it are unreleased. After any error
// but that and ErrForked, as of a runtime that could not end its own stream, the Stream is closed all the same.
func (s *Stream) Close() error {
	const op = "close stream"
	closed, err := s.finishFor(op, s.slots.taken, func() error {
		if s.borrowed {
			return nil
		}
		return failed(op, C.weirgo_stream_close(C.uintptr_t(s.handle)))
	}, streamStays)
	if closed {
		s.slots.forget()
		s.context.leave()
	}
	return err
}

// streamStays holds for the errors with which the library has not closed a stream.
func streamStays(err error) bool { return isAny(err, ErrBusy, ErrForked) }

// Synchronize blocks until everything enqueued so far has finished.
func (s *Stream) Synchronize() error {
	const op = "synchronize stream"
	if err := s.enter(op); err != nil {
		return err
	}
	defer s.leave()
	return failed(op, C.weirgo_stream_synchronize(C.uintptr_t(s.handle)))
}

// Done tells whether everything enqueued so far has finished; it never blocks.
func (s *Stream) Done() (bool, error) {
	const op = "query stream"
	if err := s.enter(op); err != nil {
		return false, err
	}
	defer s.leave()
	var ready C.int32_t
	err := failed(op, C.weirgo_stream_query(C.uintptr_t(s.handle), &ready))
	return ready != 0, err
}

// HostCall enqueues call, to run in stream order on a thread of the device's. It must not call this package, nor wait for
// anything that does. On the host backend this is how "kernels" run. A panic in it ends the program.
func (s *Stream) HostCall(call func()) error {
	const op = "host call"
	if call == nil {
		return refused(op, ErrInvalidArgument, "the function is nil")
	}
	if err := s.enter(op); err != nil {
		return err
	}
	defer s.leave()
	handle := cgo.NewHandle(call)
	err := failed(op, C.weirgo_stream_host_call(C.uintptr_t(s.handle), C.uintptr_t(handle)))
	if err != nil {
		handle.Delete()
	}
	return err
}
