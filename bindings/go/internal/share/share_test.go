// SPDX-License-Identifier: Apache-2.0

package share

// A Go program and a Rust library share a pool in one process: Go makes pool and stream, Rust makes and fills a buffer, Go
// leases it, verifies it, and writes it anew while goroutines use the pool, Rust checks it. WEIR_SHARE_DEMO_DIR is the
// folder of libweir_share_demo.so; without it the test is skipped.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"weir.invalid/go/weir"
)

const (
	words = 128 << 10 // a MiB
	size  = words * 8
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRustAndGoShareAPool(t *testing.T) {
	folder := os.Getenv("WEIR_SHARE_DEMO_DIR")
	if folder == "" {
		t.Skip("WEIR_SHARE_DEMO_DIR is not set: no Rust library to share a pool with")
	}
	rust, err := Open(filepath.Join(folder, "libweir_share_demo.so"))
	ok(t, err)
	c, err := weir.NewContext(&weir.ContextOptions{Options: "host.memory=64M;host.granule=64K;host.granule_large=0", NoSearch: true})
	ok(t, err)
	defer func() { ok(t, c.Close()) }()
	pool, err := c.NewPool(weir.PoolOptions{Devices: []weir.PoolDevice{{Device: 0, Budget: 4 * size}}, HostBudget: 16 * size})
	ok(t, err)
	defer func() { ok(t, pool.Close()) }()
	stream, err := c.NewStream(0)
	ok(t, err)
	defer func() { ok(t, stream.Close()) }()

	b, err := rust.Make(pool, words, 42)
	ok(t, err)
	defer func() { ok(t, b.Close()) }()
	if b.Size() != size {
		t.Fatalf("%d bytes", b.Size())
	}
	if wrong := compare(t, pool, stream, b, func(i uint64) uint64 { return Word(42, i) }); wrong != 0 {
		t.Fatalf("Go finds %d words that are not what Rust wrote", wrong)
	}

	end := crowd(t, c, pool, rust)
	ok(t, pool.Run(context.Background(), stream, func(v weir.View) {
		numbers, err := weir.Slice[uint64](v, 0)
		if err != nil {
			panic(err)
		}
		for i := range numbers {
			numbers[i] = Word(4711, uint64(i))
		}
	}, weir.DiscardWrite(b)))
	wrong, err := rust.Check(c, b, 4711)
	ok(t, err)
	if wrong != 0 {
		t.Errorf("Rust finds %d words that are not what Go wrote", wrong)
	}
	if wrong, err = rust.Check(c, b, 42); err != nil || wrong == 0 {
		t.Errorf("Rust does not see that the words are new: %v", err)
	}
	ok(t, rust.Add(c, stream, b, 5))
	if wrong := compare(t, pool, stream, b, func(i uint64) uint64 { return Word(4711, i) + 5 }); wrong != 0 {
		t.Errorf("%d words are not what Rust's function in Go's stream made", wrong)
	}
	if err := rust.Conflict(c, b); !errors.Is(err, weir.ErrLeaseConflict) {
		t.Errorf("Rust's conflict is %v", err)
	}
	lease, err := pool.TryAcquire(stream, weir.ReadWrite(b))
	ok(t, err)
	if _, err := rust.Check(c, b, 42); !errors.Is(err, weir.ErrLeaseConflict) {
		t.Errorf("Go's lease does not keep Rust out: %v", err)
	}
	ok(t, lease.Release())
	end()
}

// compare leases the buffer and counts the words that are not as wanted.
func compare(t *testing.T, pool *weir.Pool, stream *weir.Stream, b *weir.Buffer, want func(uint64) uint64) (wrong int) {
	t.Helper()
	ok(t, pool.Do(context.Background(), stream, func(lease weir.Lease) error {
		if err := stream.Synchronize(); err != nil {
			return err
		}
		numbers, err := weir.Slice[uint64](lease, 0)
		for i, number := range numbers {
			if number != want(uint64(i)) {
				wrong++
			}
		}
		return err
	}, weir.Read(b)))
	return wrong
}

// crowd has goroutines use the pool, in Go and in Rust, until the function that it gives is called.
func crowd(t *testing.T, c *weir.Context, pool *weir.Pool, rust *Library) (end func()) {
	stop := make(chan struct{})
	var group, begun sync.WaitGroup
	for g := uint64(0); g < 3; g++ {
		group.Add(1)
		begun.Add(1)
		go func(seed uint64) {
			defer group.Done()
			for round := 0; ; round++ {
				if err := useBoth(c, pool, rust, seed); err != nil {
					t.Error(err)
				}
				if round == 0 {
					begun.Done()
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}(g)
	}
	begun.Wait()
	return func() {
		close(stop)
		group.Wait()
	}
}

// useBoth has a buffer made by Rust read by Go, and checked by Rust.
func useBoth(c *weir.Context, pool *weir.Pool, rust *Library, seed uint64) error {
	b, err := rust.Make(pool, 20000, seed)
	if err != nil {
		return err
	}
	last := make([]uint64, 1)
	if _, err = b.ReadAt(weir.AsBytes(last), 19999*8); err == nil && last[0] != Word(seed, 19999) {
		err = errors.New("another last word than Rust wrote is read by Go")
	}
	if wrong, failed := rust.Check(c, b, seed); err == nil && (failed != nil || wrong != 0) {
		err = fmt.Errorf("rust finds %d wrong words (%v)", wrong, failed)
	}
	if closed := b.Close(); err == nil {
		err = closed
	}
	return err
}
