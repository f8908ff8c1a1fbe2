// SPDX-License-Identifier: Apache-2.0

package weir

// Goroutines that use one pool at once, with everything that may be called meanwhile, and objects that are closed under others.

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestManyGoroutinesOnePool(t *testing.T) {
	w := newWorld(t, setup{devicePages: 24, hostPages: 256, background: true})
	const goroutines, rounds = 8, 40
	var group sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		b, stream := w.buffer(2), w.newStream(0)
		group.Add(1)
		go func(g byte) {
			defer group.Done()
			for i := byte(0); i < rounds; i++ {
				want := g*rounds + i
				if err := w.pool.Run(background, stream, func(v View) {
					memory, _ := v.Bytes(0)
					for j := range memory {
						memory[j] = want
					}
				}, DiscardWrite(b)); err != nil {
					t.Error(err)
					return
				}
				if err := w.pool.Prefetch(stream, Read(b)); err != nil {
					t.Error(err)
				}
				got := make([]byte, 64)
				if _, err := b.ReadAt(got, page-32); err != nil || got[0] != want || got[63] != want {
					t.Error(err, got[0], want)
					return
				}
				if _, err := w.pool.Stats(); err != nil {
					t.Error(err)
				}
			}
		}(byte(g))
	}
	group.Add(1)
	go func() {
		defer group.Done()
		for i := 0; i < 20; i++ {
			if _, err := w.pool.Snapshot(); err != nil {
				t.Error(err)
			}
			if _, err := w.pool.Map(); err != nil {
				t.Error(err)
			}
			if _, err := w.pool.Trim(0, TrimSelective, page); err != nil {
				t.Error(err)
			}
		}
	}()
	group.Wait()
}

// A lease may be released by another goroutine than the one that took it, and by one only.
func TestOneReleaseOfMany(t *testing.T) {
	w := newWorld(t, setup{})
	b := w.buffer(1)
	for i := 0; i < 100; i++ {
		lease := w.acquire(ReadWrite(b))
		var ended, refused atomic.Int64
		var group sync.WaitGroup
		for g := 0; g < 4; g++ {
			group.Add(1)
			go func() {
				defer group.Done()
				switch err := lease.Release(); {
				case err == nil:
					ended.Add(1)
				case errors.Is(err, ErrClosed):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}()
		}
		group.Wait()
		if ended.Load() != 1 || refused.Load() != 3 {
			t.Fatal(ended.Load(), refused.Load())
		}
	}
}

// A release that is refused ends nothing, so a Release beside it must not be told that the lease has ended.
func TestReleaseBesideARefusedOne(t *testing.T) {
	w := newWorld(t, setup{devices: 2})
	b, second, other := w.buffer(1), w.buffer(1), w.newStream(1)
	for i := 0; i < 300; i++ {
		uses := []Use{Read(b), Read(second)}[:1+i%2] // with a slot, and without
		lease := w.acquire(uses...)
		refused := make(chan struct{})
		var group sync.WaitGroup
		group.Add(1)
		go func() {
			defer group.Done()
			for first := true; ; first = false {
				err := lease.ReleaseOn(other)
				if first {
					close(refused)
				}
				if errors.Is(err, ErrClosed) {
					return
				}
				if !errors.Is(err, ErrInvalidArgument) {
					t.Error(err)
					return
				}
			}
		}()
		<-refused
		err := lease.Release()
		if err != nil {
			for lease.Release() != nil { // or the other goroutine would never end
			}
		}
		group.Wait()
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// Closing while others use it: they succeed, or are told that it is closed; the close succeeds once, or answers that it is busy.
func TestCloseUnderOthers(t *testing.T) {
	w := newWorld(t, setup{})
	for round := 0; round < 60; round++ {
		b, err := w.pool.NewBuffer(page, nil)
		ok(t, err)
		var group sync.WaitGroup
		var closed atomic.Int64
		for g := 0; g < 3; g++ {
			group.Add(2)
			go func() {
				defer group.Done()
				lease, err := w.pool.TryAcquire(w.stream, Read(b))
				if err == nil {
					err = lease.Release()
				}
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}()
			go func() {
				defer group.Done()
				err := b.Close()
				if err == nil {
					closed.Add(1)
				} else if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			}()
		}
		group.Wait()
		if err := b.Close(); err == nil {
			closed.Add(1)
		}
		if closed.Load() != 1 {
			t.Fatalf("closed %d times", closed.Load())
		}
	}
}
