// SPDX-License-Identifier: Apache-2.0

package weir

// The offset allocator alone: ranges of a number line, without memory.

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// Arena hands out ranges of a number line and touches no memory; units are the caller's. The caller serialises calls
// on one arena, those that only read included.
type Arena struct{ object }

// ArenaAllocation names an allocation of one arena. A stale one is recognised.
type ArenaAllocation uint64

// NewArena creates an arena of size units; sizes are rounded up to multiples of quantum, a power of two, where 0 is 1.
func NewArena(size, quantum uint64) (*Arena, error) {
	var handle C.uintptr_t
	if err := failed("create arena", C.weirgo_arena_create(C.uint64_t(size), C.uint64_t(quantum), &handle)); err != nil {
		return nil, err
	}
	a := &Arena{}
	open(a, &a.object, kindArena, uintptr(handle), (*Arena).Close)
	return a, nil
}

// Close ends the arena with all its allocations.
func (a *Arena) Close() error {
	return a.finish("close arena", func() error {
		C.weirgo_arena_destroy(C.uintptr_t(a.handle))
		return nil
	})
}

// Allocate finds a free range whose offset is a multiple of alignment, a power of two, where 0 is 1. ErrOverBudget: there is none.
func (a *Arena) Allocate(size, alignment uint64) (allocation ArenaAllocation, offset uint64, err error) {
	const op = "arena allocate"
	if err := a.enter(op); err != nil {
		return 0, 0, err
	}
	defer a.leave()
	var id, at C.uint64_t
	err = failed(op, C.weirgo_arena_allocate(C.uintptr_t(a.handle), C.uint64_t(size), C.uint64_t(alignment), &id, &at))
	return ArenaAllocation(id), uint64(at), err
}

// Free ends an allocation. ErrInvalidHandle if it is not a live one.
func (a *Arena) Free(allocation ArenaAllocation) error {
	const op = "arena free"
	if err := a.enter(op); err != nil {
		return err
	}
	defer a.leave()
	return failed(op, C.weirgo_arena_free(C.uintptr_t(a.handle), C.uint64_t(allocation)))
}

// Info tells where an allocation is.
func (a *Arena) Info(allocation ArenaAllocation) (offset, size uint64, err error) {
	const op = "arena info"
	if err := a.enter(op); err != nil {
		return 0, 0, err
	}
	defer a.leave()
	var at, length C.uint64_t
	err = failed(op, C.weirgo_arena_info(C.uintptr_t(a.handle), C.uint64_t(allocation), &at, &length))
	return uint64(at), uint64(length), err
}

// Resize adds units at the end, or takes free ones away there. ErrBusy if they are in use.
func (a *Arena) Resize(size uint64) error {
	const op = "arena resize"
	if err := a.enter(op); err != nil {
		return err
	}
	defer a.leave()
	return failed(op, C.weirgo_arena_resize(C.uintptr_t(a.handle), C.uint64_t(size)))
}

// ArenaStats are an arena's numbers.
type ArenaStats struct {
	Allocations int
	Size        uint64
	Used        uint64
	Free        uint64
	LargestFree uint64
	FreeRanges  uint64
	NodeBytes   uint64 // host memory of the nodes
}

// Stats are the arena's numbers.
func (a *Arena) Stats() (ArenaStats, error) {
	const op = "arena stats"
	if err := a.enter(op); err != nil {
		return ArenaStats{}, err
	}
	defer a.leave()
	var s C.weir_arena_stats
	err := failed(op, C.weirgo_arena_stats(C.uintptr_t(a.handle), &s))
	return ArenaStats{
		Allocations: int(s.allocations), Size: uint64(s.size), Used: uint64(s.used), Free: uint64(s.free),
		LargestFree: uint64(s.largest_free), FreeRanges: uint64(s.free_ranges), NodeBytes: uint64(s.node_bytes),
	}, err
}

// ArenaClass has the ranges of 2^k to 2^(k+1) - 1 units, in [ArenaReport.Classes] at k.
type ArenaClass struct{ FreeRanges, FreeUnits, LiveRanges, LiveUnits uint64 }

// ArenaReport is how an arena is filled.
type ArenaReport struct {
	FragmentationPPM int // 1 - LargestFree / Free
	Size             uint64
	Used             uint64
	Free             uint64
	FreeRanges       uint64
	LiveRanges       uint64
	LargestFree      uint64
	LargestLive      uint64
	Tail             uint64 // free units that end the arena
	Classes          [C.WEIR_ARENA_CLASSES]ArenaClass
}

// Report walks every range.
func (a *Arena) Report() (ArenaReport, error) {
	const op = "arena report"
	if err := a.enter(op); err != nil {
		return ArenaReport{}, err
	}
	defer a.leave()
	var r C.weir_arena_report
	err := failed(op, C.weirgo_arena_report(C.uintptr_t(a.handle), &r))
	report := ArenaReport{
		FragmentationPPM: int(r.fragmentation_ppm), Size: uint64(r.size), Used: uint64(r.used), Free: uint64(r.free),
		FreeRanges: uint64(r.free_ranges), LiveRanges: uint64(r.live_ranges), LargestFree: uint64(r.largest_free),
		LargestLive: uint64(r.largest_live), Tail: uint64(r.tail),
	}
	for i, class := range r.classes {
		report.Classes[i] = ArenaClass{uint64(class.free_ranges), uint64(class.free_units), uint64(class.live_ranges),
			uint64(class.live_units)}
	}
	return report, err
}

// ArenaRange is a range of an arena.
type ArenaRange struct {
	Allocation ArenaAllocation // 0: free
	Offset     uint64
	Size       uint64
}

// Ranges are all ranges, live and free, in the order of their offsets and without gaps.
func (a *Arena) Ranges() ([]ArenaRange, error) {
	const op = "arena ranges"
	if err := a.enter(op); err != nil {
		return nil, err
	}
	defer a.leave()
	var array *C.weir_arena_range
	var count C.size_t
	if err := failed(op, C.weirgo_arena_ranges(C.uintptr_t(a.handle), &array, &count)); err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(array))
	ranges := make([]ArenaRange, count)
	for i, from := range unsafe.Slice(array, int(count)) {
		ranges[i] = ArenaRange{ArenaAllocation(from.allocation), uint64(from.offset), uint64(from.size)}
	}
	return ranges, nil
}

// Validate checks every invariant of the arena; ErrInternal names the first that does not hold.
func (a *Arena) Validate() error {
	const op = "arena validate"
	if err := a.enter(op); err != nil {
		return err
	}
	defer a.leave()
	return failed(op, C.weirgo_arena_validate(C.uintptr_t(a.handle)))
}
