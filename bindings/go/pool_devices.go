// SPDX-License-Identifier: Apache-2.0

package weir

// Devices that join a pool, leave it and are lost.

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"runtime/cgo"
	"time"
	"unsafe"
)

// AddDevice adds a device of the context to the pool, while it is used.
func (p *Pool) AddDevice(device PoolDevice) error {
	const op = "add device"
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.leave()
	desc := C.weir_pool_device{device: C.weir_device(device.Device), budget: C.uint64_t(device.Budget)}
	return failed(op, C.weirgo_pool_add_device(C.uintptr_t(p.handle), &desc))
}

// RemoveDevice takes a device out of the pool, with nothing lost. It blocks until that is done; when ctx ends first, the
// device is of the pool as before, and the error is ctx.Err() too. ErrBusy while another goroutine removes the device by this
// Pool: an end of one's ctx would cancel the other's removal.
func (p *Pool) RemoveDevice(ctx context.Context, device Device) error {
	const op = "remove device"
	if ctx.Err() != nil {
		return ended(op, ctx)
	}
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.leave()
	if _, busy := p.removing.LoadOrStore(device, true); busy {
		return refused(op, ErrBusy, "another goroutine is removing device %d", device)
	}
	defer p.removing.Delete(device)
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
			p.cancelRemoval(device, over)
		case <-over:
		}
	}()
	err := failed(op, C.weirgo_pool_remove_device(C.uintptr_t(p.handle), C.uint32_t(device), C.WEIR_INFINITE))
	close(over)
	<-watched
	if errors.Is(err, ErrCancelled) && ctx.Err() != nil {
		return ended(op, ctx)
	}
	return err
}

// cancelRemoval goes on until the removal is over, for it may not have begun yet.
func (p *Pool) cancelRemoval(device Device, over <-chan struct{}) {
	retry := time.NewTicker(time.Millisecond)
	defer retry.Stop()
	for {
		if failed("cancel removal", C.weirgo_pool_cancel_remove(C.uintptr_t(p.handle), C.uint32_t(device))) == nil {
			return
		}
		select {
		case <-over:
			return
		case <-retry.C:
		}
	}
}

// CancelRemoval ends a [Pool.RemoveDevice] that another goroutine, or another language, is in.
func (p *Pool) CancelRemoval(device Device) error {
	const op = "cancel removal"
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.leave()
	return failed(op, C.weirgo_pool_cancel_remove(C.uintptr_t(p.handle), C.uint32_t(device)))
}

// Rebalance copies up to so many bytes of spilled pages to neighbours that have memory to spare, and tells how many.
func (p *Pool) Rebalance(bytes uint64) (moved uint64, err error) {
	const op = "rebalance"
	if err := p.enter(op); err != nil {
		return 0, err
	}
	defer p.leave()
	var done C.uint64_t
	err = failed(op, C.weirgo_pool_rebalance(C.uintptr_t(p.handle), C.uint64_t(bytes), &done))
	return uint64(done), err
}

// DeviceLoss is a device that was lost, and what went with it.
type DeviceLoss struct {
	Device     Device
	Generation uint64 // PoolStats.Generation as it was lost
	LostBytes  uint64 // that were nowhere else
}

// OnDeviceLoss sets what is called for each lost device, or nothing (nil). It runs on a thread of the pool's own, one
// loss at a time; it may use the pool, but neither close it nor call OnDeviceLoss (ErrBusy). OnDeviceLoss waits for a call of
// the former function that is under way. ErrBusy also while another goroutine is in OnDeviceLoss.
func (p *Pool) OnDeviceLoss(call func(DeviceLoss)) error {
	const op = "set loss callback"
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.leave()
	return p.setLossCallback(op, call)
}

func (p *Pool) setLossCallback(op string, call func(DeviceLoss)) error {
	// No waiting here: the goroutine that holds it may be waiting for a callback that is in this very call.
	if !p.loss.TryLock() {
		return refused(op, ErrBusy, "another goroutine is setting it")
	}
	defer p.loss.Unlock()
	var handle cgo.Handle
	if call != nil {
		handle = cgo.NewHandle(call)
	}
	if err := failed(op, C.weirgo_pool_set_loss_callback(C.uintptr_t(p.handle), C.uintptr_t(handle))); err != nil {
		if handle != 0 {
			handle.Delete()
		}
		return err
	}
	before := p.loss.handle
	p.loss.handle = handle
	if before != 0 {
		before.Delete()
	}
	return nil
}

// dropLossCallback is for the Close of a borrowed pool, which lives on.
func (p *Pool) dropLossCallback(op string) error {
	p.loss.Lock()
	set := p.loss.handle != 0
	p.loss.Unlock()
	if !set {
		return nil
	}
	return p.setLossCallback(op, nil)
}

// forgetLoss ends the callback's handle once the pool has ended.
func (p *Pool) forgetLoss() {
	p.loss.Lock()
	defer p.loss.Unlock()
	if p.loss.handle != 0 {
		p.loss.handle.Delete()
		p.loss.handle = 0
	}
}

// LostRange is bytes of a buffer that were lost with a device.
type LostRange struct {
	Buffer uintptr // Buffer.Handle of the buffer
	Tag    uint64
	Offset uint64
	Length uint64
}

// LostRanges tells what is lost now. A range ends being lost when it is written anew with DiscardWrite, or discarded.
func (p *Pool) LostRanges() ([]LostRange, error) {
	const op = "lost ranges"
	if err := p.enter(op); err != nil {
		return nil, err
	}
	defer p.leave()
	var array *C.weir_lost_range
	var count C.size_t
	if err := failed(op, C.weirgo_pool_lost_ranges(C.uintptr_t(p.handle), &array, &count)); err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(array))
	ranges := make([]LostRange, count)
	for i := range ranges {
		from := &unsafe.Slice(array, int(count))[i]
		ranges[i] = LostRange{Buffer: number(unsafe.Pointer(&from.buffer)), Tag: uint64(from.tag),
			Offset: uint64(from.offset), Length: uint64(from.length)}
	}
	return ranges, nil
}

// number reads a handle that is no pointer to Go: the collector must never see it as one.
func number(at unsafe.Pointer) uintptr { return *(*uintptr)(at) }
