// SPDX-License-Identifier: Apache-2.0

package weir

// The quick way to a lease of one use, by far the commonest, for which every instruction counts. A stream has a few
// slots; who puts a buffer's serial into a free one, by one compare-and-swap, has what three things would cost more for: a
// state for the lease, a user counted into the stream, and one counted into the buffer. So Close of a stream or a
// buffer looks into slots beside its count. That is right because both sides write before they read: who takes a slot
// does so before it looks whether the objects are being closed, and who closes says so (askingBit) before it looks into
// the slots; at least one of them sees the other and gives way. A taken slot does not refer to its state, or a
// forgotten lease could never be found; a free one's state refers to nothing, or its stream would be in a cycle.

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"sync"
	"sync/atomic"
)

// Leases of a stream beyond so many at a time go the ordinary way.
const slotsOfStream = 8

type slot struct {
	serial atomic.Uint64 // of the buffer; 0: free
	state  *leaseState   // of a free slot; belongs to who has taken it
	one    C.weirgo_one
	_      [16]byte // whole cache lines each
}

type slots [slotsOfStream]slot

// The slots of all open streams: a wrapped buffer may be used on streams of another Context.
var streamSlots struct {
	sync.Mutex
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

// forget is for a stream that is closed: nobody takes a slot of it for longer than it takes to see that.
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

// slotsWith counts the slots of all streams that have the buffer.
func slotsWith(serial uint64) (count int64) {
	streamSlots.Lock()
	defer streamSlots.Unlock()
	for s := range streamSlots.all {
		for i := range s {
			if s[i].serial.Load() == serial {
				count++
			}
		}
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
	taken := s.slot
	s.stream, s.buffer, taken.state = nil, nil, s
	taken.serial.Store(0)
}

// oneError is the error of the last call with one.
func oneError(op string, one *C.weirgo_one) error {
	e := (*C.weirgo_error)(foreign(uintptr(one.error)))
	one.error = 0
	return failed(op, e)
}
