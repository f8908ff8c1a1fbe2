// SPDX-License-Identifier: Apache-2.0

package weir

// Acquires that wait: for a release, until ctx ends, in a queue, and when the end of ctx and the grant come together.
// Whatever the outcome, a caller that was told an error holds nothing.

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowded has a lease on most of the device, and a buffer that does not fit beside it.
func crowded(t *testing.T) (w *world, lease Lease, wanted *Buffer) {
	w = newWorld(t, setup{devicePages: 4, hostPages: 64})
	leased := w.buffer(3)
	return w, w.acquire(DiscardWrite(leased)), w.buffer(2)
}

type outcome struct {
	lease Lease
	err   error
}

func start(call func() (Lease, error)) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		lease, err := call()
		result <- outcome{lease, err}
	}()
	return result
}

func TestWaitsForARelease(t *testing.T) {
	w, lease, wanted := crowded(t)
	w.fill(wanted, 4)
	ctx, cancel := context.WithTimeout(background, minute)
	defer cancel()
	result := start(func() (Lease, error) { return w.pool.Acquire(ctx, w.stream, Read(wanted)) })
	w.awaitWaiter(nil)
	ok(t, lease.Release())
	got := <-result
	ok(t, got.err)
	ok(t, w.stream.Synchronize())
	memory, err := got.lease.Bytes(0)
	ok(t, err)
	if string(memory) != string(pattern(2*page, 4)) {
		t.Fatal("an acquire that waited has other bytes")
	}
	ok(t, got.lease.Release())
}

func TestSoleHolderWaitsWithoutABound(t *testing.T) {
	w, lease, wanted := crowded(t)
	result := start(func() (Lease, error) {
		return w.pool.AcquireWith(background, w.stream, AcquireOptions{SoleHolder: true, Operation: "sole"}, Read(wanted))
	})
	w.awaitWaiter(nil)
	if id, err := w.pool.OperationID("sole"); id != 1 || err != nil {
		t.Fatal(id, err)
	}
	ok(t, lease.Release())
	got := <-result
	ok(t, got.err)
	ok(t, got.lease.Release())
}

func TestBackgroundDoesNotWait(t *testing.T) {
	w, lease, wanted := crowded(t)
	_, err := w.pool.Acquire(background, w.stream, Read(wanted))
	expect(t, err, ErrWouldBlock)
	ok(t, lease.Release())
}

func TestCancelEndsTheWait(t *testing.T) {
	w, lease, wanted := crowded(t)
	ctx, cancel := context.WithCancel(background)
	result := start(func() (Lease, error) { return w.pool.Acquire(ctx, w.stream, Read(wanted)) })
	w.awaitWaiter(nil)
	cancel()
	got := <-result
	if !errors.Is(got.err, context.Canceled) || !errors.Is(got.err, ErrCancelled) || errors.Is(got.err, ErrTimeout) {
		t.Fatal(got.err)
	}
	if got.lease != (Lease{}) {
		t.Fatal("a lease with an error")
	}
	ok(t, wanted.Close()) // nothing of it is left
	ok(t, lease.Release())
}

func TestDeadlineEndsTheWait(t *testing.T) {
	w, lease, wanted := crowded(t)
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	_, err := w.pool.Acquire(ctx, w.stream, Read(wanted))
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrTimeout) {
		t.Fatal(err)
	}
	_, err = w.pool.Acquire(ctx, w.stream, Read(wanted)) // it has ended before
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	longer, cancel := context.WithTimeout(background, minute)
	defer cancel()
	_, err = w.pool.AcquireWith(longer, w.stream, AcquireOptions{Timeout: 20 * time.Millisecond}, Read(wanted))
	if !errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ok(t, wanted.Close())
	ok(t, lease.Release())
}

// An acquire that queues behind one that waits for good is cancelled at once, and leaves nothing behind.
func TestCancelInTheQueue(t *testing.T) {
	w, lease, wanted := crowded(t)
	first, endFirst := context.WithCancel(background)
	defer endFirst()
	a := start(func() (Lease, error) { return w.pool.Acquire(first, w.stream, Read(wanted)) })
	w.awaitWaiter(nil)
	second, endSecond := context.WithCancel(background)
	other := w.buffer(2)
	b := start(func() (Lease, error) { return w.pool.Acquire(second, w.stream, Read(other)) })
	endSecond()
	if got := <-b; !errors.Is(got.err, context.Canceled) {
		t.Fatal(got.err)
	}
	third, endThird := context.WithTimeout(background, time.Millisecond)
	defer endThird()
	if _, err := w.pool.Acquire(third, w.stream, Read(other)); !errors.Is(err, ErrTimeout) {
		t.Fatal(err)
	}
	ok(t, other.Close())
	ok(t, lease.Release())
	got := <-a
	ok(t, got.err)
	ok(t, got.lease.Release())
}

// What cannot be granted any more when its turn comes is refused with the library's own words and numbers.
func TestRefusalWhileWaiting(t *testing.T) {
	w, lease, wanted := crowded(t)
	ctx, cancel := context.WithTimeout(background, minute)
	defer cancel()
	result := start(func() (Lease, error) { return w.pool.Acquire(ctx, w.stream, ReadWrite(wanted)) })
	w.awaitWaiter(nil)
	held, err := w.pool.Malloc(0, nil, 1) // takes the fourth page for good
	ok(t, err)
	more, err := w.pool.Malloc(0, nil, page+1)
	expect(t, err, ErrWouldBlock)
	if more != nil {
		t.Fatal("memory with an error")
	}
	ok(t, lease.Release())
	got := <-result
	ok(t, got.err)
	ok(t, got.lease.Release())
	ok(t, held.Close())
}

// An acquire on the pool's thread that ends otherwise than by a grant tells why, as one in the caller's does.
func TestAWaiterIsToldTheReason(t *testing.T) {
	defer ErrorReports(ErrorReports(true))
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	leased, wanted := w.buffer(3), w.buffer(2)
	hold, err := leased.Hold(0)
	ok(t, err)
	_, err = w.pool.TryAcquire(w.stream, Read(wanted))
	want := expect(t, err, ErrOverBudget)
	s, err := begin("acquire", w.pool, w.stream, []Use{Read(wanted)})
	ok(t, err)
	got := expect(t, s.await(background, &AcquireOptions{SoleHolder: true}), ErrOverBudget)
	if *got != *want || got.ShortBy != page || got.Message == got.Result.String() || !strings.Contains(got.Report, "What to do: ") {
		t.Errorf("%+v, not %+v", got, want)
	}
	s.recycle()
	ok(t, hold.Close())
}

// The cancellation and the release that grants race with each other, many times: either outcome is right, and neither
// leaves a lease, a guard or a handle behind.
func TestCancelRacesWithTheGrant(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	leased, wanted := w.buffer(3), w.buffer(2)
	granted, cancelled := 0, 0
	for round := 0; round < 400; round++ {
		lease := w.acquire(Read(leased))
		ctx, cancel := context.WithCancel(background)
		var over atomic.Bool
		result := start(func() (Lease, error) {
			defer over.Store(true)
			return w.pool.Acquire(ctx, w.stream, Read(wanted))
		})
		if round%2 == 0 {
			w.awaitWaiter(&over)
		}
		var group sync.WaitGroup
		group.Add(2)
		go func() { defer group.Done(); cancel() }()
		go func() { defer group.Done(); ok(t, lease.Release()) }()
		got := <-result
		group.Wait()
		switch {
		case got.err == nil:
			granted++
			ok(t, got.lease.Release())
		case errors.Is(got.err, context.Canceled):
			cancelled++
		default:
			t.Fatal(got.err)
		}
		if n := wanted.state.Load() + wanted.slotsTaken(); n != 0 {
			t.Fatalf("%d users of the buffer after round %d", n, round)
		}
		info, err := wanted.Info(0, Whole)
		ok(t, err)
		if info.Leases != 0 {
			t.Fatalf("%d leases after round %d", info.Leases, round)
		}
	}
	t.Logf("%d granted, %d cancelled", granted, cancelled)
	if cancelled == 0 {
		t.Error("no round was cancelled: the test tests nothing")
	}
}

// Many goroutines want more than there is, some of them impatiently.
func TestManyWait(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 256})
	const goroutines, rounds = 8, 60
	var buffers []*Buffer
	var streams []*Stream
	for i := 0; i < goroutines; i++ {
		buffers = append(buffers, w.buffer(3)) // two never fit
		streams = append(streams, w.newStream(0))
	}
	var group sync.WaitGroup
	var granted, ended atomic.Int64
	for g := 0; g < goroutines; g++ {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			for i := 0; i < rounds; i++ {
				patience := minute
				if (g+i)%4 == 0 {
					patience = 50 * time.Microsecond
				}
				ctx, cancel := context.WithTimeout(background, patience)
				lease, err := w.pool.Acquire(ctx, streams[g], ReadWrite(buffers[g]))
				cancel()
				if errors.Is(err, context.DeadlineExceeded) && patience != minute {
					ended.Add(1)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				granted.Add(1)
				if err := lease.Release(); err != nil {
					t.Error(err)
				}
			}
		}(g)
	}
	group.Wait()
	t.Logf("%d granted, %d ended", granted.Load(), ended.Load())
	if granted.Load() < goroutines*rounds*3/4 {
		t.Errorf("only %d granted", granted.Load())
	}
}
