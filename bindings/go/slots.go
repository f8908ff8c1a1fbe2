// SPDX-License-Identifier: Apache-2.0

package weir

// The quick way to a lease of one use, by far the commonest, for which every instruction counts. A stream has a few
// slots; a goroutine that puts a buffer's serial into a free one, by one compare-and-swap, has what three things would cost more for: a
// state for the lease, a user counted into the stream, and one counted into the buffer. So Close of a stream or a
// buffer looks into slots beside its count. That is right because both sides write before they read: a goroutine that takes a slot
// does so before it looks whether the objects are being closed, and one that closes says so (askingBit) before it looks into
// the slots; at least one of them sees the other and gives way. A taken slot does not refer to its state, or a
// forgotten lease could never be found; a free one's state refers to nothing, or its stream would be in a cycle. The code that frees a
// slot keeps the objects alive until that is done, or their finalizers would find them in use.

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Leases of a stream beyond so many at a time go the ordinary way.
const slotsOfStream = 8

type slot struct {
	serial atomic.Uint64 // of the buffer; 0: free
	state  *leaseState   // of a free slot; belongs to the goroutine that has taken it
	one    C.weirgo_one
	_      [16]byte // whole cache lines each
}

type slots [slotsOfStream]slot

// The slots of all open streams: a wrapped buffer may be used on streams of another Context. Only Close of a buffer that was
// leased on more than streamsOfBuffer streams walks over them.
var streamSlots struct {
	sync.RWMutex
	all map[*slots]struct{}
}

var lastSerial atomic.Uint64

func newSerial() uint64 { return lastSerial.Add(1) }

func newSlots() *slots {
	s := new(slots)
	streamSlots.Lock()
	defer streamSlots.Unlock()
	if streamSlots.all == nil {
		streamSlots.all = map[*slots]struct{}{}
	}
	streamSlots.all[s] = struct{}{}
	return s
}

// forget is for a stream that is closed: no slot of it is taken for longer than it takes to see that.
func (s *slots) forget() {
	streamSlots.Lock()
	defer streamSlots.Unlock()
	delete(streamSlots.all, s)
	for i := range s {
		s[i].state = nil // the two are a cycle with a finalizer, which the collector would keep
	}
}

// taken counts all taken slots.
func (s *slots) taken() (count int64) {
	for i := range s {
		if s[i].serial.Load() != 0 {
			count++
		}
	}
	return count
}

// with counts the slots that have the buffer.
func (s *slots) with(serial uint64) (count int64) {
	for i := range s {
		if s[i].serial.Load() == serial {
			count++
		}
	}
	return count
}

// A buffer remembers so many streams that it was leased on, of the most usual number two: one for work, one for the CPU.
const streamsOfBuffer = 2

// remembered is an atomic.Pointer[slots], which is a call of a function in Go 1.19.
type remembered struct{ at unsafe.Pointer }

func (r *remembered) slots() *slots { return (*slots)(atomic.LoadPointer(&r.at)) }

// More than that: the last one remembered is this, for good.
var manyStreams slots

// leasedOn remembers the stream. A goroutine that has taken a slot calls it before it looks whether the buffer is being closed: that is
// what the buffer's Close looks into.
func (b *Buffer) leasedOn(s *slots) {
	for i := range b.leased {
		known := b.leased[i].slots()
		if known == nil && !atomic.CompareAndSwapPointer(&b.leased[i].at, nil, unsafe.Pointer(s)) {
			known = b.leased[i].slots()
		}
		if known == nil || known == s || known == &manyStreams {
			return
		}
	}
	atomic.StorePointer(&b.leased[streamsOfBuffer-1].at, unsafe.Pointer(&manyStreams))
}

// slotsTaken counts the slots that have the buffer.
func (b *Buffer) slotsTaken() (count int64) {
	var known [streamsOfBuffer]*slots // looked at once: the last one may be forgotten for manyStreams, with a lease there
	for i := range known {
		known[i] = b.leased[i].slots()
	}
	if known[streamsOfBuffer-1] != &manyStreams {
		for _, s := range known {
			if s != nil {
				count += s.with(b.serial)
			}
		}
		return count
	}
	streamSlots.RLock()
	defer streamSlots.RUnlock()
	for s := range streamSlots.all {
		count += s.with(b.serial)
	}
	return count
}

// take is a slot that was free, or nil.
func (s *slots) take(serial uint64) *slot {
	for i := range s {
		if s[i].serial.Load() == 0 && s[i].serial.CompareAndSwap(0, serial) {
			return &s[i]
		}
	}
	return nil
}

// acquireNow waits for no lease. Everything is put in its place before the call of C, since stores that are left for after
// it hold up the end.
func (p *Pool) acquireNow(stream *Stream, uses []Use) (Lease, error) {
	if len(uses) != 1 || uses[0].Buffer == nil || uses[0].Buffer.pool != p {
		return p.acquire(context.Background(), stream, nil, uses)
	}
	use, b := &uses[0], uses[0].Buffer
	taken := stream.slots.take(b.serial)
	if taken == nil {
		return p.acquire(context.Background(), stream, nil, uses)
	}
	if b.leased[0].slots() != stream.slots {
		b.leasedOn(stream.slots)
	}
	if stream.state.Load()|b.state.Load() >= askingBit {
		taken.serial.Store(0)
		return p.acquire(context.Background(), stream, nil, uses) // which tells, or waits until that is decided
	}
	s := taken.state
	if s == nil {
		s = newLeaseState(taken)
		taken.one.stream = C.uintptr_t(stream.handle)
	}
	s.stream, s.buffer, taken.state = stream, b, nil
	one := &taken.one
	one.pool = C.uintptr_t(p.handle)
	one.use.buffer, one.use.offset, one.use.length = C.uintptr_t(b.handle), C.uint64_t(use.Offset), C.uint64_t(use.Length)
	one.use.mode, one.use.flags = use.Mode.parts()
	C.weirgo_acquire_one(one)
	if one.error != 0 {
		err := oneError("acquire", one)
		s.giveSlot()
		return Lease{}, err
	}
	if leakStacks { // which never changes in a program
		s.stack = callerStack(2)
	}
	return Lease{s, s.generation.Load()}, nil
}

// giveSlot gives the slot back, with the state.
func (s *leaseState) giveSlot() {
	taken, stream, b := s.slot, s.stream, s.buffer
	s.stream, s.buffer, taken.state = nil, nil, s
	taken.serial.Store(0)
	runtime.KeepAlive(stream)
	runtime.KeepAlive(b)
}

// oneError is the error of the last call with one.
func oneError(op string, one *C.weirgo_one) error {
	e := (*C.weirgo_error)(foreign(uintptr(one.error)))
	one.error = 0
	return failed(op, e)
}
