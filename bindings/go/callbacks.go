// SPDX-License-Identifier: Apache-2.0

package weir

// What C calls. Go values cross as cgo.Handle in a uintptr. A panic in a function that runs on a thread of the library's
// ends the program, as in any goroutine. One that runs below a call of Go's own (weirgoShouldStop) must not unwind
// through C, which may hold locks there: it is kept, and goes on when C has returned.

/*
#include "shim.h"
*/
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

//export weirgoLog
func weirgoLog(handle C.uintptr_t, level C.int32_t, text *C.char) {
	cgo.Handle(handle).Value().(func(LogLevel, string))(LogLevel(level), C.GoString(text))
}

//export weirgoHostCall
func weirgoHostCall(handle C.uintptr_t) {
	h := cgo.Handle(handle)
	call := h.Value().(func())
	h.Delete()
	call()
}

//export weirgoRunStep
func weirgoRunStep(handle C.uintptr_t, addresses *C.uint64_t, count C.size_t) {
	h := cgo.Handle(handle)
	call := h.Value().(*stepCall)
	h.Delete()
	var list []C.uint64_t
	if count != 0 {
		list = unsafe.Slice(addresses, int(count))
	}
	call.run(list)
}

//export weirgoDeviceLost
func weirgoDeviceLost(handle C.uintptr_t, device C.uint32_t, generation, lost C.uint64_t) {
	loss := DeviceLoss{Device: Device(device), Generation: uint64(generation), LostBytes: uint64(lost)}
	cgo.Handle(handle).Value().(func(DeviceLoss))(loss)
}

//export weirgoShouldStop
func weirgoShouldStop(handle C.uintptr_t) C.int32_t {
	if cgo.Handle(handle).Value().(*stopper).ask() {
		return 1
	}
	return 0
}

//export weirgoAcquired
func weirgoAcquired(handle C.uintptr_t, lease C.uintptr_t, e *C.weirgo_error) {
	cgo.Handle(handle).Value().(chan grant) <- grant{uintptr(lease), failed("acquire", e)}
}

// What follows takes the ways from C into Go that no call of the host backend takes at will; tests can't have C in them.

func deliverLoss(call func(DeviceLoss), loss DeviceLoss) {
	handle := cgo.NewHandle(call)
	defer handle.Delete()
	C.weirgo_deliver_loss(C.uintptr_t(handle), C.uint32_t(loss.Device), C.uint64_t(loss.Generation), C.uint64_t(loss.LostBytes))
}

func deliverLog(c *Context, level LogLevel, text string) {
	var texts cStrings
	defer texts.free()
	C.weirgo_deliver_log(C.uintptr_t(c.log), C.int32_t(level), texts.add(text))
}

// growing is a text and an array of the shims that were longer at each look until they were read.
func growing(format uint32) (text string, numbers []uint64, err error) {
	var chars *C.char
	var array *C.uint64_t
	var length, count C.size_t
	if err := failed("growing text", C.weirgo_growing_text(C.uint32_t(format), &chars, &length)); err != nil {
		return "", nil, err
	}
	defer C.free(unsafe.Pointer(chars))
	if err := failed("growing array", C.weirgo_growing_array(&array, &count)); err != nil {
		return "", nil, err
	}
	defer C.free(unsafe.Pointer(array))
	for _, number := range unsafe.Slice(array, int(count)) {
		numbers = append(numbers, uint64(number))
	}
	return C.GoStringN(chars, C.int(length)), numbers, nil
}

// statsName is the library's name of a counter, "" beyond the last.
func statsName(i int) string { return C.GoString(C.weirgo_stats_name(C.size_t(i))) }
