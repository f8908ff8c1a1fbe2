// SPDX-License-Identifier: Apache-2.0

package weir

// Every error that the API can be made to give on the host backend, and that each is known by errors.Is, by errors.As and
// by its numbers. Losses of devices, refusals of a driver, capture and fork can't be made there: their values are compared
// with the library's only.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var allErrors = []Result{
	ErrInvalidArgument, ErrInvalidHandle, ErrNotSupported, ErrOutOfHostMemory, ErrOverBudget, ErrWouldBlock, ErrTimeout,
	ErrLeaseConflict, ErrBusy, ErrDeviceOOM, ErrDeviceLost, ErrDataLost, ErrCorrupt, ErrBackend, ErrStreamCapturing,
	ErrForked, ErrIO, ErrCancelled, ErrDeviceRemoved, ErrInternal,
}

func TestResultsAreTheLibrarys(t *testing.T) {
	texts := map[string]bool{}
	for i, result := range allErrors {
		if int(result) != -1-i {
			t.Errorf("%v is %d", result, result)
		}
		texts[result.String()] = true
		var err error = &Error{Op: "test", Result: result, Message: "words", UseIndex: -1}
		for _, other := range allErrors {
			if errors.Is(err, other) != (other == result) {
				t.Errorf("%v is %v: wrong", err, other)
			}
		}
		var got Result
		if !errors.As(err, &got) || got != result {
			t.Errorf("As gave %v for %v", got, result)
		}
		if want := "weir: test: " + result.String() + ": words"; err.Error() != want {
			t.Errorf("%q, not %q", err, want)
		}
	}
	if unknown := (allErrors[len(allErrors)-1] - 1).String(); len(texts) != 20 || texts[unknown] {
		t.Errorf("%d different texts; of an unknown result: %q", len(texts), unknown)
	}
	var e *Error
	if errors.As(errors.New("other"), &e) {
		t.Error("As took any error")
	}
}

// Each case gives one result; more than one case may give the same.
func TestEveryErrorOfTheHostBackend(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 8, devices: 2})
	b, big, small := w.buffer(2), w.buffer(5), w.buffer(3)
	foreign := newWorld(t, setup{}).buffer(1)
	dir := t.TempDir()
	notALibrary := filepath.Join(dir, "libweir_backend_none.so")
	ok(t, os.WriteFile(notALibrary, []byte("no library"), 0o600))
	lease := w.acquire(ReadWrite(b))

	cases := []struct {
		name  string
		want  Result
		words string // in the message
		call  func() error
	}{
		{"unknown option", ErrInvalidArgument, "nonsense", func() error {
			_, err := NewContext(&ContextOptions{Options: "host.nonsense=1", NoSearch: true})
			return err
		}},
		{"start timeout", ErrInvalidArgument, "-1ns", func() error { _, err := NewContext(&ContextOptions{StartTimeout: -1}); return err }},
		{"a backend that is none", ErrBackend, "libweir_backend_none.so", func() error {
			_, err := NewContext(&ContextOptions{BackendPaths: []string{notALibrary}, NoSearch: true})
			return err
		}},
		{"no such device", ErrInvalidArgument, "7", func() error { _, err := w.context.Device(7); return err }},
		{"pool of no devices", ErrInvalidArgument, "", func() error { _, err := w.context.NewPool(PoolOptions{}); return err }},
		{"negative option", ErrInvalidArgument, "CompressSharePercent is -1", func() error {
			_, err := w.context.NewPool(PoolOptions{CompressSharePercent: -1})
			return err
		}},
		{"negative time", ErrInvalidArgument, "IdleGrace", func() error {
			_, err := w.context.NewPool(PoolOptions{IdleGrace: -2})
			return err
		}},
		{"no such policy", ErrInvalidArgument, "nonsense", func() error {
			_, err := w.context.NewPool(PoolOptions{Devices: []PoolDevice{{0, 4 * page}}, Policy: "nonsense"})
			return err
		}},
		{"no such directory", ErrIO, "absent", func() error {
			_, err := w.context.NewPool(PoolOptions{Devices: []PoolDevice{{0, 4 * page}}, HostBudget: 8 * page,
				StorageBudget: 1 << 20, StoragePaths: []string{filepath.Join(dir, "absent")}})
			return err
		}},
		{"buffer of nothing", ErrInvalidArgument, "0", func() error { _, err := w.pool.NewBuffer(0, nil); return err }},
		{"use of nothing", ErrInvalidArgument, "", func() error {
			_, err := w.pool.TryAcquire(w.stream, Read(small).Range(0, 0))
			return err
		}},
		{"no uses", ErrInvalidArgument, "no uses", func() error { _, err := w.pool.TryAcquire(w.stream); return err }},
		{"use without a buffer", ErrInvalidHandle, "no buffer", func() error {
			_, err := w.pool.TryAcquire(w.stream, Use{})
			return err
		}},
		{"another pool's buffer", ErrInvalidHandle, "another pool", func() error {
			_, err := w.pool.TryAcquire(w.stream, Read(foreign))
			return err
		}},
		{"no thread for it", ErrNotSupported, "", func() error {
			return w.pool.SetDefragmentation(DefragmentationOptions{ThresholdPermille: 100})
		}},
		{"never fits", ErrOverBudget, "short of", func() error { _, err := w.pool.TryAcquire(w.stream, Read(big)); return err }},
		{"not now", ErrWouldBlock, "", func() error { _, err := w.pool.TryAcquire(w.stream, Read(small)); return err }},
		{"not in time", ErrTimeout, "", func() error {
			_, err := w.pool.AcquireWith(background, w.stream, AcquireOptions{Timeout: time.Millisecond}, Read(small))
			return err
		}},
		{"negative timeout", ErrInvalidArgument, "-1ns", func() error {
			_, err := w.pool.AcquireWith(background, w.stream, AcquireOptions{Timeout: -1}, Read(small))
			return err
		}},
		{"conflict", ErrLeaseConflict, "", func() error { _, err := w.pool.TryAcquire(w.stream, Read(b)); return err }},
		{"conflict of a write", ErrLeaseConflict, "", func() error { _, err := b.WriteAt([]byte{1}, 0); return err }},
		{"leased", ErrBusy, "still used", b.Close},
		{"cancelled", ErrCancelled, "", func() error {
			ctx, cancel := context.WithCancel(background)
			cancel()
			_, err := w.pool.Acquire(ctx, w.stream, Read(small))
			return err
		}},
		{"no removal to cancel", ErrInvalidArgument, "", func() error { return w.pool.CancelRemoval(0) }},
		{"a device twice", ErrInvalidArgument, "", func() error { return w.pool.AddDevice(PoolDevice{0, page}) }},
		{"corrupt blob", ErrCorrupt, "", func() error { _, err := Decompress(nil, []byte("no blob at all"), 0); return err }},
		{"negative defragmentation", ErrInvalidArgument, "-1", func() error {
			_, err := w.pool.Defragment(background, DefragmentOptions{MaxCostPermille: -1})
			return err
		}},
		{"nil function", ErrInvalidArgument, "nil", func() error { return w.stream.HostCall(nil) }},
	}
	for _, c := range cases {
		err := c.call()
		e := expect(t, err, c.want)
		if e.Op == "" || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %q does not tell of %q", c.name, err, c.words)
		}
	}
	ok(t, lease.Release())
}

func TestNumbersOfAnError(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 8})
	b, big := w.buffer(1), w.buffer(5)
	_, err := w.pool.TryAcquire(w.stream, Read(big))
	e := expect(t, err, ErrOverBudget)
	if e.Asked != 5*page || e.Available != 4*page || e.ShortBy != page || e.Tier != TierDevice || e.Device != 0 {
		t.Errorf("%+v", e)
	}
	lease := w.acquire(ReadWrite(b).Range(0, 100))
	_, err = w.pool.TryAcquire(w.stream, Read(b).Range(200, 100), Read(b).Range(50, 100))
	if e := expect(t, err, ErrLeaseConflict); e.UseIndex != 1 {
		t.Errorf("use %d is to blame", e.UseIndex)
	}
	closed, err := w.pool.NewBuffer(1, nil)
	ok(t, err)
	ok(t, closed.Close())
	_, err = w.pool.TryAcquire(w.stream, Read(b).Range(200, 1), Read(closed))
	if e := expect(t, err, ErrInvalidHandle); e.UseIndex != 1 {
		t.Errorf("use %d is to blame", e.UseIndex)
	}
	ok(t, lease.Release())
	_, err = NewContext(&ContextOptions{Options: "host.devices=0", NoSearch: true})
	if e := expect(t, err, ErrInvalidArgument); e.UseIndex != -1 || e.Device != DeviceHost {
		t.Errorf("use %d of none, on device %d", e.UseIndex, e.Device)
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	_, err = w.pool.Acquire(ended, w.stream, Read(b))
	for _, err := range []error{err, closed.Close(), w.stream.HostCall(nil)} { // of the binding's own
		var e *Error
		if !errors.As(err, &e) || e.UseIndex != -1 || e.Device != DeviceHost {
			t.Errorf("%v: %+v", err, e)
		}
	}
	dir := filepath.Join(t.TempDir(), "absent")
	_, err = w.context.NewPool(PoolOptions{Devices: []PoolDevice{{0, 4 * page}}, HostBudget: 8 * page, StorageBudget: 1 << 20,
		StoragePaths: []string{dir}})
	if e := expect(t, err, ErrIO); e.NativeCode != 2 {
		t.Errorf("errno %d", e.NativeCode)
	}
}

func (w *world) named(name string, pages uint64) *Buffer {
	w.t.Helper()
	b := w.buffer(pages)
	ok(w.t, b.SetName(name))
	return b
}

func TestReportsOfErrors(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	first, second, big := w.named("first", 3), w.named("second", 2), w.named("big", 5)
	lease := w.acquire(ReadWrite(first))
	cases := []struct {
		name  string
		want  Result
		words string // in the report; "": it has none
		call  func() error
	}{
		{"not now", ErrWouldBlock, `"first"`, func() error { _, err := w.pool.TryAcquire(w.stream, Read(second)); return err }},
		{"two not now", ErrWouldBlock, `"first"`, func() error {
			_, err := w.pool.TryAcquire(w.stream, Read(second).Range(0, page), Read(second).Range(page, page))
			return err
		}},
		{"not before the timeout", ErrTimeout, `"first"`, func() error {
			_, err := w.pool.AcquireWith(background, w.stream, AcquireOptions{Timeout: time.Millisecond}, Read(second))
			return err
		}},
		{"not before the deadline", ErrTimeout, `"first"`, func() error {
			ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
			defer cancel()
			_, err := w.pool.Acquire(ctx, w.stream, Read(second))
			return err
		}},
		{"never", ErrOverBudget, "What to do: ", func() error { _, err := w.pool.TryAcquire(w.stream, Read(big)); return err }},
		{"never in steps", ErrOverBudget, "What to do: ", func() error { return w.pool.Run(background, w.stream, nil, Read(big)) }},
		{"conflict", ErrLeaseConflict, `"first"`, func() error { _, err := w.pool.TryAcquire(w.stream, Read(first)); return err }},
		{"conflict of a write", ErrLeaseConflict, `"first"`, func() error { _, err := first.WriteAt([]byte{1}, 0); return err }},
		{"no refusal", ErrInvalidArgument, "", func() error { _, err := w.pool.NewBuffer(0, nil); return err }},
		{"the binding's own", ErrCancelled, "", func() error {
			ctx, cancel := context.WithCancel(background)
			cancel()
			_, err := w.pool.Acquire(ctx, w.stream, Read(second))
			return err
		}},
	}
	for _, on := range []bool{false, true, false} {
		before := ErrorReports(on)
		for _, c := range cases {
			e := expect(t, c.call(), c.want)
			if on && c.words != "" {
				if !strings.Contains(e.Report, c.words) || !strings.HasSuffix(e.Report, "\n") {
					t.Errorf("%s: the report does not tell of %s: %q", c.name, c.words, e.Report)
				}
			} else if e.Report != "" {
				t.Errorf("%s: has a report: %q", c.name, e.Report)
			}
			if strings.Contains(e.Error(), "What to do") {
				t.Errorf("%s: the report is in the sentence: %q", c.name, e)
			}
		}
		if ErrorReports(before) != on {
			t.Error("what was so before is not told")
		}
	}
	ok(t, lease.Release())
}

// One that is longer than the room that is tried first.
func TestALongReportIsWhole(t *testing.T) {
	defer ErrorReports(ErrorReports(true))
	w := newWorld(t, setup{devicePages: 8, hostPages: 64})
	big := w.buffer(9)
	for i := 0; i < 6; i++ {
		ok(t, w.acquire(DiscardWrite(w.named(strings.Repeat("\x01", 255), 1))).Release())
	}
	_, err := w.pool.TryAcquire(w.stream, Read(big))
	e := expect(t, err, ErrOverBudget)
	if n := strings.Count(e.Report, `\x01`); n != 5*255 || !strings.HasSuffix(e.Report, "\n") {
		t.Errorf("%d characters of names: %q", n, e.Report)
	}
}

// The report is of the error that it comes with, whatever thread that was on, and beside whatever else fails.
func TestReportsOfManyGoroutines(t *testing.T) {
	defer ErrorReports(ErrorReports(true))
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	lease := w.acquire(ReadWrite(w.named("first", 3)))
	var group sync.WaitGroup
	for g := 0; g < 8; g++ {
		b := w.named("buffer "+strconv.Itoa(g), uint64(5+g))
		group.Add(1)
		go func(asked uint64) {
			defer group.Done()
			for i := 0; i < 50; i++ {
				_, err := w.pool.TryAcquire(w.stream, Read(b))
				var e *Error
				if !errors.As(err, &e) || e.Asked != asked || !strings.HasPrefix(e.Report, e.Message+"\n") {
					t.Errorf("%d bytes: %v, report %q", asked, err, e.Report)
					return
				}
			}
		}(uint64(5+g) * page)
	}
	group.Wait()
	ok(t, lease.Release())
}

// The last error belongs to the OS thread: goroutines that fail differently at the same time must each get their own words.
func TestErrorsOfManyGoroutines(t *testing.T) {
	w := newWorld(t, setup{})
	b := w.buffer(1)
	var group sync.WaitGroup
	for g := 0; g < 16; g++ {
		group.Add(1)
		go func(g uint64) {
			defer group.Done()
			for i := uint64(0); i < 200; i++ {
				offset := page + g*1000 + i
				_, err := b.Info(offset, 1)
				var e *Error
				if !errors.As(err, &e) || e.Result != ErrInvalidArgument || !strings.Contains(e.Message, strconv.FormatUint(offset, 10)) {
					t.Errorf("offset %d: %v", offset, err)
					return
				}
			}
		}(uint64(g))
	}
	group.Wait()
}
