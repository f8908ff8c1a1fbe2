// SPDX-License-Identifier: Apache-2.0

package weir

// Pools as wholes: what they tell, giving back, moving together, devices that come and go, tiers; and contexts.

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
)

// snake is StorageReadBytes as storage_read_bytes; Nanoseconds is ns.
func snake(name string) string {
	name = strings.Replace(strings.Replace(name, "Nanoseconds", "Ns", 1), "OOM", "Oom", 1)
	name = strings.Replace(name, "IO", "Io", 1)
	name = strings.Replace(name, "IDs", "Ids", 1)
	var out strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

func TestStatsAreTheLibrarys(t *testing.T) {
	fields := reflect.TypeOf(PoolStats{})
	for i := 0; i < fields.NumField(); i++ {
		if want := statsName(i); want != snake(fields.Field(i).Name) {
			t.Errorf("counter %d is %q in the library, %q here", i, want, fields.Field(i).Name)
		}
	}
	if next := statsName(fields.NumField()); next != "" {
		t.Errorf("the library has a counter %q that is not here", next)
	}
	w := newWorld(t, setup{devicePages: 4, hostPages: 10})
	b := w.buffer(3)
	ok(t, w.acquire(DiscardWrite(b)).Release())
	lease := w.acquire(Read(b))
	stats, err := w.pool.Stats()
	ok(t, err)
	if stats.DeviceBudget != 4*page || stats.HostBudget != 10*page || stats.Buffers != 1 || stats.BufferBytes != 3*page ||
		stats.Hits != 1 || stats.Misses != 1 || stats.Generation != 0 || stats.BookkeepingBytes == 0 {
		t.Errorf("%+v", stats)
	}
	ok(t, lease.Release())
}

func TestDeviceStatsSnapshotAndMap(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, change: func(o *PoolOptions) { o.Name = "told" }})
	b, err := w.pool.NewBuffer(2*page, &BufferOptions{Tag: 4711})
	ok(t, err)
	ok(t, w.acquire(DiscardWrite(b)).Release())
	device, err := w.pool.DeviceStats(0)
	ok(t, err)
	if device.Budget != 4*page || device.Bytes < 2*page || device.PageSize != page || device.State != DevicePresent {
		t.Errorf("%+v", device)
	}
	_, err = w.pool.DeviceStats(5)
	expect(t, err, ErrInvalidArgument)
	text, err := w.pool.Snapshot()
	ok(t, err)
	var document map[string]any
	ok(t, json.Unmarshal(text, &document))
	if !strings.Contains(string(text), "4711") || !strings.Contains(string(text), "told") {
		t.Errorf("%s", text)
	}
	pieces, err := w.pool.Map()
	ok(t, err)
	found := uint64(0)
	for _, piece := range pieces {
		if piece.State != PieceReserved && piece.Tag == 4711 && piece.Buffer == b.Handle() && piece.Tier == TierDevice {
			found += piece.Bytes
		}
	}
	if found != 2*page {
		t.Errorf("%d bytes of the buffer in %+v", found, pieces)
	}
	lost, err := w.pool.LostRanges()
	ok(t, err)
	if len(lost) != 0 {
		t.Errorf("%+v", lost)
	}
	ok(t, w.stream.Synchronize())
	ok(t, b.Close())
	if freed, err := w.pool.Trim(0, TrimEmergency, 4*page); err != nil || freed == 0 {
		t.Errorf("%d freed, %v", freed, err)
	}
	ok(t, w.pool.ResetPeak(0))
	if device, err = w.pool.DeviceStats(0); err != nil || device.PeakBytes != device.Bytes {
		t.Errorf("%+v %v", device, err)
	}
}

func TestTiers(t *testing.T) {
	w := newWorld(t, setup{devicePages: 2, hostPages: 8, change: func(o *PoolOptions) {
		o.CompressedBudget, o.StorageBudget, o.StoragePaths = 16*page, 64*page, []string{t.TempDir()}
		o.Codec, o.CompressThreads, o.CompressSharePercent = "auto", 1, 100
		o.IdleGrace, o.RecompressIdle, o.RebalanceRate = Never, Never, None
	}})
	var buffers []*Buffer
	for i := byte(0); i < 20; i++ {
		b := w.buffer(2)
		w.fill(b, i)
		ok(t, w.acquire(Read(b)).Release())
		buffers = append(buffers, b)
	}
	for i, b := range buffers {
		w.check(b, byte(i))
	}
	stats, err := w.pool.Stats()
	ok(t, err)
	codec, err := w.pool.CodecStats()
	ok(t, err)
	coded := CodecShare{}
	for _, share := range codec.Methods {
		coded.RawBytes += share.RawBytes
		coded.CodedBytes += share.CodedBytes
	}
	if stats.SunkBytes == 0 || stats.CompressedInBytes == 0 || coded.RawBytes == 0 || coded.CodedBytes == 0 {
		t.Errorf("nothing went down: %+v %+v", stats, codec)
	}
}

// A text and an array that have grown since their length was asked for come INCOMPLETE: they are asked for again.
func TestWhatGrowsIsWhole(t *testing.T) {
	text, numbers, err := growing(0)
	ok(t, err)
	if want := strings.Repeat("x", 16*81); text != want || len(numbers) != len(want) {
		t.Fatalf("%d characters, %d numbers", len(text), len(numbers))
	}
	for i, number := range numbers {
		if number != uint64(i) {
			t.Fatalf("number %d is %d", i, number)
		}
	}
	_, _, err = growing(1) // is answered what is no answer
	expect(t, err, ErrInternal)
}

// matmulMoves gives the bytes that the matmul example brings to a device of a quarter of the three matrices, each of 6 x 6
// tiles of a page.
func matmulMoves(t *testing.T, prefetch bool) uint64 {
	const n = 6
	w := newWorld(t, setup{devicePages: 3 * n * n / 4, hostPages: 4 * n * n})
	var tiles [3][n][n]*Buffer
	for m := range tiles {
		for i := 0; i < n*n; i++ {
			tiles[m][i/n][i%n] = w.buffer(1)
			if m < 2 {
				w.fill(tiles[m][i/n][i%n], 1)
			}
		}
	}
	uses := func(step int) []Use {
		i, j, k := step/n/n, step/n%n, step%n
		if i%2 == 1 {
			j = n - 1 - j
		}
		c := ReadWrite(tiles[2][i][j])
		if k == 0 {
			c = DiscardWrite(tiles[2][i][j])
		}
		return []Use{Read(tiles[0][i][k]), Read(tiles[1][k][j]), c}
	}
	for step := 0; step < n*n*n; step++ {
		if prefetch && step+1 < n*n*n {
			ok(t, w.pool.Prefetch(w.stream, uses(step+1)...))
		}
		lease := w.acquire(uses(step)...)
		ok(t, lease.Release())
	}
	stats, err := w.pool.Stats()
	ok(t, err)
	return stats.PromotedBytes
}

func TestPrefetchMovesNoMore(t *testing.T) {
	if with, without := matmulMoves(t, true), matmulMoves(t, false); with > without {
		t.Fatalf("%d bytes with prefetch, %d without", with, without)
	}
}

func TestQuotas(t *testing.T) {
	w := newWorld(t, setup{devicePages: 8, hostPages: 8})
	for _, one := range []struct {
		quota uint64
		room  bool
	}{{0, true}, {3 * page, true}, {2 * page, false}, {None, false}, {Unlimited, true}} {
		client, err := w.pool.NewClient(&ClientOptions{DeviceQuota: one.quota})
		ok(t, err)
		b, err := w.pool.NewBuffer(3*page, &BufferOptions{Client: client})
		ok(t, err)
		lease, err := w.pool.TryAcquire(w.stream, DiscardWrite(b))
		if one.room {
			ok(t, err)
			ok(t, lease.Release())
		} else if e := expect(t, err, ErrOverBudget); one.quota == None && e.Available != 0 {
			t.Errorf("%+v", e)
		}
		ok(t, b.Close())
		ok(t, client.Close())
	}
	// Nothing in HOST: a write from the CPU has no place there.
	client, err := w.pool.NewClient(&ClientOptions{HostQuota: None, CompressedQuota: None, StorageQuota: None})
	ok(t, err)
	b, err := w.pool.NewBuffer(page, &BufferOptions{Client: client})
	ok(t, err)
	ok(t, w.acquire(DiscardWrite(b)).Release())
	if _, err = w.pool.Trim(0, TrimEmergency, 8*page); err != nil {
		t.Error(err)
	}
	if stats, err := client.Stats(); err != nil || stats.HostBytes != 0 || stats.DeviceBytes != page {
		t.Errorf("%+v %v", stats, err)
	}
	ok(t, b.Close())
	ok(t, client.Close())
}

func TestDefragment(t *testing.T) {
	w := newWorld(t, setup{devicePages: 16})
	var buffers []*Buffer
	for i := 0; i < 128; i++ {
		b, err := w.pool.NewBuffer(1024, nil)
		ok(t, err)
		ok(t, w.acquire(DiscardWrite(b)).Release())
		buffers = append(buffers, b)
	}
	ok(t, w.stream.Synchronize())
	for i, b := range buffers {
		if i%4 != 0 {
			ok(t, b.Close())
		} else {
			defer func(b *Buffer) { ok(t, b.Close()) }(b)
		}
	}
	asked := 0
	report, err := w.pool.Defragment(background, DefragmentOptions{ShouldStop: func() bool { asked++; return true }})
	ok(t, err)
	if asked == 0 || report.Finished {
		t.Errorf("asked %d times: %+v", asked, report)
	}
	func() {
		defer func() {
			if recover() != "on purpose" {
				t.Error("the panic did not come through C")
			}
		}()
		_, _ = w.pool.Defragment(background, DefragmentOptions{ShouldStop: func() bool { panic("on purpose") }})
	}()
	ctx, cancel := context.WithCancel(background)
	report, err = w.pool.Defragment(ctx, DefragmentOptions{Device: On(0), ShouldStop: func() bool { cancel(); return false }})
	if !errors.Is(err, context.Canceled) || report.Finished {
		t.Errorf("%+v %v", report, err)
	}
	_, err = w.pool.Defragment(ctx, DefragmentOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	report, err = w.pool.Defragment(background, DefragmentOptions{Wait: true, MaxTime: minute})
	ok(t, err)
	if !report.Finished || report.WonBytes == 0 || report.CopyMoves == 0 {
		t.Errorf("%+v", report)
	}
}

func TestDefragmentationInTheBackground(t *testing.T) {
	w := newWorld(t, setup{background: true})
	ok(t, w.pool.SetDefragmentation(DefragmentationOptions{ThresholdPermille: 200, BytesPerSecond: 1 << 20}))
	ok(t, w.pool.SetDefragmentation(DefragmentationOptions{}))
	expect(t, w.pool.SetDefragmentation(DefragmentationOptions{ThresholdPermille: -1}), ErrInvalidArgument)
	expect(t, w.pool.SetDefragmentation(DefragmentationOptions{ThresholdPermille: 2000}), ErrInvalidArgument)
	if wide := uint64(1) << 32; strconv.IntSize > 32 { // C's numbers have 32 bits: not 1 of those
		expect(t, w.pool.SetDefragmentation(DefragmentationOptions{ThresholdPermille: int(wide + 1)}), ErrInvalidArgument)
		expect(t, w.pool.SetDefragmentation(DefragmentationOptions{MaxCostPermille: int(wide + 1)}), ErrInvalidArgument)
		_, err := w.pool.Defragment(background, DefragmentOptions{MaxCostPermille: int(wide + 1)})
		expect(t, err, ErrInvalidArgument)
	}
}

func TestDevicesComeAndGo(t *testing.T) {
	w := newWorld(t, setup{devices: 3, devicePages: 8, change: func(o *PoolOptions) { o.Devices = o.Devices[:2] }})
	b, err := w.pool.NewBuffer(2*page, &BufferOptions{Home: On(1)})
	ok(t, err)
	defer func() { ok(t, b.Close()) }()
	w.fill(b, 8)
	stream := w.newStream(1)
	lease, err := w.pool.TryAcquire(stream, Read(b))
	ok(t, err)

	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if err := w.pool.RemoveDevice(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err) // the lease is in the way
	}
	if err := w.pool.RemoveDevice(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() { removed <- w.pool.RemoveDevice(background, 1) }()
	for w.pool.CancelRemoval(1) != nil { // until it has begun
		if device, err := w.pool.DeviceStats(1); err != nil || device.State == DeviceGone {
			t.Fatal(device, err)
		}
	}
	expect(t, <-removed, ErrCancelled)
	go func() { removed <- w.pool.RemoveDevice(background, 1) }()
	for state := DevicePresent; state != DeviceLeaving; {
		device, err := w.pool.DeviceStats(1)
		ok(t, err)
		state = device.State
	}
	// One removal at a time: the end of another's ctx does not end this one.
	ended, end := context.WithTimeout(background, minute)
	if e := expect(t, w.pool.RemoveDevice(ended, 1), ErrBusy); e.Message != "another goroutine is removing device 1" {
		t.Error(e) // the library's own refusal comes when the watcher of this ctx is there already
	}
	end()
	if device, err := w.pool.DeviceStats(1); err != nil || device.State != DeviceLeaving {
		t.Fatal(device, err)
	}
	_, err = w.pool.TryAcquire(stream, Read(b))
	expect(t, err, ErrDeviceRemoved)
	expect(t, w.pool.Close(), ErrBusy)
	ok(t, lease.Release())
	ok(t, <-removed)

	w.check(b, 8)
	info, err := b.Info(0, Whole)
	ok(t, err)
	if info.Home != 0 {
		t.Errorf("at home on %d", info.Home)
	}
	ok(t, w.pool.AddDevice(PoolDevice{2, 8 * page}))
	stats, err := w.pool.Stats()
	ok(t, err)
	if stats.Generation != 2 {
		t.Errorf("%d changes", stats.Generation)
	}
	_, err = w.pool.Rebalance(1 << 20)
	ok(t, err)
}

func TestLossCallback(t *testing.T) {
	w := newWorld(t, setup{})
	var called atomic.Int64
	for i := 0; i < 3; i++ {
		ok(t, w.pool.OnDeviceLoss(func(DeviceLoss) { called.Add(1) }))
	}
	ok(t, w.pool.OnDeviceLoss(nil))
	ok(t, w.pool.OnDeviceLoss(func(DeviceLoss) { called.Add(1) })) // and the pool ends with it
	if called.Load() != 0 {
		t.Error("a loss that was none")
	}
	// The host backend loses no devices: the way from C into Go is taken by hand.
	got := make(chan DeviceLoss, 1)
	deliverLoss(func(loss DeviceLoss) { got <- loss }, DeviceLoss{Device: 3, Generation: 7, LostBytes: 99})
	if loss := <-got; loss != (DeviceLoss{3, 7, 99}) {
		t.Errorf("%+v", loss)
	}
}

func TestPlacement(t *testing.T) {
	w := newWorld(t, setup{devices: 2, options: smallHost + ";host.links=0-1:pcie:16G,h-0:pcie:16G,h-1:pcie:16G"})
	homes, err := w.pool.PlaceBuffers([]BufferRequest{
		{4 * page, BufferOptions{Home: On(DeviceAny), Users: []Device{1}}},
		{page, BufferOptions{Home: On(0)}},
		{page, BufferOptions{Home: On(DeviceAny), Users: []Device{0, 0, 1}}},
	})
	ok(t, err)
	if len(homes) != 3 || homes[0] != 1 || homes[1] != 0 || homes[2] != 0 {
		t.Errorf("%v", homes)
	}
	b, err := w.pool.NewBuffer(page, &BufferOptions{Home: On(DeviceAny), Users: []Device{1, 1}})
	ok(t, err)
	info, err := b.Info(0, Whole)
	ok(t, err)
	if info.Home != 1 {
		t.Errorf("%+v", info)
	}
	ok(t, b.Close())
	_, err = w.pool.PlaceBuffers(nil)
	expect(t, err, ErrInvalidArgument)
}

func TestRemoteUse(t *testing.T) {
	w := newWorld(t, setup{devices: 2})
	b := w.buffer(2)
	w.fill(b, 2)
	ok(t, w.acquire(Read(b)).Release()) // on device 0
	other := w.newStream(1)
	lease, err := w.pool.TryAcquire(other, Read(b).Remote())
	ok(t, err)
	ok(t, other.Synchronize())
	memory, err := lease.Bytes(0)
	ok(t, err)
	if string(memory) != string(pattern(2*page, 2)) {
		t.Error("other bytes")
	}
	ok(t, lease.Release())
	if stats, err := w.pool.Stats(); err != nil || stats.RemoteUses != 1 {
		t.Error(stats.RemoteUses, err)
	}
}

// A remote use may be on any device: that the CPU reaches the stream's is not enough.
func TestRemoteUseOutOfReach(t *testing.T) {
	w := newWorld(t, setup{devices: 2})
	b := w.buffer(2)
	w.context.lock.Lock()
	w.context.hostAccess[1] = false // as a device without CapHostAccess would have it
	w.context.lock.Unlock()
	lease := w.acquire(Read(b), Read(b).Remote())
	_, err := lease.Bytes(0)
	ok(t, err)
	_, err = lease.Bytes(1)
	if e := expect(t, err, ErrNotSupported); e.UseIndex != 1 {
		t.Error(e.UseIndex)
	}
	ok(t, lease.Release())
	n, err := w.pool.RunSteps(background, w.stream, Step{[]Use{Read(b)}, nil}, Step{[]Use{Read(b).Remote()}, func(View) {}})
	if e := expect(t, err, ErrNotSupported); n != 0 || e.UseIndex != 1 {
		t.Error(n, e.UseIndex)
	}
	ok(t, w.pool.Run(background, w.stream, nil, Read(b).Remote())) // no code looks at the memory
	ok(t, w.stream.Synchronize())
}

func TestContext(t *testing.T) {
	w := newWorld(t, setup{devices: 2, options: smallHost + ";host.names=one,two;host.links=0-1:nvlink:150G:1:700;topology.cache=0"})
	backends, err := w.context.Backends()
	ok(t, err)
	if len(backends) != 1 || backends[0].Name != "host" || !backends[0].Available || backends[0].DeviceCount != 2 {
		t.Errorf("%+v", backends)
	}
	count, err := w.context.DeviceCount()
	ok(t, err)
	device, err := w.context.Device(1)
	ok(t, err)
	found, err := w.context.FindDevice("gpu,host:1")
	ok(t, err)
	_, err = w.context.FindDevice("gpu")
	if e := expect(t, err, ErrInvalidArgument); found != 1 || !strings.Contains(e.Message, "host:0, host:1") {
		t.Error(found, e)
	}
	if count != 2 || device.Name != "two" || device.MemoryTotal != 16<<20 || device.Granule != page || device.NumaNode < -1 ||
		device.Capabilities&(CapVMM|CapHostAccess) != CapVMM|CapHostAccess || device.PartitionCount != 1 {
		t.Errorf("%d %+v", count, device)
	}
	link, err := w.context.Link(0, 1)
	ok(t, err)
	if link.Kind != LinkNVLink || link.Kind.String() != "nvlink" || link.Bandwidth != 150e9 || link.Latency != 700 || !link.Direct ||
		link.Source != LinkFigureBackend || link.Source.String() != "backend" {
		t.Errorf("%+v", link)
	}
	for format, begin := range map[TopologyFormat]string{TopologyJSON: "{", TopologySVG: "<", TopologyText: ""} {
		text, err := w.context.ExportTopology(format)
		ok(t, err)
		if text == "" || !strings.HasPrefix(text, begin) || strings.Contains(text, "\x00") {
			t.Errorf("format %d: %.80q", format, text)
		}
	}
	_, err = w.context.ExportTopology(77)
	expect(t, err, ErrInvalidArgument)
	ctx, cancel := context.WithTimeout(background, minute)
	defer cancel()
	report, err := w.context.Calibrate(ctx, CalibrateOptions{NoCache: true, MaxTime: 50 * time.Millisecond, MaxBytes: 1 << 20})
	ok(t, err)
	if report.Measured+report.Failed+report.Skipped == 0 || report.Saved != 0 || report.Folder != "" || report.Elapsed == 0 {
		t.Errorf("%+v", report)
	}
	_, err = w.context.Calibrate(background, CalibrateOptions{MaxTime: -1})
	expect(t, err, ErrInvalidArgument)
	cancel()
	if _, err = w.context.Calibrate(ctx, CalibrateOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestLog(t *testing.T) {
	var lines atomic.Int64
	c, err := NewContext(&ContextOptions{
		Options: smallHost, NoSearch: true, BackendPaths: []string{}, StartTimeout: minute,
		Log: func(level LogLevel, text string) {
			if level < LogError || level > LogDebug || text == "" {
				t.Errorf("level %d: %q", level, text)
			}
			lines.Add(1)
		},
	})
	ok(t, err)
	deliverLog(c, LogInfo, "a line")
	if lines.Load() == 0 {
		t.Error("no line came")
	}
	ok(t, c.Close())
}
