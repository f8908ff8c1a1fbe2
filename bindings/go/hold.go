// SPDX-License-Identifier: Apache-2.0

package weir

// What keeps memory where it is for longer than a lease: holds, registered host memory, allocations for frameworks.

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// Hold keeps a whole buffer resident on a device, without a lease. Holds nest. One that is dropped without a Close is
// reported ([OnLeak]) and not undone, for work may be running under it: its buffer stays open.
type Hold struct {
	object
	buffer  *Buffer
	address uint64
}

// HoldMode says what a hold lets others do with the buffer meanwhile.
type HoldMode int

// Modes of a hold.
const (
	HoldShared HoldMode = iota // leases on the device, Write and Discard go to the held memory; elsewhere it can be read
	HoldRead                   // no writes, the holder's neither
	HoldAlone                  // no leases, reads, writes or discards besides
)

// Hold makes the whole buffer resident on device and keeps it there until the Hold is closed. It returns when the bytes are
// there. What is written there, by any code, is the buffer's latest version. It is HoldAs with HoldShared.
func (b *Buffer) Hold(device Device) (*Hold, error) { return b.HoldAs(device, HoldShared) }

// HoldAs is Hold in a mode. Holds of one mode nest, but for HoldAlone; every other pair, and a second device, is
// ErrLeaseConflict.
func (b *Buffer) HoldAs(device Device, mode HoldMode) (*Hold, error) {
	const op = "hold"
	use, flags := C.uint32_t(C.WEIR_READ_WRITE), C.uint64_t(0)
	switch mode {
	case HoldShared:
	case HoldRead:
		use = C.WEIR_READ
	case HoldAlone:
		flags = C.WEIR_HOLD_ALONE
	default:
		return nil, refused(op, ErrInvalidArgument, "%d is no mode of a hold", mode)
	}
	if err := b.enter(op); err != nil {
		return nil, err
	}
	var address C.uint64_t
	err := failed(op, C.weirgo_hold(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), C.uint32_t(device), use, flags, &address))
	if err != nil {
		b.leave()
		return nil, err
	}
	h := &Hold{buffer: b, address: uint64(address)}
	open(h, &h.object, kindHold, b.handle, (func(*Hold) error)(nil))
	return h, nil
}

// Address is the buffer's on the device.
func (h *Hold) Address() uint64 { return h.address }

// Close undoes the hold. The caller has made sure that no work enqueued under it is still running.
func (h *Hold) Close() error {
	const op = "close hold"
	err := h.finish(op, func() error {
		return failed(op, C.weirgo_unhold(C.uintptr_t(h.buffer.pool.handle), C.uintptr_t(h.handle)))
	})
	if err == nil {
		h.buffer.leave()
	}
	return err
}

// HostRegistration is memory of the caller's as the home of a buffer's host copies.
type HostRegistration struct {
	object
	buffer *Buffer
	memory []byte
}

// RegisterHost gives the buffer memory, of at least its size and page-aligned, as the home of its host copies, until the
// HostRegistration is closed. It must NOT be Go's memory, which C may not keep: use syscall.Mmap or C.malloc. With
// load its contents become the buffer's.
func (b *Buffer) RegisterHost(memory []byte, load bool) (*HostRegistration, error) {
	const op = "register host memory"
	if uint64(len(memory)) < b.size {
		return nil, refused(op, ErrInvalidArgument, "%d bytes of memory for a buffer of %d", len(memory), b.size)
	}
	if err := b.enter(op); err != nil {
		return nil, err
	}
	err := failed(op, C.weirgo_host_register(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), unsafe.Pointer(&memory[0]),
		flag(load, C.WEIR_HOST_LOAD)))
	if err != nil {
		b.leave()
		return nil, err
	}
	r := &HostRegistration{buffer: b, memory: memory}
	open(r, &r.object, kindRegistration, b.handle, (*HostRegistration).Close)
	return r, nil
}

// Close writes the buffer's latest contents to the memory and parts from it. ErrOverBudget, and nothing changed, if they
// then fit nowhere else.
func (r *HostRegistration) Close() error {
	const op = "close host registration"
	err := r.finish(op, func() error {
		return failed(op, C.weirgo_host_unregister(C.uintptr_t(r.buffer.pool.handle), C.uintptr_t(r.handle)))
	})
	if err == nil {
		r.memory = nil
		r.buffer.leave()
	}
	return err
}

// Allocation is stream-ordered memory of a device: always resident, never moved. One that is dropped without being freed is
// reported ([OnLeak]) and not freed, for work may be running on it: its pool stays open.
type Allocation struct {
	object
	pool    *Pool
	size    uint64
	address uint64
}

// Malloc allocates memory on a device, for work enqueued on stream from now on, or on any stream if that is nil.
func (p *Pool) Malloc(device Device, stream *Stream, size uint64) (*Allocation, error) {
	const op = "malloc"
	if err := p.enter(op); err != nil {
		return nil, err
	}
	var queue C.uintptr_t
	if stream != nil {
		if err := stream.enter(op); err != nil {
			p.leave()
			return nil, err
		}
		defer stream.leave()
		queue = C.uintptr_t(stream.handle)
	}
	var address C.uint64_t
	err := failed(op, C.weirgo_malloc(C.uintptr_t(p.handle), C.uint32_t(device), queue, C.uint64_t(size), &address))
	if err != nil {
		p.leave()
		return nil, err
	}
	a := &Allocation{pool: p, size: size, address: uint64(address)}
	open(a, &a.object, kindAllocation, uintptr(address), (func(*Allocation) error)(nil))
	return a, nil
}

// Address is on the device.
func (a *Allocation) Address() uint64 { return a.address }

// Size is in bytes, as it was asked for.
func (a *Allocation) Size() uint64 { return a.size }

// Close frees the memory at once: no work on it may be running.
func (a *Allocation) Close() error { return a.free("free", nil) }

// FreeOn frees the memory after the work enqueued so far on stream. It is freed too where the error is of the device
// (ErrBackend, ErrDeviceLost), and kept with ErrStreamCapturing, ErrInvalidHandle and ErrForked.
func (a *Allocation) FreeOn(stream *Stream) error {
	const op = "free"
	if err := stream.enter(op); err != nil {
		return err
	}
	defer stream.leave()
	return a.free(op, stream)
}

func (a *Allocation) free(op string, stream *Stream) error {
	closed, err := a.finishFor(op, nil, func() error {
		var queue C.uintptr_t
		if stream != nil {
			queue = C.uintptr_t(stream.handle)
		}
		return failed(op, C.weirgo_free(C.uintptr_t(a.pool.handle), queue, C.uint64_t(a.address)))
	}, allocationStays)
	if closed {
		a.pool.leave()
	}
	return err
}

// allocationStays holds for the errors with which the library has not freed the memory.
func allocationStays(err error) bool {
	return isAny(err, ErrStreamCapturing, ErrInvalidHandle, ErrInvalidArgument, ErrForked)
}
