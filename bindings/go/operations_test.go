// SPDX-License-Identifier: Apache-2.0

package weir

import (
	"strings"
	"sync"
	"testing"
)

func TestOperationsHaveNumbers(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	a := w.buffer(1)
	number := func(name string, want uint32) {
		t.Helper()
		if id, err := w.pool.OperationID(name); id != want || err != nil {
			t.Fatal(name, id, err)
		}
	}
	number("layer", 1)
	number("head", 2)
	number("layer", 1)
	for _, name := range []string{"", "with a \x00 in it", strings.Repeat("n", 1024)} {
		_, err := w.pool.OperationID(name)
		expect(t, err, ErrInvalidArgument)
	}
	with := func(options AcquireOptions) error {
		lease, err := w.pool.AcquireWith(background, w.stream, options, Read(a))
		if err == nil {
			ok(t, lease.Release())
		}
		return err
	}
	ok(t, with(AcquireOptions{OperationID: 2}))
	ok(t, with(AcquireOptions{Operation: "third"}))
	ok(t, with(AcquireOptions{Operation: "not looked at", OperationID: 1}))
	expect(t, with(AcquireOptions{OperationID: 4}), ErrInvalidArgument)
	number("fourth", 4)
	uses := []Use{Read(a)}
	ok(t, w.pool.Announce(w.stream, Operation{ID: 4, Uses: uses}, Operation{Name: "fifth", Uses: uses}))
	expect(t, w.pool.AnnounceAnew(w.stream, Operation{ID: 6, Uses: uses}), ErrInvalidArgument)
	number("sixth", 6)
	if stats, err := w.pool.Stats(); stats.SharedOperationIDs != 0 || err != nil {
		t.Fatal(stats.SharedOperationIDs, err)
	}
}

func TestGoroutinesAgreeOnNumbers(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	var all [4][100]uint32
	var group sync.WaitGroup
	for i := range all {
		group.Add(1)
		go func(mine *[100]uint32) {
			defer group.Done()
			for n := range mine {
				mine[n], _ = w.pool.OperationID(strings.Repeat("n", n+1))
			}
		}(&all[i])
	}
	group.Wait()
	seen := map[uint32]bool{}
	for n, id := range all[0] {
		if id == 0 || seen[id] || all[1][n] != id || all[2][n] != id || all[3][n] != id {
			t.Fatal(n, id, all[1][n], all[2][n], all[3][n])
		}
		seen[id] = true
	}
}
