// SPDX-License-Identifier: Apache-2.0

package weir

// The safety net: what is dropped without being closed is reported, with the stack if wanted, and closed, children before
// their owners. And what leaks nowhere: handles of Go values that crossed into C.

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

type leakLog struct {
	sync.Mutex
	kinds  []string
	stacks []string
}

// recordLeaks replaces the hook that fails the run, for this test.
func recordLeaks(t *testing.T) *leakLog {
	log := &leakLog{}
	before := OnLeak(func(kind, stack string) {
		log.Lock()
		defer log.Unlock()
		log.kinds = append(log.kinds, kind)
		log.stacks = append(log.stacks, stack)
	})
	t.Cleanup(func() { OnLeak(before) })
	return log
}

// drop makes one object of each kind that the garbage collector closes once it is forgotten, and forgets them.
//
//go:noinline
func drop(t *testing.T) {
	c, err := NewContext(&ContextOptions{Options: smallHost, NoSearch: true, Log: func(LogLevel, string) {}})
	ok(t, err)
	p, err := c.NewPool(PoolOptions{Devices: []PoolDevice{{0, 8 * page}}, HostBudget: 16 * page})
	ok(t, err)
	client, err := p.NewClient(nil)
	ok(t, err)
	s, err := c.NewStream(0)
	ok(t, err)
	b, err := p.NewBuffer(page, &BufferOptions{Client: client})
	ok(t, err)
	_, err = p.TryAcquire(s, Read(b))
	ok(t, err)
	_, err = NewArena(100, 1)
	ok(t, err)
}

func TestForgottenObjectsAreReportedAndClosed(t *testing.T) {
	before := LiveObjects()
	leaks := recordLeaks(t)
	leakStacks = true
	defer func() { leakStacks = false }()
	drop(t)
	// Each collection ends what nothing refers to any more; owners follow.
	for i := 0; i < 100 && len(LiveObjects()) != len(before); i++ {
		collect()
		runtime.Gosched()
	}
	if now := LiveObjects(); len(now) != len(before) {
		t.Fatalf("still open: %v", now)
	}
	leaks.Lock()
	defer leaks.Unlock()
	at := map[string]int{}
	for i, kind := range leaks.kinds {
		at[kind] = i + 1
		if !strings.Contains(leaks.stacks[i], "safety_test.go") || !strings.Contains(leaks.stacks[i], "drop") {
			t.Errorf("%s was made at\n%s", kind, leaks.stacks[i])
		}
	}
	for _, order := range [][2]string{{"Lease", "Buffer"}, {"Buffer", "Client"}, {"Client", "Pool"},
		{"Pool", "Context"}, {"Lease", "Stream"}, {"Stream", "Context"}} {
		if at[order[0]] == 0 || at[order[1]] == 0 || at[order[0]] > at[order[1]] {
			t.Errorf("%v: %v", order, leaks.kinds)
		}
	}
	if at["Arena"] == 0 || len(leaks.kinds) != 7 {
		t.Errorf("%v", leaks.kinds)
	}
}

// Work may be running on what is held or allocated: the collector reports it, and neither undoes nor frees it.
func TestForgottenHoldsAndAllocationsStay(t *testing.T) {
	leaks := recordLeaks(t)
	w := newWorld(t, setup{})
	b := w.buffer(2)
	address := func() uint64 {
		_, err := b.Hold(0)
		ok(t, err)
		a, err := w.pool.Malloc(0, w.stream, page)
		ok(t, err)
		return a.Address()
	}()
	told := func() int {
		leaks.Lock()
		defer leaks.Unlock()
		return len(leaks.kinds)
	}
	for i := 0; i < 100 && told() != 2; i++ {
		collect()
	}
	collect() // beyond what a close on a goroutine of its own would need
	if told() != 2 || LiveObjects()["Hold"] != 1 || LiveObjects()["Allocation"] != 1 {
		t.Fatal(leaks.kinds, LiveObjects())
	}
	expect(t, b.Close(), ErrBusy)
	expect(t, w.pool.Close(), ErrBusy)
	stats, err := w.pool.Stats()
	ok(t, err)
	if stats.DeviceHeldBytes != 3*page {
		t.Fatalf("%d bytes are held", stats.DeviceHeldBytes)
	}
	// As they were, so that the world can end.
	hold, memory := &Hold{buffer: b}, &Allocation{pool: w.pool, address: address}
	hold.handle, hold.kind, memory.kind = b.handle, kindHold, kindAllocation
	ok(t, hold.Close())
	ok(t, memory.FreeOn(w.stream))
}

// What can't be closed when the collector finds it is closed by a later collection, and reported once.
func TestTheSafetyNetTriesAgain(t *testing.T) {
	leaks := recordLeaks(t)
	var asked atomic.Int64
	func() {
		a := &Arena{}
		open(a, &a.object, kindArena, 0, func(a *Arena) error {
			return a.finish("close arena", func() error {
				if asked.Add(1) < 3 {
					return refused("close arena", ErrBusy, "on purpose")
				}
				return nil
			})
		})
	}()
	for i := 0; i < 1000 && LiveObjects()["Arena"] != 0; i++ {
		collect()
	}
	if asked.Load() != 3 || LiveObjects()["Arena"] != 0 {
		t.Errorf("asked %d times, %v", asked.Load(), LiveObjects())
	}
	live[kindArena].Store(0) // so that one failure is no other test's
	leaks.Lock()
	defer leaks.Unlock()
	if len(leaks.kinds) != 1 {
		t.Errorf("%v", leaks.kinds)
	}
}

// An end that fails leaves the object open for some errors only, and is told in any case.
func TestEndsThatFail(t *testing.T) {
	for _, one := range []struct {
		stays func(error) bool
		error Result
		want  bool
	}{
		{streamStays, ErrBusy, true}, {streamStays, ErrForked, true}, {streamStays, ErrBackend, false},
		{streamStays, ErrDeviceLost, false}, {allocationStays, ErrStreamCapturing, true},
		{allocationStays, ErrInvalidHandle, true}, {allocationStays, ErrInvalidArgument, true},
		{allocationStays, ErrForked, true}, {allocationStays, ErrBackend, false}, {allocationStays, ErrDeviceLost, false},
	} {
		o := object{kind: kindStream}
		before := live[kindStream].Add(1)
		fail := func() error { return refused("end", one.error, "on purpose") }
		closed, err := o.finishFor("end", nil, fail, one.stays)
		expect(t, err, one.error)
		if closed == one.want || o.isClosed() == one.want || (live[kindStream].Load() == before) != one.want {
			t.Errorf("%v: closed is %v", one.error, closed)
		}
		if one.want {
			ok(t, o.finish("end", func() error { return nil }))
		}
		if err := o.finish("end", fail); !errors.Is(err, ErrClosed) {
			t.Errorf("%v: %v", one.error, err)
		}
	}
}

func TestWhatIsClosedIsNoLeak(t *testing.T) {
	leaks := recordLeaks(t)
	w := newWorld(t, setup{})
	func() {
		b, err := w.pool.NewBuffer(page, nil)
		ok(t, err)
		ok(t, w.acquire(Read(b)).Release())
		ok(t, b.Close())
		wrapped, err := WrapPool(nil, w.pool.Handle())
		ok(t, err)
		_ = wrapped // what is not ours is let go in silence
	}()
	for i := 0; i < 4; i++ {
		collect()
	}
	leaks.Lock()
	defer leaks.Unlock()
	if len(leaks.kinds) != 0 {
		t.Errorf("%v", leaks.kinds)
	}
}

// A lease's memory outlives the buffer variable: the lease keeps its buffers, its stream and their owners.
func TestALeaseKeepsWhatItUses(t *testing.T) {
	leaks := recordLeaks(t)
	w := newWorld(t, setup{})
	lease := func() Lease {
		b, err := w.pool.NewBuffer(page, nil)
		ok(t, err)
		return w.acquire(DiscardWrite(b))
	}()
	for i := 0; i < 4; i++ {
		collect()
	}
	leaks.Lock()
	if len(leaks.kinds) != 0 {
		t.Errorf("%v", leaks.kinds)
	}
	leaks.Unlock()
	ok(t, w.stream.Synchronize())
	memory, err := lease.Bytes(0)
	ok(t, err)
	memory[page-1] = 1
	ok(t, lease.Release())
	for i := 0; i < 100 && LiveObjects()["Buffer"] != 0; i++ {
		collect()
		runtime.Gosched()
	}
	if LiveObjects()["Buffer"] != 0 {
		t.Error("the buffer is not closed")
	}
}

// A round of everything, many times, leaves no more in the pool and no more host memory in its records than a few rounds.
func TestRoundsLeaveNothing(t *testing.T) {
	w := newWorld(t, setup{devicePages: 8, hostPages: 64})
	client, err := w.pool.NewClient(&ClientOptions{Name: "round"})
	ok(t, err)
	round := func() {
		b, err := w.pool.NewBuffer(2*page, &BufferOptions{Client: client})
		ok(t, err)
		s, err := w.context.NewStream(0)
		ok(t, err)
		w.fill(b, 1)
		ok(t, w.pool.AnnounceAnew(s, Operation{Name: "round", Uses: []Use{Read(b)}}))
		ok(t, w.pool.Run(background, s, func(View) {}, Read(b)))
		ok(t, s.Synchronize())
		ctx, cancel := context.WithTimeout(background, minute)
		ok(t, w.pool.Do(ctx, s, func(Lease) error { return nil }, ReadWrite(b)))
		cancel()
		_, err = w.pool.TryAcquire(s, Read(b).Range(0, 0))
		expect(t, err, ErrInvalidArgument)
		_, err = w.pool.Snapshot()
		ok(t, err)
		ok(t, s.Close())
		ok(t, b.Close())
	}
	bookkeeping := func(rounds int) uint64 {
		for i := 0; i < rounds; i++ {
			round()
		}
		stats, err := w.pool.Stats()
		ok(t, err)
		if stats.Buffers != 0 {
			t.Fatal(stats.Buffers)
		}
		return stats.BookkeepingBytes
	}
	// Clients are left out: a pool keeps a record of each that it ever had.
	few, many := bookkeeping(50), bookkeeping(300)
	if many > few+few/4 {
		t.Errorf("records of %d bytes after 50 rounds, %d after 350", few, many)
	}
	ok(t, client.Close())
}
