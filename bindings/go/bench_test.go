// SPDX-License-Identifier: Apache-2.0

package weir

// What the binding adds to the calls: a resident buffer is acquired and released, in Go and in a loop of C, beside as
// many bare calls of C. Ratios of one run count, not times. `scripts/test-go` runs it; it gates nothing.

import (
	"sort"
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

// The same work in C, here, and in bare calls, in turns; of each the median of many short rounds, and of what Go adds in a round
// its median too, so that a machine that is busy with other things for a while changes nothing.
func BenchmarkAgainstC(b *testing.B) {
	w, buffer := resident(b)
	const calls = 500
	var inC, inGo, bare, added []float64
	for i := 0; i < 1001 || i < b.N && i < 10001; i++ {
		c := each(calls, func() {
			if result := yardstick.Loop(w.pool.Handle(), w.stream.Handle(), buffer.Handle(), calls); result != 0 {
				b.Fatal(Result(result))
			}
		})
		here := each(calls, func() {
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
		call := each(calls, func() { yardstick.Nothing(calls) })
		inC, inGo, bare = append(inC, c), append(inGo, here), append(bare, call)
		added = append(added, (here-c)/call)
	}
	b.ReportMetric(median(inC), "C-ns")
	b.ReportMetric(median(bare), "cgo-ns")
	b.ReportMetric(median(inGo), "go-ns")
	b.ReportMetric(median(added), "cgo-calls-per-pair")
	b.ReportMetric(median(added)/2, "added-in-cgo-calls-per-call")
}

// each is nanoseconds of one of the calls that work does.
func each(calls int, work func()) float64 {
	begin := time.Now()
	work()
	return float64(time.Since(begin).Nanoseconds()) / float64(calls)
}

func median(of []float64) float64 {
	sort.Float64s(of)
	return of[len(of)/2]
}
