// SPDX-License-Identifier: Apache-2.0

package weir

// The whole life of every kind of object, and that what is closed is closed: once, in the right order, for every goroutine.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

func TestWholeLife(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4})
	client, err := w.pool.NewClient(&ClientOptions{Name: "life", Priority: PriorityHigh})
	ok(t, err)
	var buffers []*Buffer
	for i := 0; i < 4; i++ { // twice what the device has room for
		b, err := w.pool.NewBuffer(2*page, &BufferOptions{Client: client, Tag: uint64(i), Element: ElementF32, Home: On(0)})
		ok(t, err)
		buffers = append(buffers, b)
	}
	for i, b := range buffers {
		lease := w.acquire(DiscardWrite(b))
		if lease.Len() != 1 || lease.Stream() != w.stream || lease.Address(0) == 0 || lease.Handle() == 0 {
			t.Fatal("the lease does not tell what it is")
		}
		ok(t, w.stream.Synchronize())
		floats, err := Slice[float32](lease, 0)
		ok(t, err)
		if len(floats) != 2*page/4 {
			t.Fatalf("%d elements", len(floats))
		}
		for j := range floats {
			floats[j] = float32(i*len(floats) + j)
		}
		ok(t, lease.Release())
	}
	for i, b := range buffers {
		got := make([]float32, 2*page/4)
		n, err := b.ReadAt(AsBytes(got), 0)
		ok(t, err)
		if n != 2*page {
			t.Fatalf("%d bytes read", n)
		}
		for j, value := range got {
			if value != float32(i*len(got)+j) {
				t.Fatalf("buffer %d has %v at %d", i, value, j)
			}
		}
	}
	stats, err := client.Stats()
	ok(t, err)
	if stats.Buffers != 4 || stats.DeviceBytes+stats.HostBytes < 8*page {
		t.Fatalf("%+v", stats)
	}
	expect(t, client.Close(), ErrBusy)
	for _, b := range buffers {
		ok(t, b.Close())
	}
	ok(t, client.Close())
}

func TestStreams(t *testing.T) {
	w := newWorld(t, setup{})
	b := w.buffer(1)
	var order []int
	gate := make(chan struct{})
	ok(t, w.stream.HostCall(func() { <-gate; order = append(order, 1) }))
	ok(t, w.stream.HostCall(func() { order = append(order, 2) }))
	done, err := w.stream.Done()
	ok(t, err)
	if done {
		t.Fatal("done with work that waits")
	}
	close(gate)
	ok(t, w.stream.Synchronize())
	if done, err = w.stream.Done(); err != nil || !done || len(order) != 2 || order[0] != 1 {
		t.Fatal(done, err, order)
	}
	native, err := w.stream.Native()
	ok(t, err)
	wrapped, err := w.context.WrapNativeStream(0, native)
	ok(t, err)
	lease, err := w.pool.TryAcquire(wrapped, DiscardWrite(b))
	ok(t, err)
	expect(t, wrapped.Close(), ErrBusy)
	ok(t, lease.Release())
	ok(t, wrapped.Close())
	host := w.newStream(DeviceHost)
	if _, err := host.Native(); !errors.Is(err, ErrNotSupported) {
		t.Fatal(err)
	}
	w.fill(b, 3)
	lease, err = w.pool.TryAcquire(host, Read(b).Range(page/2, page/4))
	ok(t, err)
	memory, err := lease.Bytes(0) // no synchronising: the goroutine is the queue
	ok(t, err)
	if !bytes.Equal(memory, pattern(page, 3)[page/2:page/2+page/4]) {
		t.Fatal("other bytes")
	}
	ok(t, lease.Close())
	if w.stream.Device() != 0 || host.Device() != DeviceHost {
		t.Fatal("devices")
	}
}

func TestBufferIsReaderAtAndWriterAt(t *testing.T) {
	w := newWorld(t, setup{})
	b := w.buffer(2)
	w.fill(b, 9)
	all, err := io.ReadAll(io.NewSectionReader(b, 0, int64(b.Size())+100))
	ok(t, err)
	if !bytes.Equal(all, pattern(2*page, 9)) {
		t.Fatal("other bytes")
	}
	if n, err := b.ReadAt(make([]byte, 10), 2*page-4); n != 4 || err != io.EOF {
		t.Fatal(n, err)
	}
	if n, err := b.ReadAt(make([]byte, 10), 3*page); n != 0 || err != io.EOF {
		t.Fatal(n, err)
	}
	if n, err := b.ReadAt(nil, 0); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	_, err = b.ReadAt(make([]byte, 1), -1)
	expect(t, err, ErrInvalidArgument)
	_, err = b.WriteAt(make([]byte, 10), 2*page-4)
	expect(t, err, ErrInvalidArgument)
	w.check(b, 9)
	ok(t, b.Discard(0, page))
	info, err := b.Info(0, Whole)
	ok(t, err)
	if info.Size != 2*page || info.UnwrittenBytes != page || info.Pages != 2 {
		t.Fatalf("%+v", info)
	}
	ok(t, b.Advise(0, Whole, AdviceCold))
	expect(t, b.Advise(0, Whole, Advice(77)), ErrInvalidArgument)
	ok(t, b.SetPriority(PriorityHigh))
	if info, err = b.Info(0, Whole); err != nil || info.Priority != PriorityHigh {
		t.Fatal(info, err)
	}
}

// No backend here takes objects of the program, so each call says which one was asked.
func TestNativesReachTheBackendThatTheyAreFor(t *testing.T) {
	memory, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	ok(t, err)
	defer func() { ok(t, syscall.Munmap(memory)) }()
	memory[0], memory[4] = 16, 1
	handles := unsafe.Pointer(&memory[0])
	_, err = NewContext(&ContextOptions{Options: smallHost, NoSearch: true, Natives: []Native{{"host", handles}}})
	if e := expect(t, err, ErrNotSupported); !strings.Contains(e.Message, "backend host") {
		t.Error(e)
	}
	_, err = NewContext(&ContextOptions{Options: smallHost, NoSearch: true,
		Natives: []Native{{"host", handles}, {"nobody", nil}}})
	if e := expect(t, err, ErrInvalidArgument); !strings.Contains(e.Message, "natives[1].handles") {
		t.Error(e)
	}
	w := newWorld(t, setup{})
	expect(t, w.context.NativeMemory(0, 4096, 1, handles), ErrNotSupported)
	expect(t, w.context.NativeMemory(0, 4096, 1, nil), ErrInvalidArgument)
}

func TestStacksWhereTheyAreAskedFor(t *testing.T) {
	for _, asked := range []bool{false, true} {
		c, err := NewContext(&ContextOptions{Options: smallHost, NoSearch: true, Stacks: asked})
		ok(t, err)
		p, err := c.NewPool(PoolOptions{Devices: []PoolDevice{{0, 4 * page}}, NoBackground: true})
		ok(t, err)
		b, err := p.NewBuffer(page, nil)
		ok(t, err)
		snapshot, err := p.Snapshot()
		ok(t, err)
		if strings.Contains(string(snapshot), "\"stacks\"") != asked {
			t.Errorf("asked %v: %s", asked, snapshot)
		}
		ok(t, b.Close())
		ok(t, p.Close())
		ok(t, c.Close())
	}
}

func TestNamesOfBuffers(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4})
	named := func(b *Buffer, want string) {
		t.Helper()
		if name, err := b.Name(); err != nil || name != want {
			t.Fatalf("%q, not %q: %v", name, want, err)
		}
	}
	b, err := w.pool.NewBuffer(page, &BufferOptions{Name: "größe"})
	ok(t, err)
	defer b.Close()
	named(b, "größe")
	snapshot, err := w.pool.Snapshot()
	ok(t, err)
	if !strings.Contains(string(snapshot), "größe") {
		t.Errorf("the snapshot has no name: %s", snapshot)
	}
	ok(t, b.SetName("weights"))
	named(b, "weights")
	expect(t, b.SetName("wei\x00ghts"), ErrInvalidArgument) // C would cut it
	_, err = w.pool.NewBuffer(page, &BufferOptions{Name: "\x00"})
	expect(t, err, ErrInvalidArgument)
	named(b, "weights")
	// 255 bytes are kept, and no half of a character.
	ok(t, b.SetName(strings.Repeat("n", 254)+"ö"+strings.Repeat("n", 500)))
	named(b, strings.Repeat("n", 254))
	ok(t, b.SetName("a\xffb")) // as it was given
	named(b, "a\xffb")
	ok(t, b.SetName(""))
	named(b, "")
	named(w.buffer(1), "")
	homes, err := w.pool.PlaceBuffers([]BufferRequest{{page, BufferOptions{Name: "placed"}}})
	if err != nil || homes[0] != 0 {
		t.Error(homes, err)
	}
}

func TestHoldsInModes(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4})
	b := w.buffer(2)
	w.fill(b, 5)
	for _, mode := range []HoldMode{HoldRead, HoldShared, HoldAlone} {
		hold, err := b.HoldAs(0, mode)
		ok(t, err)
		again, err := b.HoldAs(0, mode)
		if mode == HoldAlone {
			expect(t, err, ErrLeaseConflict)
		} else {
			ok(t, err)
			ok(t, again.Close())
		}
		lease, err := w.pool.TryAcquire(w.stream, ReadWrite(b))
		if mode == HoldShared {
			ok(t, err)
			ok(t, lease.Release())
		} else {
			expect(t, err, ErrLeaseConflict)
		}
		lease, err = w.pool.TryAcquire(w.stream, Read(b))
		if mode == HoldAlone {
			expect(t, err, ErrLeaseConflict)
		} else {
			ok(t, err)
			ok(t, lease.Release())
		}
		ok(t, hold.Close())
	}
	_, err := b.HoldAs(0, HoldMode(7))
	expect(t, err, ErrInvalidArgument)
	ok(t, b.Close())
}

func TestHoldsAllocationsRegistrations(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4})
	b := w.buffer(2)
	w.fill(b, 5)
	hold, err := b.Hold(0)
	ok(t, err)
	if hold.Address() == 0 {
		t.Fatal("a hold without an address")
	}
	expect(t, b.Close(), ErrBusy)
	stats, err := w.pool.Stats()
	ok(t, err)
	if stats.DeviceHeldBytes != 2*page {
		t.Fatal(stats.DeviceHeldBytes)
	}
	big := w.buffer(3)
	_, err = w.pool.TryAcquire(w.stream, Read(big)) // not beside what is held
	if e := expect(t, err, ErrOverBudget); e.ShortBy != page || e.Tier != TierDevice {
		t.Fatalf("%+v", e)
	}
	ok(t, hold.Close())
	expect(t, hold.Close(), ErrInvalidHandle)

	memory, err := w.pool.Malloc(0, w.stream, 100)
	ok(t, err)
	other, err := w.pool.Malloc(0, nil, 100)
	ok(t, err)
	if memory.Address() == 0 || memory.Size() != 100 || memory.Address() == other.Address() {
		t.Fatal("addresses")
	}
	expect(t, w.pool.Close(), ErrBusy)
	ok(t, memory.FreeOn(w.stream))
	expect(t, memory.Close(), ErrInvalidHandle)
	ok(t, other.Close())

	mapped, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	ok(t, err)
	defer func() { ok(t, syscall.Munmap(mapped)) }()
	copy(mapped, pattern(2*page, 6))
	_, err = b.RegisterHost(mapped[:page], true)
	expect(t, err, ErrInvalidArgument)
	registration, err := b.RegisterHost(mapped, true)
	ok(t, err)
	w.check(b, 6)
	w.fill(b, 7)
	ok(t, registration.Close())
	expect(t, registration.Close(), ErrInvalidHandle)
	if !bytes.Equal(mapped, pattern(2*page, 7)) {
		t.Fatal("the memory does not hold the buffer's contents")
	}
	w.check(b, 7)
}

// Every object's second Close, and every other call after the first, is an error that is ErrClosed.
func TestUseAfterClose(t *testing.T) {
	w := newWorld(t, setup{})
	c, err := NewContext(&ContextOptions{Options: smallHost, NoSearch: true})
	ok(t, err)
	p, err := c.NewPool(PoolOptions{Devices: []PoolDevice{{0, 4 * page}}, HostBudget: 8 * page, NoBackground: true})
	ok(t, err)
	client, err := p.NewClient(nil)
	ok(t, err)
	s, err := c.NewStream(0)
	ok(t, err)
	b, err := p.NewBuffer(page, nil)
	ok(t, err)
	lease, err := p.TryAcquire(s, Read(b))
	ok(t, err)
	copied := lease

	expect(t, c.Close(), ErrBusy)
	expect(t, p.Close(), ErrBusy)
	expect(t, s.Close(), ErrBusy)
	expect(t, b.Close(), ErrBusy)
	ok(t, copied.Release())
	ok(t, b.Close())
	ok(t, client.Close())
	ok(t, s.Close())
	ok(t, p.Close())
	ok(t, c.Close())

	live := w.buffer(1)
	liveLease := w.acquire(Read(live))
	calls := map[string]func() error{
		"context close":     c.Close,
		"context backends":  func() error { _, err := c.Backends(); return err },
		"context devices":   func() error { _, err := c.DeviceCount(); return err },
		"context find":      func() error { _, err := c.FindDevice("host"); return err },
		"context device":    func() error { _, err := c.Device(0); return err },
		"context link":      func() error { _, err := c.Link(0, DeviceHost); return err },
		"context export":    func() error { _, err := c.ExportTopology(TopologyJSON); return err },
		"context calibrate": func() error { _, err := c.Calibrate(background, CalibrateOptions{}); return err },
		"context pool":      func() error { _, err := c.NewPool(PoolOptions{}); return err },
		"context stream":    func() error { _, err := c.NewStream(0); return err },
		"pool close":        p.Close,
		"pool buffer":       func() error { _, err := p.NewBuffer(1, nil); return err },
		"pool client":       func() error { _, err := p.NewClient(nil); return err },
		"pool stats":        func() error { _, err := p.Stats(); return err },
		"pool codec stats":  func() error { _, err := p.CodecStats(); return err },
		"pool device stats": func() error { _, err := p.DeviceStats(0); return err },
		"pool reset peak":   func() error { return p.ResetPeak(0) },
		"pool snapshot":     func() error { _, err := p.Snapshot(); return err },
		"pool map":          func() error { _, err := p.Map(); return err },
		"pool lost":         func() error { _, err := p.LostRanges(); return err },
		"pool trim":         func() error { _, err := p.Trim(0, TrimGradual, 1); return err },
		"pool defragment":   func() error { _, err := p.Defragment(background, DefragmentOptions{}); return err },
		"pool set defrag":   func() error { return p.SetDefragmentation(DefragmentationOptions{}) },
		"pool add":          func() error { return p.AddDevice(PoolDevice{0, page}) },
		"pool remove":       func() error { return p.RemoveDevice(background, 0) },
		"pool cancel":       func() error { return p.CancelRemoval(0) },
		"pool rebalance":    func() error { _, err := p.Rebalance(1); return err },
		"pool loss":         func() error { return p.OnDeviceLoss(nil) },
		"pool malloc":       func() error { _, err := p.Malloc(0, nil, 1); return err },
		"pool place":        func() error { _, err := p.PlaceBuffers(nil); return err },
		"pool wrap":         func() error { _, err := p.WrapBuffer(1); return err },
		"pool announce":     func() error { return p.Announce(w.stream) },
		"client close":      client.Close,
		"client stats":      func() error { _, err := client.Stats(); return err },
		"client of buffer":  func() error { _, err := w.pool.NewBuffer(1, &BufferOptions{Client: client}); return err },
		"stream close":      s.Close,
		"stream native":     func() error { _, err := s.Native(); return err },
		"stream sync":       s.Synchronize,
		"stream done":       func() error { _, err := s.Done(); return err },
		"stream call":       func() error { return s.HostCall(func() {}) },
		"stream acquire":    func() error { _, err := w.pool.TryAcquire(s, Read(live)); return err },
		"stream prefetch":   func() error { return w.pool.Prefetch(s, Read(live)) },
		"stream announce":   func() error { return w.pool.AnnounceAnew(s) },
		"stream malloc":     func() error { _, err := w.pool.Malloc(0, s, 1); return err },
		"stream release":    func() error { return liveLease.ReleaseOn(s) },
		"stream run":        func() error { return w.pool.Run(background, s, nil, Read(live)) },
		"buffer close":      b.Close,
		"buffer info":       func() error { _, err := b.Info(0, Whole); return err },
		"buffer read":       func() error { _, err := b.ReadAt(make([]byte, 1), 0); return err },
		"buffer write":      func() error { _, err := b.WriteAt(make([]byte, 1), 0); return err },
		"buffer advise":     func() error { return b.Advise(0, Whole, AdviceCold) },
		"buffer discard":    func() error { return b.Discard(0, Whole) },
		"buffer priority":   func() error { return b.SetPriority(PriorityLow) },
		"buffer set name":   func() error { return b.SetName("") },
		"buffer name":       func() error { _, err := b.Name(); return err },
		"buffer hold":       func() error { _, err := b.Hold(0); return err },
		"buffer register":   func() error { _, err := b.RegisterHost(make([]byte, page), false); return err },
		"buffer acquire":    func() error { _, err := p.TryAcquire(w.stream, Read(b)); return err },
		"buffer read many":  func() error { _, err := p.ReadMany(Transfer{b, 0, make([]byte, 1)}); return err },
		"lease release":     lease.Release,
		"lease close":       copied.Close,
		"lease bytes":       func() error { _, err := lease.Bytes(0); return err },
		"lease slice":       func() error { _, err := Slice[int32](lease, 0); return err },
		"zero lease":        Lease{}.Release,
	}
	for name, call := range calls {
		for i := 0; i < 2; i++ {
			if err := call(); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrInvalidHandle) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if lease.Len() != 0 || lease.Stream() != nil || lease.Address(0) != 0 || lease.Handle() != 0 {
		t.Error("a released lease has something")
	}
	ok(t, liveLease.Release())
}

func TestReleaseOnAnotherDevice(t *testing.T) {
	w := newWorld(t, setup{devices: 2})
	b := w.buffer(1)
	other, sameDevice := w.newStream(1), w.newStream(0)
	lease := w.acquire(DiscardWrite(b))
	expect(t, lease.ReleaseOn(other), ErrInvalidArgument)
	if lease.Len() != 1 {
		t.Fatal("the lease ended with a release that was refused")
	}
	ok(t, lease.ReleaseOn(sameDevice))
	if err := lease.ReleaseOn(sameDevice); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestReleaseOnAnotherContext(t *testing.T) {
	w, other := newWorld(t, setup{}), newWorld(t, setup{})
	b := w.buffer(1)
	lease := w.acquire(DiscardWrite(b))
	expect(t, lease.ReleaseOn(other.stream), ErrInvalidArgument)
	if lease.Len() != 1 {
		t.Fatal("the lease ended with a release that was refused")
	}
	expect(t, b.Close(), ErrBusy)
	// What the library does not know as a stream leaves the lease too.
	expect(t, lease.ReleaseOn(&Stream{context: w.context}), ErrInvalidHandle)
	ok(t, lease.Release())
}

func TestDo(t *testing.T) {
	w := newWorld(t, setup{})
	b := w.buffer(1)
	mine := errors.New("mine")
	if err := w.pool.Do(background, w.stream, func(Lease) error { return mine }, Read(b)); err != mine {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() != "on purpose" {
				t.Error("the panic did not come through")
			}
		}()
		_ = w.pool.Do(background, w.stream, func(Lease) error { panic("on purpose") }, ReadWrite(b))
	}()
	ok(t, w.pool.Do(background, w.stream, func(lease Lease) error { return lease.Release() }, ReadWrite(b)))
	info, err := b.Info(0, Whole)
	ok(t, err)
	if info.Leases != 0 {
		t.Fatal("a lease was left")
	}
}

func TestWrappedHandles(t *testing.T) {
	w := newWorld(t, setup{})
	own := w.buffer(2)
	w.fill(own, 1)
	c, err := WrapContext(w.context.Handle())
	ok(t, err)
	p, err := WrapPool(c, w.pool.Handle())
	ok(t, err)
	s, err := c.WrapStream(0, w.stream.Handle())
	ok(t, err)
	b, err := p.WrapBuffer(own.Handle())
	ok(t, err)
	if b.Size() != 2*page || b.Pool() != p {
		t.Fatal("what was wrapped is not what it was")
	}
	w.check(b, 1)
	lease, err := p.Acquire(context.Background(), s, ReadWrite(b))
	ok(t, err)
	_, err = w.pool.TryAcquire(w.stream, ReadWrite(own))
	expect(t, err, ErrLeaseConflict)
	expect(t, p.Close(), ErrBusy)
	ok(t, lease.Release())
	ok(t, p.OnDeviceLoss(func(DeviceLoss) {}))
	ok(t, b.Close())
	ok(t, s.Close())
	ok(t, p.Close())
	for name, err := range map[string]error{ // the buffer's own pool is open, but p is not
		"acquire":    second(p.TryAcquire(w.stream, Read(own))),
		"set":        second(p.TryAcquire(w.stream, Read(own).Range(0, 1), Read(own).Range(1, 1))),
		"prefetch":   p.Prefetch(w.stream, Read(own)),
		"run":        p.Run(background, w.stream, nil, Read(own)),
		"read many":  second(p.ReadMany(Transfer{own, 0, make([]byte, 1)})),
		"write many": second(p.WriteMany(Transfer{own, 0, make([]byte, 1)})),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ok(t, c.Close())
	w.check(own, 1)
	_, err = WrapContext(nil)
	expect(t, err, ErrInvalidHandle)
	_, err = WrapPool(nil, nil)
	expect(t, err, ErrInvalidHandle)
	_, err = w.context.WrapStream(0, nil)
	expect(t, err, ErrInvalidHandle)
	_, err = w.pool.WrapBuffer(12345)
	expect(t, err, ErrInvalidHandle)
}

func second[T any](_ T, err error) error { return err }

func TestVersion(t *testing.T) {
	var major, minor, patch int
	if n, err := fmt.Sscanf(Version(), "%d.%d.%d", &major, &minor, &patch); n != 3 || err != nil {
		t.Fatal(Version(), err)
	}
	if VersionNumber() != uint32(major*1000000+minor*1000+patch) {
		t.Error(VersionNumber(), Version())
	}
	if HeaderVersionNumber != HeaderVersionMajor*1000000+HeaderVersionMinor*1000+HeaderVersionPatch || HeaderVersionMajor != major {
		t.Error(HeaderVersionNumber, Version())
	}
}
