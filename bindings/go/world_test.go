// SPDX-License-Identifier: Apache-2.0

package weir

// What the tests stand on: a context on the host backend with pages of 16 KiB, one small pool, streams. Ending it fails
// the test if anything was left behind, and the whole run fails if an object was left to the finalizers.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	page      = 16 << 10
	smallHost = "host.memory=16M;host.granule=16K;host.granule_large=0"
	// Far off: nothing in the tests is right because of when it happens.
	minute = time.Minute
)

var strayLeaks atomic.Int64

func TestMain(m *testing.M) {
	OnLeak(func(kind, stack string) {
		fmt.Fprintf(os.Stderr, "leaked: a %s\n%s", kind, stack)
		strayLeaks.Add(1)
	})
	code := m.Run()
	for i := 0; i < 3; i++ {
		collect()
	}
	if left := LiveObjects(); len(left) != 0 || strayLeaks.Load() != 0 {
		fmt.Fprintf(os.Stderr, "open at the end: %v; leaked: %d\n", left, strayLeaks.Load())
		code = 1
	}
	os.Exit(code)
}

// collect runs the collector until a finalizer that was due has run.
func collect() {
	ran := make(chan struct{})
	runtime.SetFinalizer(&struct{ large [64]int }{}, func(any) { close(ran) })
	for {
		runtime.GC()
		select {
		case <-ran:
			return
		default:
			runtime.Gosched()
		}
	}
}

type setup struct {
	options     string
	devicePages uint64
	hostPages   uint64
	devices     int
	background  bool
	change      func(*PoolOptions)
}

type world struct {
	t       testing.TB
	context *Context
	pool    *Pool
	stream  *Stream
	probe   *Buffer
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect fails the test unless err is of the result; it gives the numbers.
func expect(t testing.TB, err error, want Result) *Error {
	t.Helper()
	var e *Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		t.Fatalf("got %v, not %v", err, want)
	}
	return e
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	if s.options == "" {
		s.options = smallHost
	}
	if s.devicePages == 0 {
		s.devicePages = 8
	}
	if s.hostPages == 0 {
		s.hostPages = 64
	}
	if s.devices == 0 {
		s.devices = 1
	}
	if s.devices > 1 {
		s.options += fmt.Sprintf(";host.devices=%d", s.devices)
	}
	w := &world{t: t}
	var err error
	w.context, err = NewContext(&ContextOptions{Options: s.options, NoSearch: true})
	ok(t, err)
	options := PoolOptions{HostBudget: s.hostPages * page, NoBackground: !s.background}
	for i := 0; i < s.devices; i++ {
		options.Devices = append(options.Devices, PoolDevice{Device(i), s.devicePages * page})
	}
	if s.change != nil {
		s.change(&options)
	}
	w.pool, err = w.context.NewPool(options)
	ok(t, err)
	w.stream, err = w.context.NewStream(0)
	ok(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			return // what is left open then is no second failure
		}
		ok(t, w.stream.Close())
		ok(t, w.pool.Close())
		ok(t, w.context.Close())
	})
	return w
}

// buffer is closed before the world is.
func (w *world) buffer(pages uint64) *Buffer {
	w.t.Helper()
	b, err := w.pool.NewBuffer(pages*page, nil)
	ok(w.t, err)
	w.t.Cleanup(func() {
		if !b.isClosed() && !w.t.Failed() {
			ok(w.t, b.Close())
		}
	})
	return b
}

func (w *world) newStream(device Device) *Stream {
	w.t.Helper()
	s, err := w.context.NewStream(device)
	ok(w.t, err)
	w.t.Cleanup(func() {
		if !w.t.Failed() {
			ok(w.t, s.Close())
		}
	})
	return s
}

func (w *world) acquire(uses ...Use) Lease {
	w.t.Helper()
	lease, err := w.pool.TryAcquire(w.stream, uses...)
	ok(w.t, err)
	return lease
}

func pattern(size int, seed byte) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7+i>>8) ^ seed
	}
	return data
}

func (w *world) fill(b *Buffer, seed byte) {
	w.t.Helper()
	_, err := b.WriteAt(pattern(int(b.Size()), seed), 0)
	ok(w.t, err)
}

func (w *world) check(b *Buffer, seed byte) {
	w.t.Helper()
	got := make([]byte, b.Size())
	_, err := b.ReadAt(got, 0)
	ok(w.t, err)
	if !bytes.Equal(got, pattern(len(got), seed)) {
		w.t.Fatal("the buffer holds other bytes than were written")
	}
}

// awaitWaiter returns when an acquire is seen to wait for room in front of an acquire of two pages, or `over` is true. The
// pages are of a buffer of its own: a try that is refused may, while it lasts, be in the way of a writer of the same bytes.
func (w *world) awaitWaiter(over *atomic.Bool) {
	w.t.Helper()
	if w.probe == nil {
		w.probe = w.buffer(2)
	}
	for over == nil || !over.Load() {
		lease, err := w.pool.TryAcquire(w.stream, Read(w.probe))
		if err == nil {
			ok(w.t, lease.Release())
			continue
		}
		if e := expect(w.t, err, ErrWouldBlock); strings.Contains(e.Message, "waiting for room before this one") {
			return
		}
		runtime.Gosched()
	}
}

var background = context.Background()
