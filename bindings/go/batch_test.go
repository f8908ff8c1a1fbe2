// SPDX-License-Identifier: Apache-2.0

package weir

// Many calls in one: uses, steps, reads and writes, announcements.

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

func TestManyUsesInOneCall(t *testing.T) {
	w := newWorld(t, setup{devicePages: 16, hostPages: 64})
	const count = 200 // more than a lease's state keeps
	var uses []Use
	for i := 0; i < count; i++ {
		b, err := w.pool.NewBuffer(64, nil)
		ok(t, err)
		defer func() { ok(t, b.Close()) }()
		uses = append(uses, DiscardWrite(b).Range(0, 32), Read(b).Range(32, 32))
	}
	for round := 0; round < 2; round++ {
		lease := w.acquire(uses...)
		ok(t, w.stream.Synchronize())
		for i := 0; i < lease.Len(); i++ {
			memory, err := lease.Bytes(i)
			ok(t, err)
			if len(memory) != 32 {
				t.Fatalf("use %d has %d bytes", i, len(memory))
			}
			if i%2 == 0 {
				memory[0] = byte(i)
			}
		}
		if _, err := lease.Bytes(2 * count); !errors.Is(err, ErrInvalidArgument) {
			t.Fatal(err)
		}
		ok(t, lease.Release())
	}
	got := make([]byte, 1)
	_, err := uses[100].Buffer.ReadAt(got, 0)
	ok(t, err)
	if got[0] != 100 {
		t.Fatal(got[0])
	}
}

func TestSteps(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	var buffers []*Buffer
	var steps []Step
	for i := 0; i < 8; i++ { // twice what fits: later steps evict what earlier ones left
		b := w.buffer(1)
		buffers = append(buffers, b)
		value := uint32(i)
		steps = append(steps, Step{[]Use{DiscardWrite(b)}, func(v View) {
			numbers, err := Slice[uint32](v, 0)
			if err != nil || v.Len() != 1 {
				panic(err)
			}
			for j := range numbers {
				numbers[j] = value
			}
		}})
	}
	sum := uint32(0)
	for i := 0; i+1 < 8; i++ {
		steps = append(steps, Step{[]Use{Read(buffers[i]), Read(buffers[i+1]).Range(4, 4)}, func(v View) {
			a, _ := Slice[uint32](v, 0)
			b, _ := Slice[uint32](v, 1)
			sum += a[len(a)-1]*10 + b[0]
		}})
	}
	steps = append(steps, Step{Uses: []Use{Read(buffers[0])}})
	n, err := w.pool.RunSteps(background, w.stream, steps...)
	ok(t, err)
	ok(t, w.stream.Synchronize())
	if n != len(steps) || sum != 10*21+28 {
		t.Fatal(n, sum)
	}
	n, err = w.pool.RunSteps(background, w.stream)
	if n != 0 || err != nil {
		t.Fatal(n, err)
	}
	_, err = w.pool.RunSteps(background, w.stream, Step{})
	expect(t, err, ErrInvalidArgument)
	if _, err := (View{}).Bytes(0); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestStepsUpToTheFirstFailure(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	a, big := w.buffer(1), w.buffer(5)
	ran := 0
	count := func(View) { ran++ }
	n, err := w.pool.RunSteps(background, w.stream, Step{[]Use{ReadWrite(a)}, count}, Step{[]Use{Read(big)}, count},
		Step{[]Use{Read(a)}, count})
	expect(t, err, ErrOverBudget)
	ok(t, w.stream.Synchronize())
	if n != 1 || ran != 1 {
		t.Fatal(n, ran)
	}
	noCalls := newWorld(t, setup{options: smallHost + ";host.host_call=0"})
	b := noCalls.buffer(1)
	n, err = noCalls.pool.RunSteps(background, noCalls.stream, Step{[]Use{ReadWrite(b)}, count})
	expect(t, err, ErrNotSupported)
	if n != 0 {
		t.Fatal("a step whose function could not be enqueued is told as taken")
	}
	expect(t, noCalls.stream.HostCall(func() {}), ErrNotSupported)
	ok(t, noCalls.pool.Do(background, noCalls.stream, func(Lease) error { return nil }, ReadWrite(b))) // no lease was left
}

// UseIndex counts the uses of all steps, whether the binding finds the fault beforehand or the library finds it in a step.
func TestUseIndexOfSteps(t *testing.T) {
	w := newWorld(t, setup{})
	a, b, leased := w.buffer(1), w.buffer(1), w.buffer(1)
	first := Step{Uses: []Use{Read(a), Read(b)}}
	lease := w.acquire(ReadWrite(leased))
	n, err := w.pool.RunSteps(background, w.stream, first, Step{Uses: []Use{Read(a), Read(leased)}})
	if e := expect(t, err, ErrLeaseConflict); n != 1 || e.UseIndex != 3 {
		t.Errorf("use %d, after %d steps", e.UseIndex, n)
	}
	ok(t, lease.Release())
	n, err = w.pool.RunSteps(background, w.stream, first, Step{Uses: []Use{Read(a), Read(nil)}})
	if e := expect(t, err, ErrInvalidHandle); n != 0 || e.UseIndex != 3 {
		t.Errorf("use %d, after %d steps", e.UseIndex, n)
	}
}

func TestStepsThatWait(t *testing.T) {
	w, lease, wanted := crowded(t)
	small := w.buffer(1)
	ctx, cancel := context.WithTimeout(background, minute)
	defer cancel()
	ran := 0
	steps := []Step{
		{[]Use{DiscardWrite(small)}, func(View) { ran++ }},
		{[]Use{Read(small).Range(0, 8), DiscardWrite(wanted)}, func(v View) {
			memory, _ := v.Bytes(1)
			memory[0] = 77
			ran++
		}},
		{[]Use{Read(wanted)}, func(View) { ran++ }},
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	var over atomic.Bool
	go func() {
		defer over.Store(true)
		n, err := w.pool.RunSteps(ctx, w.stream, steps...)
		done <- result{n, err}
	}()
	w.awaitWaiter(&over)
	ok(t, lease.Release())
	got := <-done
	ok(t, got.err)
	ok(t, w.stream.Synchronize())
	if got.n != 3 || ran != 3 {
		t.Fatal(got.n, ran)
	}
	first := make([]byte, 1)
	_, err := wanted.ReadAt(first, 0)
	ok(t, err)
	if first[0] != 77 {
		t.Fatal("the step that waited had other memory")
	}
	lease2 := w.acquire(Read(w.buffer(3)))
	ended, end := context.WithCancel(background)
	go func() { w.awaitWaiter(nil); end() }()
	n, err := w.pool.RunSteps(ended, w.stream, steps[2])
	if n != 0 || !errors.Is(err, context.Canceled) {
		t.Fatal(n, err)
	}
	ok(t, lease2.Release())
}

func TestReadManyAndWriteMany(t *testing.T) {
	w := newWorld(t, setup{})
	a, b := w.buffer(1), w.buffer(2)
	n, err := w.pool.WriteMany(Transfer{a, 10, []byte("first")}, Transfer{b, page - 2, []byte("second")}, Transfer{a, 0, []byte("x")})
	ok(t, err)
	one, two := make([]byte, 5), make([]byte, 6)
	m, err := w.pool.ReadMany(Transfer{b, page - 2, two}, Transfer{a, 10, one})
	ok(t, err)
	if n != 3 || m != 2 || string(one) != "first" || string(two) != "second" {
		t.Fatal(n, m, string(one), string(two))
	}
	rest := []byte("untouched")
	m, err = w.pool.ReadMany(Transfer{a, 10, one}, Transfer{a, page - 1, rest}, Transfer{b, 0, two})
	expect(t, err, ErrInvalidArgument)
	if m != 1 || !bytes.Equal(rest, []byte("untouched")) {
		t.Fatal(m, string(rest))
	}
	none, end := Transfer{Buffer: a}, Transfer{a, page, []byte{}}
	n, err = w.pool.WriteMany(none, Transfer{a, 10, []byte("after")}, end)
	ok(t, err)
	m, err = w.pool.ReadMany(end, none, Transfer{a, 10, one}, none)
	ok(t, err)
	if n != 3 || m != 4 || string(one) != "after" {
		t.Fatal(n, m, string(one))
	}
	if n, err = w.pool.WriteMany(); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	_, err = w.pool.WriteMany(Transfer{a, 0, []byte("y")}, Transfer{Bytes: []byte("z")})
	expect(t, err, ErrInvalidHandle)
}

func TestAnnouncements(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	a, b := w.buffer(2), w.buffer(2)
	ok(t, w.pool.Announce(w.stream, Operation{Name: "one", Uses: []Use{Read(a)}}, Operation{},
		Operation{Name: "two", Uses: []Use{Read(a), Read(b)}}))
	ok(t, w.pool.AnnounceAnew(w.stream, Operation{Name: "three", Uses: []Use{Read(b)}}))
	ok(t, w.acquire(Read(b)).Release())
	ok(t, w.pool.AnnounceAnew(w.stream))
	ok(t, w.pool.Announce(w.stream))
	expect(t, w.pool.Announce(w.stream, Operation{Name: "bad", Uses: []Use{{Buffer: a, Length: Whole, Mode: 99}}}), ErrInvalidArgument)
	ok(t, w.pool.Prefetch(w.stream))
}
