// SPDX-License-Identifier: Apache-2.0

package weir

// The arena and the codec, which need no context, and the typed views of memory.

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"
)

func TestArena(t *testing.T) {
	a, err := NewArena(1000, 4)
	ok(t, err)
	defer func() { ok(t, a.Close()) }()
	first, at, err := a.Allocate(10, 0)
	ok(t, err)
	second, next, err := a.Allocate(100, 64)
	ok(t, err)
	if at != 0 || next%64 != 0 || first == second || first == 0 {
		t.Error(first, at, second, next)
	}
	offset, size, err := a.Info(first)
	ok(t, err)
	if offset != 0 || size != 12 {
		t.Error(offset, size)
	}
	stats, err := a.Stats()
	ok(t, err)
	if stats.Allocations != 2 || stats.Used != 112 || stats.Free != 1000-112 || stats.Size != 1000 {
		t.Errorf("%+v", stats)
	}
	report, err := a.Report()
	ok(t, err)
	if report.LiveRanges != 2 || report.Classes[3].LiveRanges != 1 || report.Classes[6].LiveUnits != 100 || report.Used != 112 ||
		len(report.Classes) != 64 {
		t.Errorf("%+v", report)
	}
	ranges, err := a.Ranges()
	ok(t, err)
	end := uint64(0)
	for _, r := range ranges {
		if r.Offset != end {
			t.Errorf("a gap: %+v", ranges)
		}
		end += r.Size
	}
	if end != 1000 || ranges[0].Allocation != first {
		t.Errorf("%+v", ranges)
	}
	_, _, err = a.Allocate(2000, 0)
	if e := expect(t, err, ErrOverBudget); e.Asked != 2000 || e.Available == 0 {
		t.Errorf("%+v", e)
	}
	expect(t, a.Resize(8), ErrBusy)
	ok(t, a.Free(first))
	expect(t, a.Free(first), ErrInvalidHandle)
	_, _, err = a.Info(first)
	expect(t, err, ErrInvalidHandle)
	ok(t, a.Resize(2000))
	ok(t, a.Validate())
	_, err = NewArena(0, 0)
	expect(t, err, ErrInvalidArgument)
	other, err := NewArena(10, 0)
	ok(t, err)
	ok(t, other.Close())
	for _, err := range []error{other.Close(), other.Free(1), other.Resize(3), other.Validate()} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	for _, call := range []func() error{
		func() error { _, _, err := other.Allocate(1, 1); return err },
		func() error { _, _, err := other.Info(1); return err },
		func() error { _, err := other.Stats(); return err },
		func() error { _, err := other.Report(); return err },
		func() error { _, err := other.Ranges(); return err },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

func TestCodec(t *testing.T) {
	floats := make([]float32, 100000)
	for i := range floats {
		floats[i] = float32(i%64) / 64
	}
	raw := AsBytes(floats)
	for _, options := range []CompressOptions{{}, {Dense: true, Element: ElementF32}, {Codec: "lz4"}, {Codec: "raw", NoChecksum: true}} {
		blob, err := Compress([]byte("before"), raw, options)
		ok(t, err)
		if string(blob[:6]) != "before" {
			t.Fatal("what was before is gone")
		}
		blob = blob[6:]
		info, err := CompressedInfoOf(blob)
		ok(t, err)
		coded := uint64(0)
		for _, share := range info.Methods {
			coded += share.RawBytes
		}
		if info.RawBytes != uint64(len(raw)) || coded != info.RawBytes || info.Checksums == options.NoChecksum || info.Blocks == 0 {
			t.Errorf("%+v", info)
		}
		if options.Codec != "raw" && len(blob) > len(raw)/2 {
			t.Errorf("%d bytes of %d with %+v", len(blob), len(raw), options)
		}
		back, err := Decompress([]byte("x"), blob, 0)
		ok(t, err)
		if back[0] != 'x' || !bytes.Equal(back[1:], raw) {
			t.Error("other bytes")
		}
		_, err = Decompress(nil, blob, 100)
		expect(t, err, ErrInvalidArgument)
		_, err = Decompress(nil, blob[:len(blob)/2], 0)
		expect(t, err, ErrCorrupt)
	}
	empty, err := Compress(nil, nil, CompressOptions{})
	ok(t, err)
	if back, err := Decompress(nil, empty, 0); err != nil || len(back) != 0 {
		t.Error(back, err)
	}
	_, err = Compress(nil, raw, CompressOptions{Codec: "nonsense"})
	expect(t, err, ErrInvalidArgument)
	if CompressBound(1<<51) != 0 || CompressBound(100) < 100 {
		t.Error("bounds")
	}
}

type bytesOf []byte

func (b bytesOf) Len() int                  { return 1 }
func (b bytesOf) Bytes(int) ([]byte, error) { return b, nil }

func TestSlices(t *testing.T) {
	numbers := []uint64{0x0807060504030201, 2, 3}
	raw := AsBytes(numbers)
	if len(raw) != 24 || raw[0] != 1 && raw[0] != 8 {
		t.Error(raw)
	}
	type own uint16
	shorts, err := Slice[own](bytesOf(raw), 0)
	ok(t, err)
	if len(shorts) != 12 || unsafe.Pointer(&shorts[0]) != unsafe.Pointer(&numbers[0]) {
		t.Error(shorts)
	}
	_, err = Slice[uint64](bytesOf(raw[:23]), 0)
	expect(t, err, ErrInvalidArgument)
	_, err = Slice[uint64](bytesOf(raw[4:12]), 0)
	expect(t, err, ErrInvalidArgument)
	if none, err := Slice[float64](bytesOf(nil), 0); none != nil || err != nil {
		t.Error(none, err)
	}
	if AsBytes([]int8(nil)) != nil {
		t.Error("bytes of nothing")
	}
}
