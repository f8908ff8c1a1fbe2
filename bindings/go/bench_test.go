// SPDX-License-Identifier: Apache-2.0

package weir

// What the binding adds to the calls: a resident buffer is acquired and released, in Go and in a loop of C, beside as
// many bare calls of C. Ratios of one run count, not times. `scripts/test-go` runs it; it gates nothing.

import (
	"testing"
	"time"

	"weir.invalid/go/weir/internal/yardstick"
)

func resident(b *testing.B) (*world, *Buffer) {
	w := newWorld(b, setup{})
	buffer := w.buffer(1)
	ok(b, w.acquire(DiscardWrite(buffer)).Release())
	ok(b, w.stream.Synchronize())
	return w, buffer
}

func BenchmarkAcquireRelease(b *testing.B) {
	w, buffer := resident(b)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		lease, err := w.pool.TryAcquire(w.stream, Read(buffer))
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	w, buffer := resident(b)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := w.pool.Run(background, w.stream, nil, Read(buffer)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunSteps16(b *testing.B) {
	w, buffer := resident(b)
	steps := make([]Step, 16)
	for i := range steps {
		steps[i] = Step{Uses: []Use{Read(buffer)}}
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if _, err := w.pool.RunSteps(background, w.stream, steps...); err != nil {
			b.Fatal(err)
		}
	}
}

// The same work in C, in bare calls, and here, in turns; of each the best of many short runs, since a machine that is busy
// with other things can only add.
func BenchmarkAgainstC(b *testing.B) {
	w, buffer := resident(b)
	const calls = 500
	inC, inGo, bare := 1e9, 1e9, 1e9
	for i := 0; i < 300 || i < b.N && i < 3000; i++ {
		best(&inC, calls, func() {
			if result := yardstick.Loop(w.pool.Handle(), w.stream.Handle(), buffer.Handle(), calls); result != 0 {
				b.Fatal(Result(result))
			}
		})
		best(&inGo, calls, func() {
			for j := 0; j < calls; j++ {
				lease, err := w.pool.TryAcquire(w.stream, Read(buffer))
				if err == nil {
					err = lease.Release()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		best(&bare, calls, func() { yardstick.Nothing(calls) })
	}
	b.ReportMetric(inC, "C-ns")
	b.ReportMetric(bare, "cgo-ns")
	b.ReportMetric(inGo, "go-ns")
	b.ReportMetric((inGo-inC)/(2*bare), "added-in-cgo-calls-per-call")
	b.ReportMetric(inGo/(inC+2*bare), "go/(C+2cgo)")
}

// best keeps the least nanoseconds of a call.
func best(least *float64, calls int, work func()) {
	begin := time.Now()
	work()
	if each := float64(time.Since(begin).Nanoseconds()) / float64(calls); each < *least {
		*least = each
	}
}
