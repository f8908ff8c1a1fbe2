// SPDX-License-Identifier: Apache-2.0

package weir

// Leases: the uses, the state that calls share with C, release. A lease's state is taken from a slot of its stream
// (slots.go) or a store, and goes back there: a Lease is a reference to it and the generation that it is good for, so
// that taking one allocates nothing, a stale one is known, and the finalizer that catches forgotten ones is set once
// and not at every acquire.

/*
#include "shim.h"
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Mode is what a use may do with its range.
type Mode uint32

const (
	ModeRead         Mode = C.WEIR_READ          // many readers at a time
	ModeReadWrite    Mode = C.WEIR_READ_WRITE    // alone
	ModeDiscardWrite Mode = C.WEIR_DISCARD_WRITE // alone; undefined until written
)

// UseAllowRemote, beside a mode (ModeRead | UseAllowRemote), allows that the use is granted where the pages are, on another
// device's memory.
const UseAllowRemote Mode = C.WEIR_USE_ALLOW_REMOTE << flagsShift

// The library's flags of a use are above its mode.
const (
	flagsShift = 16
	modeMask   = 1<<flagsShift - 1
)

func (m Mode) parts() (mode, flags C.uint32_t) {
	return C.uint32_t(m & modeMask), C.uint32_t(m >> flagsShift)
}

// Use is a range of a buffer, and what for. [Read], [ReadWrite] and [DiscardWrite] make one of a whole buffer. It has four
// fields and no more: Go keeps such a struct in registers, and the copies of a larger one cost as much as a third of a call of C.
type Use struct {
	Buffer *Buffer
	Offset uint64
	Length uint64 // or Whole, which is to the buffer's end; 0 is refused
	Mode   Mode
}

// Read uses a whole buffer for reading.
func Read(b *Buffer) Use { return Use{Buffer: b, Length: Whole, Mode: ModeRead} }

// ReadWrite uses a whole buffer for reading and writing.
func ReadWrite(b *Buffer) Use { return Use{Buffer: b, Length: Whole, Mode: ModeReadWrite} }

// DiscardWrite uses a whole buffer for writing; what it holds is not needed.
func DiscardWrite(b *Buffer) Use { return Use{Buffer: b, Length: Whole, Mode: ModeDiscardWrite} }

// Range is the use for length bytes from offset on.
func (u Use) Range(offset, length uint64) Use {
	u.Offset, u.Length = offset, length
	return u
}

// Remote is the use with UseAllowRemote.
func (u Use) Remote() Use {
	u.Mode |= UseAllowRemote
	return u
}

// leaseState is between Acquire and Release the lease's alone.
type leaseState struct {
	generation atomic.Uint64 // +1 with every release
	one        *C.weirgo_one // its lease is the state's; the rest is for leases of one use
	slot       *slot         // nil: of the store
	stream     *Stream
	pool       *Pool
	buffer     *Buffer // of a state with a slot
	buffers    []*Buffer
	uses       []C.weirgo_use // no Go pointers in it
	operation  C.uint32_t     // of the acquire that waits; 0: none
	stack      []uintptr
}

// What a state keeps for its next lease at most.
const keptUses = 64

var leaseStates = sync.Pool{New: func() any { return newLeaseState(nil) }}

func newLeaseState(of *slot) *leaseState {
	s := &leaseState{slot: of}
	if of != nil {
		s.one = &of.one
		s.uses = unsafe.Slice(&s.one.use, 1)
	} else {
		s.one = new(C.weirgo_one)
	}
	runtime.SetFinalizer(s, (*leaseState).forgotten)
	return s
}

// forgotten ends a lease that no goroutine can release any more. States from the store have none.
func (s *leaseState) forgotten() {
	if s.stream == nil {
		return
	}
	reportLeak(kindLease, s.stack)
	go func() {
		_ = failed("release", C.weirgo_release(s.one.lease, C.uintptr_t(s.stream.handle)))
		if s.slot != nil {
			s.slot.serial.Store(0) // without this state, which is not good for another finalizer
			runtime.KeepAlive(s)
		} else {
			s.leaveAll()
		}
	}()
}

// begin takes a state for the uses, and counts it in as a user of the stream and the buffers, and so of their pool.
func begin(op string, p *Pool, stream *Stream, uses []Use) (*leaseState, error) {
	if err := stream.enter(op); err != nil {
		return nil, err
	}
	s := leaseStates.Get().(*leaseState)
	s.stream, s.pool = stream, p
	s.one.stream, s.one.pool = C.uintptr_t(stream.handle), C.uintptr_t(p.handle)
	for i := range uses {
		if err := s.add(op, &uses[i]); err != nil {
			if e, ok := err.(*Error); ok {
				e.UseIndex = i
			}
			s.recycle()
			return nil, err
		}
	}
	if len(uses) == 0 {
		s.recycle()
		return nil, refused(op, ErrInvalidArgument, "there are no uses")
	}
	return s, nil
}

func (s *leaseState) add(op string, use *Use) error {
	b := use.Buffer
	if b == nil {
		return refused(op, ErrInvalidHandle, "a use has no buffer")
	}
	if err := b.enter(op); err != nil {
		return err
	}
	if b.pool != s.pool {
		if err := s.pool.mayUse(op, b, "a use's buffer is of another pool"); err != nil {
			b.leave()
			return err
		}
	}
	s.buffers = append(s.buffers, b)
	n := len(s.uses)
	if n < cap(s.uses) {
		s.uses = s.uses[:n+1]
	} else {
		s.uses = append(s.uses, C.weirgo_use{})
	}
	// In place, since a copy of a whole use is a part of the call's cost that shows; `reserved` is never set.
	u := &s.uses[n]
	u.buffer, u.offset, u.length = C.uintptr_t(b.handle), C.uint64_t(use.Offset), C.uint64_t(use.Length)
	u.mode, u.flags = use.Mode.parts()
	u.address = 0
	return nil
}

func (s *leaseState) leaveAll() {
	s.one.lease = 0
	for i, b := range s.buffers {
		b.leave()
		s.buffers[i] = nil
	}
	s.stream.leave()
	s.stream, s.pool, s.stack = nil, nil, nil
}

// recycle ends the state's use: it may be referred to only by an old generation.
func (s *leaseState) recycle() {
	if s.slot != nil {
		s.giveSlot()
		return
	}
	s.leaveAll()
	if cap(s.uses) > keptUses {
		s.uses, s.buffers = nil, nil
	}
	s.uses, s.buffers = s.uses[:0], s.buffers[:0]
	leaseStates.Put(s)
}

// Lease is the right to use ranges on a stream. It is a small value that may be copied: the copies are one lease, which
// ends with the first Release of any of them. The zero Lease is a released one. Its other methods must not run in one
// goroutine while another releases it: a released lease's state serves the next lease, which they would then tell of.
type Lease struct {
	state      *leaseState
	generation uint64
}

var errReleased = closedError("lease", kindLease.String())

// alive is the state of an unreleased lease, else nil.
func (l Lease) alive() *leaseState {
	if l.state == nil || l.state.generation.Load() != l.generation {
		return nil
	}
	return l.state
}

// Len is how many uses the lease has; 0 for a released one.
func (l Lease) Len() int {
	if s := l.alive(); s != nil {
		return len(s.uses)
	}
	return 0
}

// Stream is where the lease was taken; nil for a released one.
func (l Lease) Stream() *Stream {
	if s := l.alive(); s != nil {
		return s.stream
	}
	return nil
}

// Handle is the weir_lease, for C and other languages, which must not release it; 0 for a released one. Like a buffer's
// it is a number, and must not be kept in a Go pointer; runtime.KeepAlive(lease) belongs after C's last use of it.
func (l Lease) Handle() uintptr {
	if s := l.alive(); s != nil {
		return uintptr(s.one.lease)
	}
	return 0
}

// Address is where the i-th use's first byte is, on the stream's device or in its reach; 0 for a released lease. It panics
// if there is no such use.
func (l Lease) Address(i int) uint64 {
	if s := l.alive(); s != nil {
		return uint64(s.uses[i].address)
	}
	return 0
}

// Bytes is the memory of the i-th use, valid until the lease is released. On a stream of [DeviceHost] it is good at once, on
// one of a device that the CPU can reach (CapHostAccess) after [Stream.Synchronize], or in a [Stream.HostCall]. A use for
// reading must not be written to. ErrNotSupported where the CPU can't reach the device; for a use with UseAllowRemote, where
// it can't reach every device of the context.
func (l Lease) Bytes(i int) ([]byte, error) {
	const op = "lease bytes"
	s := l.alive()
	if s == nil {
		return nil, errReleased
	}
	if i < 0 || i >= len(s.uses) {
		return nil, refused(op, ErrInvalidArgument, "use %d of %d", i, len(s.uses))
	}
	if !s.stream.reach {
		return nil, refused(op, ErrNotSupported, "the CPU can't reach the memory of device %d", s.stream.device)
	}
	if err := s.canReach(op, i); err != nil {
		return nil, err
	}
	return bytesAt(uint64(s.uses[i].address), s.length(i)), nil
}

// canReach refuses the i-th use if it may be on the memory of a device that the CPU can't reach, though it reaches the
// stream's.
func (s *leaseState) canReach(op string, i int) error {
	if s.uses[i].flags&C.WEIR_USE_ALLOW_REMOTE == 0 || s.stream.device == DeviceHost {
		return nil
	}
	all, err := s.stream.context.canReachAll()
	if err == nil && !all {
		err = refused(op, ErrNotSupported, "use %d may be on another device, and the CPU can't reach the memory of all", i)
		err.(*Error).UseIndex = i
	}
	return err
}

func (s *leaseState) length(i int) uint64 {
	if length := uint64(s.uses[i].length); length != Whole {
		return length
	}
	b := s.buffer
	if s.slot == nil {
		b = s.buffers[i]
	}
	return b.size - uint64(s.uses[i].offset)
}

// Release ends the lease: what was enqueued on its stream so far is the work it protects. The lease is over whatever the
// result; an error other than [ErrClosed] tells that the device is lost, or that the stream had to be synchronised.
func (l Lease) Release() error {
	s := l.state
	if s == nil {
		return errReleased
	}
	taken := s.slot
	if taken == nil {
		return l.release(nil)
	}
	if !s.generation.CompareAndSwap(l.generation, l.generation+1) && !l.claim(l.generation+1) {
		return errReleased
	}
	// Pointers move before the call: stores that are left for after it hold up the end.
	stream, b := s.stream, s.buffer
	s.stream, s.buffer, taken.state = nil, nil, s
	C.weirgo_release_one(&taken.one)
	if taken.one.error != 0 {
		err := oneError("release", &taken.one)
		taken.serial.Store(0)
		runtime.KeepAlive(stream)
		runtime.KeepAlive(b)
		return err
	}
	taken.serial.Store(0)
	runtime.KeepAlive(stream)
	runtime.KeepAlive(b)
	return nil
}

// Close is Release.
func (l Lease) Close() error { return l.Release() }

// ReleaseOn ends the lease on another stream of the same device, that has been made to wait for the lease's own.
// ErrInvalidArgument on a stream of another device or context, and the lease goes on.
func (l Lease) ReleaseOn(stream *Stream) error {
	if err := stream.enter("release"); err != nil {
		return err
	}
	defer stream.leave()
	return l.release(stream)
}

func (l Lease) release(stream *Stream) error {
	s := l.state
	if s == nil {
		return errReleased
	}
	if stream == nil {
		if !l.claim(l.generation + 1) {
			return errReleased
		}
		var err error
		C.weirgo_release_one(s.one)
		if s.one.error != 0 {
			err = oneError("release", s.one)
		}
		s.recycle()
		return err
	}
	if !l.claim(l.generation | deciding) {
		return errReleased
	}
	if stream.context.handle != s.stream.context.handle {
		s.generation.Store(l.generation)
		return refused("release", ErrInvalidArgument, "the stream is of another context than the lease's")
	}
	err := failed("release", C.weirgo_release(s.one.lease, C.uintptr_t(stream.handle)))
	if isAny(err, ErrInvalidArgument, ErrInvalidHandle) {
		s.generation.Store(l.generation)
		return err
	}
	s.generation.Store(l.generation + 1)
	s.recycle()
	return err
}

// A generation with this bit is of a lease whose ReleaseOn may be refused yet.
const deciding = 1 << 63

// claim is for the goroutine that ends the lease; false: it has ended. It waits for a ReleaseOn that is under way.
func (l Lease) claim(next uint64) bool {
	for !l.state.generation.CompareAndSwap(l.generation, next) {
		if l.state.generation.Load()&^deciding != l.generation {
			return false
		}
		runtime.Gosched()
	}
	return true
}
