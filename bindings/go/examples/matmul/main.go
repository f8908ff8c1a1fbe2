// SPDX-License-Identifier: Apache-2.0

// Matmul multiplies matrices on a device that holds a quarter of them: C = A x B, in tiles, one buffer a tile. Each
// step leases three tiles, enqueues their product, and prefetches the tiles of the step after it. The same program is in C,
// Rust and Python.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"weir.invalid/go/weir"
)

// Small whole numbers: every sum is exact in float32.
func elementOfA(i, k int) int { return (7*i+3*k)%11 - 5 }
func elementOfB(k, j int) int { return (5*k+2*j)%13 - 6 }

// matrix is n x n elements in tiles of t x t, row by row.
type matrix struct {
	tiles []*weir.Buffer
	grid  int
}

func newMatrix(pool *weir.Pool, grid, t int) (matrix, error) {
	m := matrix{grid: grid}
	for i := 0; i < grid*grid; i++ {
		b, err := pool.NewBuffer(uint64(t*t*4), &weir.BufferOptions{Element: weir.ElementF32})
		if err != nil {
			return m, err
		}
		m.tiles = append(m.tiles, b)
	}
	return m, nil
}

func (m matrix) at(row, column int) *weir.Buffer { return m.tiles[row*m.grid+column] }

func (m matrix) close() (err error) {
	for _, b := range m.tiles {
		err = firstError(err, b.Close())
	}
	return err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// fill writes element(row, column) of the whole matrix into its tiles.
func (m matrix) fill(t int, element func(row, column int) int) error {
	tile := make([]float32, t*t)
	for row := 0; row < m.grid; row++ {
		for column := 0; column < m.grid; column++ {
			for i := range tile {
				tile[i] = float32(element(row*t+i/t, column*t+i%t))
			}
			if _, err := m.at(row, column).WriteAt(weir.AsBytes(tile), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// step is one product of tiles: C(i,j) += A(i,k) x B(k,j).
type step struct{ i, j, k int }

// steps go through C row by row, every second row backwards, so that what is still on the device is used first.
func steps(grid int) (all []step) {
	for i := 0; i < grid; i++ {
		for n := 0; n < grid; n++ {
			j := n
			if i%2 == 1 {
				j = grid - 1 - n
			}
			for k := 0; k < grid; k++ {
				all = append(all, step{i, j, k})
			}
		}
	}
	return all
}

func (s step) uses(a, b, c matrix) []weir.Use {
	result := weir.ReadWrite(c.at(s.i, s.j))
	if s.k == 0 {
		result = weir.DiscardWrite(c.at(s.i, s.j))
	}
	return []weir.Use{weir.Read(a.at(s.i, s.k)), weir.Read(b.at(s.k, s.j)), result}
}

// product runs in the stream, on the leased tiles.
func product(v weir.View, t int, first bool) {
	a, errA := weir.Slice[float32](v, 0)
	b, errB := weir.Slice[float32](v, 1)
	c, errC := weir.Slice[float32](v, 2)
	if err := firstError(errA, firstError(errB, errC)); err != nil {
		panic(err)
	}
	for i := 0; i < t; i++ {
		row := c[i*t : i*t+t]
		if first {
			for j := range row {
				row[j] = 0
			}
		}
		for k := 0; k < t; k++ {
			factor := a[i*t+k]
			for j, value := range b[k*t : k*t+t] {
				row[j] += factor * value
			}
		}
	}
}

func multiply(ctx context.Context, pool *weir.Pool, stream *weir.Stream, a, b, c matrix, t int) error {
	all := steps(a.grid)
	for n, s := range all {
		if n+1 < len(all) {
			if err := pool.Prefetch(stream, all[n+1].uses(a, b, c)...); err != nil {
				return err
			}
		}
		first := s.k == 0
		work := func(v weir.View) { product(v, t, first) }
		if err := pool.Run(ctx, stream, work, s.uses(a, b, c)...); err != nil {
			return err
		}
	}
	return stream.Synchronize()
}

// wrongElements reads C back and compares all of it with sums of whole numbers.
func wrongElements(c matrix, t int) (wrong int, err error) {
	n := c.grid * t
	columns := make([]int, n) // of B, one after another
	want := make([]int, n)
	for row := 0; row < n; row++ {
		for j := range want {
			want[j] = 0
		}
		for k := 0; k < n; k++ {
			for j := range columns {
				columns[j] = elementOfB(k, j)
			}
			factor := elementOfA(row, k)
			for j, value := range columns {
				want[j] += factor * value
			}
		}
		line := make([]float32, t)
		for column := 0; column < c.grid; column++ {
			if _, err := c.at(row/t, column).ReadAt(weir.AsBytes(line), int64(row%t*t*4)); err != nil {
				return 0, err
			}
			for j, value := range line {
				if value != float32(want[column*t+j]) {
					wrong++
				}
			}
		}
	}
	return wrong, nil
}

// granule is a size of pages that a tile has a whole number of, so that none of the little device is lost to rounding.
func granule(t int) int {
	tile := t * t * 4
	if whole := tile & -tile; whole > 4096 {
		return whole
	}
	return 4096
}

func run(ctx context.Context, n, t int) (wrong int, err error) {
	matrices := uint64(3 * n * n * 4)
	budget := matrices / 4
	c, err := weir.NewContext(&weir.ContextOptions{
		Options: fmt.Sprintf("host.memory=%d;host.granule=%d;host.granule_large=0", matrices, granule(t)),
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = firstError(err, c.Close()) }()
	// "gpu,host" where the kernel is a GPU's: here it is a function of the CPU.
	device, err := c.FindDevice("host")
	if err != nil {
		return 0, err
	}
	pool, err := c.NewPool(weir.PoolOptions{
		Devices:    []weir.PoolDevice{{Device: device, Budget: budget}},
		HostBudget: matrices + budget,
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = firstError(err, pool.Close()) }()
	stream, err := c.NewStream(device)
	if err != nil {
		return 0, err
	}
	defer func() { err = firstError(err, stream.Close()) }()
	var m [3]matrix
	for i := range m {
		m[i], err = newMatrix(pool, n/t, t)
		defer func(m matrix) { err = firstError(err, m.close()) }(m[i])
		if err != nil {
			return 0, err
		}
	}
	if err := firstError(m[0].fill(t, elementOfA), m[1].fill(t, elementOfB)); err != nil {
		return 0, err
	}
	if err := multiply(ctx, pool, stream, m[0], m[1], m[2], t); err != nil {
		return 0, err
	}
	stats, err := pool.Stats()
	if err != nil {
		return 0, err
	}
	if wrong, err = wrongElements(m[2], t); err != nil {
		return 0, err
	}
	fmt.Printf("matmul N=%d tile=%d: device holds 25 %% of the matrices, moved %d MiB to the device, %d wrong elements\n", n, t,
		stats.PromotedBytes>>20, wrong)
	return wrong, nil
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("matmul: ")
	n := flag.Int("size", 768, "rows and columns of a matrix; a multiple of the tile's")
	t := flag.Int("tile", 128, "rows and columns of a tile")
	flag.Parse()
	if *t < 1 || *n < *t || *n%*t != 0 {
		log.Fatalf("--size %d is no multiple of --tile %d", *n, *t)
	}
	// A context that can end lets an acquire wait for room; Ctrl-C ends it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	wrong, err := run(ctx, *n, *t)
	stop()
	var e *weir.Error
	if errors.As(err, &e) {
		log.Fatalf("%v (asked for %d bytes, short by %d)", err, e.Asked, e.ShortBy)
	}
	if err != nil {
		log.Fatal(err)
	}
	if wrong != 0 {
		os.Exit(1)
	}
}
