// SPDX-License-Identifier: Apache-2.0

package weir

// Giving memory back, and moving buffers together.

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"math"
	"runtime/cgo"
	"time"
)

// TrimLevel is how hard a trim tries.
type TrimLevel uint32

const (
	TrimGradual   TrimLevel = iota // idle granules and clean pages
	TrimSelective                  // ... and dirty pages, in the policy's order
	TrimEmergency                  // ... everything that is neither leased nor held, and spare host memory too
)

// Trim gives device memory back to the system until bytes are freed or nothing more can go, and tells how many were freed;
// fewer is no error. On [DeviceHost] spare pinned memory is given back.
func (p *Pool) Trim(device Device, level TrimLevel, bytes uint64) (freed uint64, err error) {
	const op = "trim"
	if err := p.enter(op); err != nil {
		return 0, err
	}
	defer p.leave()
	var got C.uint64_t
	err = failed(op, C.weirgo_pool_trim(C.uintptr_t(p.handle), C.uint32_t(device), C.uint32_t(level), C.uint64_t(bytes), &got))
	return uint64(got), err
}

// isCount tells whether C's uint32_t holds the number.
func isCount(number int) bool { return number >= 0 && int64(number) <= math.MaxUint32 }

// DefragmentOptions are the bounds of one call; 0 is none.
type DefragmentOptions struct {
	Device          *Device // one of the pool's; nil = all
	Wait            bool    // until the copies have ended: what is won is free when the call returns
	Evict           bool    // what is in the way of a longer range and fits nowhere else
	MaxBytes        uint64
	MaxMoves        uint64
	MaxTime         time.Duration
	MaxCostPermille int         // bytes moved for a thousand bytes won; 0 = 1000
	ShouldStop      func() bool // asked between two steps, on the calling goroutine; may use the pool
}

// DefragmentReport is what a call did, and what it left.
type DefragmentReport struct {
	Finished                    bool // no bound ended it
	MovedBytes                  uint64
	CopyMoves                   uint64
	RemapMoves                  uint64
	EvictMoves                  uint64
	EvictedBytes                uint64
	WonBytes                    uint64
	LargestFreeBefore           uint64
	LargestFreeAfter            uint64
	Elapsed                     time.Duration
	LeasedBytes                 uint64 // what stayed, and why
	HeldBytes                   uint64
	PinnedBytes                 uint64
	StableBytes                 uint64
	BusyBytes                   uint64
	NoRoomBytes                 uint64
	FragmentationBeforePermille int // of the memory of slabs, what no buffer uses
	FragmentationAfterPermille  int
}

// stopper is what ends a defragmentation; one goroutine uses it.
type stopper struct {
	ctx        context.Context
	shouldStop func() bool
	panicked   bool
	value      any
}

func (s *stopper) ask() (stop bool) {
	normal := false
	defer func() {
		if !normal {
			s.panicked, s.value, stop = true, recover(), true
		}
	}()
	stop = s.shouldStop != nil && s.shouldStop() || s.ctx.Err() != nil
	normal = true
	return stop
}

// Defragment moves small buffers together so that slabs become empty. A ctx that ends ends it between two steps, with ctx's
// error and the report of what was done. A panic of ShouldStop goes on in the caller once the library has ended the call.
func (p *Pool) Defragment(ctx context.Context, options DefragmentOptions) (DefragmentReport, error) {
	const op = "defragment"
	if options.MaxTime < 0 || !isCount(options.MaxCostPermille) {
		return DefragmentReport{}, refused(op, ErrInvalidArgument, "MaxTime is %v, MaxCostPermille is %d", options.MaxTime,
			options.MaxCostPermille)
	}
	if ctx.Err() != nil {
		return DefragmentReport{}, ended(op, ctx)
	}
	if err := p.enter(op); err != nil {
		return DefragmentReport{}, err
	}
	defer p.leave()
	desc := C.weir_defragment_desc{
		struct_size: C.sizeof_weir_defragment_desc, device: C.WEIR_DEVICE_ALL,
		flags:     flag(options.Wait, C.WEIR_DEFRAGMENT_WAIT) | flag(options.Evict, C.WEIR_DEFRAGMENT_EVICT),
		max_bytes: C.uint64_t(options.MaxBytes), max_moves: C.uint64_t(options.MaxMoves),
		max_ns: C.uint64_t(options.MaxTime), max_cost_permille: C.uint32_t(options.MaxCostPermille),
	}
	if options.Device != nil {
		desc.device = C.weir_device(*options.Device)
	}
	stop := &stopper{ctx: ctx, shouldStop: options.ShouldStop}
	handle := cgo.NewHandle(stop)
	defer handle.Delete()
	var report C.weir_defragment_report
	err := failed(op, C.weirgo_pool_defragment(C.uintptr_t(p.handle), &desc, C.uintptr_t(handle), &report))
	if stop.panicked {
		panic(stop.value)
	}
	if err == nil && report.finished == 0 && ctx.Err() != nil {
		err = ended(op, ctx)
	}
	return reportOf(&report), err
}

func reportOf(r *C.weir_defragment_report) DefragmentReport {
	return DefragmentReport{
		Finished: r.finished != 0, MovedBytes: uint64(r.moved_bytes), CopyMoves: uint64(r.copy_moves),
		RemapMoves: uint64(r.remap_moves), EvictMoves: uint64(r.evict_moves), EvictedBytes: uint64(r.evicted_bytes),
		WonBytes: uint64(r.won_bytes), LargestFreeBefore: uint64(r.largest_free_before),
		LargestFreeAfter: uint64(r.largest_free_after), Elapsed: time.Duration(r.elapsed_ns),
		LeasedBytes: uint64(r.leased_bytes), HeldBytes: uint64(r.held_bytes), PinnedBytes: uint64(r.pinned_bytes),
		StableBytes: uint64(r.stable_bytes), BusyBytes: uint64(r.busy_bytes), NoRoomBytes: uint64(r.no_room_bytes),
		FragmentationBeforePermille: int(r.fragmentation_before_permille),
		FragmentationAfterPermille:  int(r.fragmentation_after_permille),
	}
}

// DefragmentationOptions are for defragmentation in the background.
type DefragmentationOptions struct {
	ThresholdPermille int    // thousandths of fragmentation above which it works; 0 = off
	BytesPerSecond    uint64 // moved, at most; 0 = 256 MiB
	MaxCostPermille   int    // 0 = 500
}

// SetDefragmentation starts, changes or ends the pool's defragmentation by a thread of its own.
func (p *Pool) SetDefragmentation(options DefragmentationOptions) error {
	const op = "set defragmentation"
	if !isCount(options.ThresholdPermille) || !isCount(options.MaxCostPermille) {
		return refused(op, ErrInvalidArgument, "ThresholdPermille is %d, MaxCostPermille is %d", options.ThresholdPermille,
			options.MaxCostPermille)
	}
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.leave()
	desc := C.weir_defragmentation_desc{
		struct_size: C.sizeof_weir_defragmentation_desc, threshold_permille: C.uint32_t(options.ThresholdPermille),
		bytes_per_second: C.uint64_t(options.BytesPerSecond), max_cost_permille: C.uint32_t(options.MaxCostPermille),
	}
	return failed(op, C.weirgo_pool_set_defragmentation(C.uintptr_t(p.handle), &desc))
}
