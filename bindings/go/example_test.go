// SPDX-License-Identifier: Apache-2.0

package weir_test

// Examples, which are tests: each prints what stands at its end.

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"weir.invalid/go/weir"
)

const mebibyte = 1 << 20

// machine is a context with a pool and a stream on a device of CPU memory, and what closes them.
func machine(deviceBudget uint64) (*weir.Pool, *weir.Stream, func()) {
	c, err := weir.NewContext(&weir.ContextOptions{Options: "host.memory=64M", NoSearch: true})
	check(err)
	pool, err := c.NewPool(weir.PoolOptions{
		Devices:    []weir.PoolDevice{{Device: 0, Budget: deviceBudget}},
		HostBudget: 32 * mebibyte, NoBackground: true,
	})
	check(err)
	stream, err := c.NewStream(0)
	check(err)
	return pool, stream, func() {
		check(stream.Close())
		check(pool.Close())
		check(c.Close())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Twice as many buffers as the device has room for, all written, all read back.
func Example() {
	pool, stream, end := machine(8 * mebibyte)
	defer end()
	var buffers []*weir.Buffer
	for i := 0; i < 8; i++ {
		b, err := pool.NewBuffer(2*mebibyte, nil)
		check(err)
		defer b.Close()
		buffers = append(buffers, b)
	}
	for i, b := range buffers {
		lease, err := pool.TryAcquire(stream, weir.DiscardWrite(b)) // resident until released
		check(err)
		check(stream.Synchronize()) // the CPU is about to touch it: wait for the bytes
		numbers, err := weir.Slice[uint32](lease, 0)
		check(err)
		for j := range numbers {
			numbers[j] = uint32(i + j)
		}
		check(lease.Release())
	}
	right := 0
	for i, b := range buffers {
		last := make([]uint32, 1)
		_, err := b.ReadAt(weir.AsBytes(last), 2*mebibyte-4)
		check(err)
		if last[0] == uint32(i+2*mebibyte/4-1) {
			right++
		}
	}
	stats, err := pool.Stats()
	check(err)
	fmt.Printf("right: %d of 8; moved down %d MiB\n", right, stats.DemotedBytes/mebibyte)
	// Output: right: 8 of 8; moved down 8 MiB
}

// An acquire that would have to wait for another lease is ended by its context.
func ExamplePool_Acquire() {
	pool, stream, end := machine(4 * mebibyte)
	defer end()
	a, err := pool.NewBuffer(4*mebibyte, nil)
	check(err)
	defer a.Close()
	b, err := pool.NewBuffer(4*mebibyte, nil)
	check(err)
	defer b.Close()
	lease, err := pool.TryAcquire(stream, weir.DiscardWrite(a))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = pool.Acquire(ctx, stream, weir.Read(b))
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, weir.ErrTimeout))
	check(lease.Release())
	lease, err = pool.Acquire(context.Background(), stream, weir.Read(b))
	check(err)
	fmt.Println("granted, with", lease.Len(), "use")
	check(lease.Release())
	// Output:
	// true true
	// granted, with 1 use
}

// The numbers behind an error.
func ExampleError() {
	pool, stream, end := machine(4 * mebibyte)
	defer end()
	b, err := pool.NewBuffer(6*mebibyte, nil)
	check(err)
	defer b.Close()
	_, err = pool.TryAcquire(stream, weir.Read(b))
	var e *weir.Error
	if errors.Is(err, weir.ErrOverBudget) && errors.As(err, &e) {
		fmt.Printf("%v: asked for %d MiB, short by %d MiB\n", e.Result, e.Asked/mebibyte, e.ShortBy/mebibyte)
	}
	// Output: weir: over budget: asked for 6 MiB, short by 2 MiB
}

// Work that runs in the order of the stream, with its memory, in one call.
func ExamplePool_Run() {
	pool, stream, end := machine(4 * mebibyte)
	defer end()
	b, err := pool.NewBuffer(mebibyte, nil)
	check(err)
	defer b.Close()
	add := func(v weir.View) {
		numbers, err := weir.Slice[float64](v, 0)
		check(err)
		for i := range numbers {
			numbers[i] += 1.5
		}
	}
	for i := 0; i < 4; i++ {
		check(pool.Run(context.Background(), stream, add, weir.ReadWrite(b)))
	}
	sum := make([]float64, 1)
	_, err = b.ReadAt(weir.AsBytes(sum), 512)
	check(err)
	fmt.Println(sum[0])
	// Output: 6
}

// Ranges of any number line, without memory.
func ExampleArena() {
	arena, err := weir.NewArena(1024, 1)
	check(err)
	defer arena.Close()
	a, _, err := arena.Allocate(100, 0)
	check(err)
	_, offset, err := arena.Allocate(100, 64)
	check(err)
	check(arena.Free(a))
	stats, err := arena.Stats()
	check(err)
	fmt.Println(offset, stats.Used, stats.FreeRanges)
	// Output: 128 100 2
}

// The codec of the compressed tier, alone.
func ExampleCompress() {
	weights := make([]float32, 1<<16)
	for i := range weights {
		weights[i] = float32(i % 16)
	}
	blob, err := weir.Compress(nil, weir.AsBytes(weights), weir.CompressOptions{Element: weir.ElementF32})
	check(err)
	back, err := weir.Decompress(nil, blob, 0)
	check(err)
	fmt.Println(len(blob) < len(back)/4, len(back))
	// Output: true 262144
}
