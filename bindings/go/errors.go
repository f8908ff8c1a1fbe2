// SPDX-License-Identifier: Apache-2.0

package weir

// Errors: the results of the library as values for errors.Is, and the numbers behind one. What fails in C comes here
// with the numbers fetched in the same call, since a goroutine's next call may be on another thread.

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
)

// Result is an outcome of a call of the library. The negative ones are errors, and targets for errors.Is.
type Result int32

// Docs/errors.md of the library says what each means and what to do.
const (
	ErrInvalidArgument = Result(C.WEIR_ERROR_INVALID_ARGUMENT)
	ErrInvalidHandle   = Result(C.WEIR_ERROR_INVALID_HANDLE)
	ErrNotSupported    = Result(C.WEIR_ERROR_NOT_SUPPORTED)
	ErrOutOfHostMemory = Result(C.WEIR_ERROR_OUT_OF_HOST_MEMORY)
	ErrOverBudget      = Result(C.WEIR_ERROR_OVER_BUDGET)
	ErrWouldBlock      = Result(C.WEIR_ERROR_WOULD_BLOCK)
	ErrTimeout         = Result(C.WEIR_ERROR_TIMEOUT)
	ErrLeaseConflict   = Result(C.WEIR_ERROR_LEASE_CONFLICT)
	ErrBusy            = Result(C.WEIR_ERROR_BUSY)
	ErrDeviceOOM       = Result(C.WEIR_ERROR_DEVICE_OOM)
	ErrDeviceLost      = Result(C.WEIR_ERROR_DEVICE_LOST)
	ErrDataLost        = Result(C.WEIR_ERROR_DATA_LOST)
	ErrCorrupt         = Result(C.WEIR_ERROR_CORRUPT)
	ErrBackend         = Result(C.WEIR_ERROR_BACKEND)
	ErrStreamCapturing = Result(C.WEIR_ERROR_STREAM_CAPTURING)
	ErrForked          = Result(C.WEIR_ERROR_FORKED)
	ErrIO              = Result(C.WEIR_ERROR_IO)
	ErrCancelled       = Result(C.WEIR_ERROR_CANCELLED)
	ErrDeviceRemoved   = Result(C.WEIR_ERROR_DEVICE_REMOVED)
	ErrInternal        = Result(C.WEIR_ERROR_INTERNAL)
	resultNotReady     = Result(C.WEIR_NOT_READY)
	resultIncomplete   = Result(C.WEIR_INCOMPLETE)
	resultSuccess      = Result(C.WEIR_SUCCESS)
)

// ErrClosed is what use after Close, and a second Close, are; such errors are [ErrInvalidHandle] too.
var ErrClosed = errors.New("weir: already closed")

// Error is the library's constant text for the result.
func (r Result) Error() string { return "weir: " + r.String() }

// String is the library's constant text for the result, as "over budget".
func (r Result) String() string { return C.GoString(C.weir_result_string(C.weir_result(r))) }

// Error is a failed call, with the numbers that the library has for it. Numbers that do not apply are 0, but for Device and
// UseIndex.
type Error struct {
	Op         string // what failed, as "acquire"
	Result     Result
	Message    string // one sentence, which names the values
	Tier       Tier   // that was short
	Device     Device // concerned, or DeviceHost; that too where none is
	Asked      uint64 // bytes asked for, rounded as they would be charged
	Available  uint64 // bytes that could have been had
	ShortBy    uint64 // Asked - Available, where that is the reason
	UseIndex   int    // which use of the call is to blame; -1 if none
	NativeCode int64  // the runtime's or the system's own code
	// Report tells, in lines for people, what holds the bytes that were short, and what to do: see [ErrorReports]. Else it is "".
	Report string
	cause  error
}

// ErrorReports says whether errors have reports from now on, and tells what was so before. They have none until it is called.
//
// With it, an error of the library that is [ErrOverBudget], [ErrDeviceOOM], [ErrWouldBlock], [ErrTimeout], [ErrLeaseConflict]
// or [ErrDataLost] has in [Error].Report what the tier that was short has, the five buffers with most of it, by name, and
// what to do. The report is made in the call that fails, from what the pool is then. An acquire that has waited in vain until its
// Timeout, or until its context's deadline, has the report of the refusal that it waited after; a [Pool.RemoveDevice] that
// its context has ended has none.
//
// A report looks at all buffers of the pool, so each such error takes longer, the more there are; that of an acquire which
// goes on to wait too. It is for finding out, not for a program in which such errors are nothing special.
func ErrorReports(on bool) (before bool) {
	var flag C.int32_t
	if on {
		flag = 1
	}
	return C.weirgo_error_reports(flag) != 0
}

func (e *Error) Error() string {
	text := fmt.Sprintf("weir: %s: %s", e.Op, e.Result.String())
	if e.Message != "" && e.Message != e.Result.String() {
		text += ": " + e.Message
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Is holds for the error's Result.
func (e *Error) Is(target error) bool {
	result, ok := target.(Result)
	return ok && result == e.Result
}

// As gives the error's Result to a *Result.
func (e *Error) As(target any) bool {
	result, ok := target.(*Result)
	if ok {
		*result = e.Result
	}
	return ok
}

// Unwrap is what ended the call where that was not the library: ctx.Err(), or ErrClosed.
func (e *Error) Unwrap() error { return e.cause }

// failed makes an error of what a shim answered, and ends that.
func failed(op string, e *C.weirgo_error) error {
	if e == nil {
		return nil
	}
	err := &Error{
		Op:         op,
		Result:     Result(e.result),
		Message:    C.GoString(e.message),
		Tier:       Tier(e.tier),
		Device:     Device(e.device),
		Asked:      uint64(e.asked),
		Available:  uint64(e.available),
		ShortBy:    uint64(e.short_by),
		UseIndex:   -1,
		NativeCode: int64(e.native_code),
	}
	if e.report != nil {
		err.Report = C.GoString(e.report)
	}
	if uint64(e.use_index) < 1<<31 {
		err.UseIndex = int(e.use_index)
	}
	C.weirgo_error_free(e)
	return err
}

// refused is an error of the binding's own.
func refused(op string, result Result, format string, arguments ...any) error {
	return &Error{Op: op, Result: result, Message: fmt.Sprintf(format, arguments...), Device: DeviceHost,
		UseIndex: -1}
}

func closedError(op, kind string) error {
	return &Error{Op: op, Result: ErrInvalidHandle, Message: "the " + kind + " is closed", Device: DeviceHost,
		UseIndex: -1, cause: ErrClosed}
}

// ended is the error of a call that ctx has ended.
func ended(op string, ctx context.Context) error {
	err := &Error{Op: op, Result: ErrCancelled, Device: DeviceHost, UseIndex: -1, cause: ctx.Err()}
	if errors.Is(err.cause, context.DeadlineExceeded) {
		err.Result = ErrTimeout
	}
	return err
}
