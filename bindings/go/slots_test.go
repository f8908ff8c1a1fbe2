// SPDX-License-Identifier: Apache-2.0

package weir

// Leases with slots: they keep buffers and streams open as counted ones do, are found when they are forgotten, and
// what is stale is told apart from what is there now. Objects are wrapped where the library, which knows its leases, would
// refuse to close them by itself.

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestALeaseWithASlotKeepsItsObjectsOpen(t *testing.T) {
	w := newWorld(t, setup{})
	own := w.buffer(1)
	s, err := w.context.WrapStream(0, w.stream.Handle())
	ok(t, err)
	b, err := w.pool.WrapBuffer(own.Handle())
	ok(t, err)
	lease, err := w.pool.TryAcquire(s, Read(b))
	ok(t, err)
	if s.slots.taken() != 1 || b.slotsTaken() != 1 || b.state.Load() != 0 {
		t.Fatal("the lease has no slot: the test tests nothing")
	}
	expect(t, b.Close(), ErrBusy)
	expect(t, s.Close(), ErrBusy)
	if b.state.Load() != 0 || s.state.Load() != 0 {
		t.Fatal("a Close that was refused has left something")
	}
	ok(t, lease.Release())
	ok(t, b.Close())
	ok(t, s.Close())
	for i := range s.slots {
		if s.slots[i].state != nil {
			t.Fatal("a closed stream keeps states, which are cycles with finalizers")
		}
	}
	_, err = w.pool.TryAcquire(s, Read(own))
	expectClosed(t, err)
	_, err = w.pool.TryAcquire(w.stream, Read(b))
	expectClosed(t, err)
	if own.slotsTaken() != 0 || b.slotsTaken() != 0 {
		t.Fatal("an acquire that was refused keeps a slot")
	}
}

func expectClosed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrClosed) {
		t.Fatalf("got %v, not ErrClosed", err)
	}
}

func TestMoreLeasesThanSlots(t *testing.T) {
	w := newWorld(t, setup{})
	b, s := w.buffer(1), w.newStream(0)
	var leases []Lease
	for i := 0; i < 2*slotsOfStream+3; i++ {
		lease, err := w.pool.TryAcquire(s, Read(b))
		ok(t, err)
		if memory, err := lease.Bytes(0); err != nil || len(memory) != page {
			t.Fatal(len(memory), err)
		}
		leases = append(leases, lease)
	}
	if s.slots.taken() != slotsOfStream || b.state.Load() != slotsOfStream+3 {
		t.Fatal(s.slots.taken(), b.state.Load())
	}
	for i := range leases {
		expect(t, b.Close(), ErrBusy)
		expect(t, s.Close(), ErrBusy)
		lease := leases[(i*5)%len(leases)] // their number is a prime
		ok(t, lease.Release())
		expectClosed(t, lease.Release())
	}
	if s.slots.taken() != 0 || b.state.Load() != 0 {
		t.Fatal(s.slots.taken(), b.state.Load())
	}
}

func TestAStaleLeaseIsNotTheNextOne(t *testing.T) {
	w := newWorld(t, setup{})
	first, second := w.buffer(1), w.buffer(2)
	stale := w.acquire(Read(first))
	ok(t, stale.Release())
	lease := w.acquire(ReadWrite(second))
	if lease.state != stale.state {
		t.Fatal("the state was not taken again: the test tests nothing")
	}
	expectClosed(t, stale.Release())
	expectClosed(t, stale.ReleaseOn(w.stream))
	if _, err := stale.Bytes(0); !errors.Is(err, ErrClosed) || stale.Len() != 0 || lease.Len() != 1 || lease.Stream() != w.stream {
		t.Fatal(err, stale.Len(), lease.Len())
	}
	expect(t, second.Close(), ErrBusy)
	expect(t, lease.ReleaseOn(&Stream{context: w.context}), ErrInvalidHandle)
	ok(t, lease.ReleaseOn(w.stream))
	expectClosed(t, lease.Release())
}

// An acquire that the library refuses leaves its slot as it was, and tells the library's numbers.
func TestARefusedLeaseGivesItsSlotBack(t *testing.T) {
	w := newWorld(t, setup{})
	b := w.buffer(1)
	for i := 0; i < 2*slotsOfStream; i++ {
		_, err := w.pool.TryAcquire(w.stream, Read(b).Range(0, 0))
		expect(t, err, ErrInvalidArgument)
		_, err = w.pool.TryAcquire(w.stream, Use{Buffer: b, Length: Whole, Mode: ModeRead | 1<<30})
		expect(t, err, ErrInvalidArgument)
		_, err = w.pool.TryAcquire(w.stream, Use{Buffer: b, Length: Whole, Mode: 77})
		expect(t, err, ErrInvalidArgument)
	}
	if w.stream.slots.taken() != 0 {
		t.Fatal(w.stream.slots.taken())
	}
	remote := w.acquire(Read(b).Remote())
	if remote.state.slot == nil || remote.state.uses[0].flags != 1 || remote.state.uses[0].mode != 1 {
		t.Fatal("the flag has not come to the library")
	}
	ok(t, remote.Release())
}

// Leases that are forgotten on a stream that lives on are reported, and their slots are good again.
func TestForgottenLeasesGiveTheirSlotsBack(t *testing.T) {
	leaks := recordLeaks(t)
	w := newWorld(t, setup{})
	b := w.buffer(1)
	told := func() int {
		leaks.Lock()
		defer leaks.Unlock()
		return len(leaks.kinds)
	}
	for round := 1; round <= 2; round++ {
		forget(t, w, b)
		if w.stream.slots.taken() != slotsOfStream {
			t.Fatal(w.stream.slots.taken())
		}
		for i := 0; i < 1000 && (told() < round*(slotsOfStream+1) || w.stream.slots.taken() != 0 || b.state.Load() != 0); i++ {
			collect()
		}
		if told() != round*(slotsOfStream+1) || w.stream.slots.taken() != 0 {
			t.Fatalf("%d leases told, %d slots taken", told(), w.stream.slots.taken())
		}
	}
	ok(t, w.acquire(ReadWrite(b)).Release())
	ok(t, b.Close())
}

//go:noinline
func forget(t *testing.T, w *world, b *Buffer) {
	var released []Lease // so that the slots have states, which are then taken from them
	for i := 0; i < slotsOfStream; i++ {
		released = append(released, w.acquire(Read(b)))
	}
	for i := range released {
		ok(t, released[i].Release())
	}
	for i := 0; i < slotsOfStream+1; i++ {
		w.acquire(Read(b))
	}
}

// A buffer is closed without a look at streams that it was never leased on, however many there are.
func TestCloseLooksAtItsOwnStreamsOnly(t *testing.T) {
	w := newWorld(t, setup{})
	for used := 0; used <= streamsOfBuffer; used++ {
		b := w.buffer(1)
		for i := 0; i < used; i++ {
			s := w.newStream(0)
			for j := 0; j < 2; j++ {
				lease, err := w.pool.TryAcquire(s, Read(b))
				ok(t, err)
				expect(t, b.Close(), ErrBusy)
				ok(t, lease.Release())
			}
		}
		done := make(chan error, 1)
		streamSlots.Lock() // a walk over all streams waits
		go func() { done <- b.Close() }()
		select {
		case err := <-done:
			streamSlots.Unlock()
			ok(t, err)
		case <-time.After(minute):
			streamSlots.Unlock()
			t.Fatalf("a Close after leases on %d streams walks over all", used)
		}
	}
}

// ... and with more streams than a buffer remembers none is missed.
func TestLeasesOnManyStreams(t *testing.T) {
	w := newWorld(t, setup{})
	own := w.buffer(1)
	for last := 0; last < streamsOfBuffer+3; last++ {
		b, err := w.pool.WrapBuffer(own.Handle())
		ok(t, err)
		var leases []Lease
		for i := 0; i < streamsOfBuffer+3; i++ {
			lease, err := w.pool.TryAcquire(w.newStream(0), Read(b))
			ok(t, err)
			leases = append(leases, lease)
		}
		for i := range leases {
			if i != last {
				ok(t, leases[i].Release())
				expect(t, b.Close(), ErrBusy)
			}
		}
		if taken := b.slotsTaken(); taken != 1 {
			t.Fatalf("%d slots taken", taken)
		}
		ok(t, leases[last].Release())
		ok(t, b.Close())
	}
}

// ... nor while the stream with the lease is the one that makes room in the buffer's memory.
func TestCloseWhileOneStreamTooManyComes(t *testing.T) {
	w := newWorld(t, setup{})
	own := w.buffer(1)
	var streams [streamsOfBuffer + 1]*Stream
	for i := range streams {
		streams[i] = w.newStream(0)
	}
	for round := 0; round < 3000; round++ {
		b, err := w.pool.WrapBuffer(own.Handle())
		ok(t, err)
		var held Lease
		for _, s := range streams[:streamsOfBuffer] {
			ok(t, held.releaseOrZero())
			held, err = w.pool.TryAcquire(s, Read(b))
			ok(t, err)
		}
		var group sync.WaitGroup
		group.Add(1)
		go func() {
			defer group.Done()
			lease, err := w.pool.TryAcquire(streams[streamsOfBuffer], Read(b))
			if err == nil {
				err = lease.Release()
			}
			if err != nil {
				t.Error(err)
			}
		}()
		for i := 0; i < 20; i++ {
			expect(t, b.Close(), ErrBusy)
		}
		group.Wait()
		ok(t, held.Release())
		ok(t, b.Close())
	}
}

func (l Lease) releaseOrZero() error {
	if l == (Lease{}) {
		return nil
	}
	return l.Release()
}

// An acquire beside a Close that is refused is never told that something is closed.
func TestARefusedCloseDisturbsNobody(t *testing.T) {
	w := newWorld(t, setup{})
	b := w.buffer(1)
	held := w.acquire(Read(b))
	var group sync.WaitGroup
	var over atomic.Bool
	for _, close := range []func() error{b.Close, w.stream.Close} {
		group.Add(1)
		go func(close func() error) {
			defer group.Done()
			for !over.Load() {
				if err := close(); !errors.Is(err, ErrBusy) {
					t.Error(err)
					return
				}
			}
		}(close)
	}
	for i := 0; i < 20000; i++ {
		lease, err := w.pool.TryAcquire(w.stream, Read(b))
		if err == nil {
			err = lease.Release()
		}
		if err == nil && i%16 == 0 {
			_, err = b.Info(0, Whole)
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	over.Store(true)
	group.Wait()
	ok(t, held.Release())
}

// A Close that succeeds has no lease beside it: the library would not know, for both objects are wrapped.
func TestNobodyHoldsWhatIsClosed(t *testing.T) {
	w := newWorld(t, setup{})
	own := w.buffer(1)
	succeeded := 0
	for round := 0; round < 1500; round++ {
		s, err := w.context.WrapStream(0, w.stream.Handle())
		ok(t, err)
		b, err := w.pool.WrapBuffer(own.Handle())
		ok(t, err)
		var bufferClosed, streamClosed atomic.Bool
		var group sync.WaitGroup
		group.Add(3)
		go func() { defer group.Done(); bufferClosed.Store(b.Close() == nil) }()
		go func() { defer group.Done(); streamClosed.Store(s.Close() == nil) }()
		granted := 0
		go func() {
			defer group.Done()
			for i := 0; i < 4; i++ {
				lease, err := w.pool.TryAcquire(s, Read(b))
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
				granted++
				if bufferClosed.Load() || streamClosed.Load() {
					t.Error("a lease on what was closed")
				}
				before := bufferClosed.Load() || streamClosed.Load()
				if info, err := own.Info(0, Whole); err != nil || info.Leases != 1 {
					t.Error(info.Leases, err)
				}
				if before != (bufferClosed.Load() || streamClosed.Load()) {
					t.Error("closed under a lease")
				}
				ok(t, lease.Release())
			}
		}()
		group.Wait()
		if granted != 0 && (bufferClosed.Load() || streamClosed.Load()) {
			succeeded++
		}
		if !bufferClosed.Load() {
			ok(t, b.Close())
		}
		if !streamClosed.Load() {
			ok(t, s.Close())
		}
	}
	t.Logf("in %d rounds both a lease and a Close came through", succeeded)
}
