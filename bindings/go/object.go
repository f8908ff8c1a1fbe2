// SPDX-License-Identifier: Apache-2.0

package weir

// What all objects have in common: a handle that is used by counted calls and children, a Close that succeeds once and
// only when the object is not in use, and a finalizer as a safety net. Finalizers, not runtime.AddCleanup, also where Go
// has both: they run in the order of references, a buffer's before its pool's, while cleanups of objects that die
// together run in any order.

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	closedBit = 1 << 62
	// Between a close that the library has been asked for and its answer.
	closingBit = 1 << 61
	// While Close looks for users that are not counted: it is soon taken back, or becomes the closingBit.
	askingBit = 1 << 60
)

// object is embedded by value. state counts users, but for leases with slots (slots.go); handle never changes once it is open.
type object struct {
	state    atomic.Int64
	handle   uintptr
	kind     kind
	borrowed bool
	stack    []uintptr
}

type kind uint8

const (
	kindContext kind = iota
	kindPool
	kindClient
	kindBuffer
	kindStream
	kindLease
	kindHold
	kindAllocation
	kindRegistration
	kindArena
	kindCount
)

var kindNames = [kindCount]string{
	"Context", "Pool", "Client", "Buffer", "Stream", "Lease", "Hold", "Allocation", "HostRegistration", "Arena",
}

func (k kind) String() string { return kindNames[k] }

// enter counts a user in; leave must follow unless it failed.
func (o *object) enter(op string) error {
	if o.state.Add(1) < askingBit {
		return nil
	}
	return o.enterLate(op)
}

// enterLate is enter where the object is being closed or has been; it counts the user of before out.
func (o *object) enterLate(op string) error {
	for {
		if o.state.Add(-1) >= closingBit {
			return closedError(op, o.kind.String())
		}
		runtime.Gosched()
		if o.state.Add(1) < askingBit {
			return nil
		}
	}
}

func (o *object) leave() { o.state.Add(-1) }

// finish runs end, which asks the library, if the object is not in use, and makes it closed if that succeeds.
func (o *object) finish(op string, end func() error) error {
	_, err := o.finishFor(op, nil, end, func(error) bool { return true })
	return err
}

// finishFor is finish for what the library may end though it answers an error: such an object is closed unless stays holds
// for the error. It tells whether this call has closed it. uncounted, which may be nil, counts users that are not in state.
func (o *object) finishFor(op string, uncounted func() int64, end func() error, stays func(error) bool) (closed bool, err error) {
	for {
		users := o.state.Load()
		if users >= closingBit {
			return false, closedError(op, o.kind.String())
		}
		if users >= askingBit {
			runtime.Gosched()
			continue
		}
		if users != 0 {
			return false, o.busy(op, users)
		}
		if o.state.CompareAndSwap(0, askingBit) {
			break
		}
	}
	if uncounted != nil {
		if users := uncounted(); users != 0 {
			o.state.Add(-askingBit)
			return false, o.busy(op, users)
		}
	}
	o.state.Add(closingBit - askingBit)
	if err = end(); err != nil && stays(err) {
		o.state.Add(-closingBit)
		return false, err
	}
	o.state.Add(closedBit - closingBit)
	live[o.kind].Add(-1)
	return true, err
}

func (o *object) busy(op string, users int64) error {
	return refused(op, ErrBusy, "the %s is still used: %d leases, children or calls under way", o.kind, users)
}

// isAny holds for an error of one of the results.
func isAny(err error, results ...Result) bool {
	for _, result := range results {
		if errors.Is(err, result) {
			return true
		}
	}
	return false
}

func (o *object) isClosed() bool { return o.state.Load() >= closedBit }

// ---- the safety net ----

var (
	live       [kindCount]atomic.Int64
	leakStacks = leakStacksWanted(os.Getenv("WEIR_GO_LEAKS"))
	leakHook   struct {
		sync.Mutex
		report func(kind, stack string)
	}
)

func leakStacksWanted(value string) bool {
	on, err := strconv.ParseBool(value)
	return err == nil && on
}

// OnLeak sets what is called for each object that the garbage collector finds before it was closed, or nothing (nil),
// and returns what was set before. kind is "Pool", "Lease" and so on. stack is where the object was made if the environment
// variable WEIR_GO_LEAKS is 1, else "". The object is closed after the call, but for a [Hold] and an [Allocation]: it is
// not known whether work on them still runs, so they stay as they are, and what they are of can't be closed any more. Without
// a hook, leaks are written to stderr if WEIR_GO_LEAKS is 1. The hook runs on the goroutine of finalizers: it must return soon.
func OnLeak(report func(kind, stack string)) (before func(kind, stack string)) {
	leakHook.Lock()
	defer leakHook.Unlock()
	before, leakHook.report = leakHook.report, report
	return before
}

// LiveObjects counts the objects that are open, by kind; leases are not counted. It is for tests of programs.
func LiveObjects() map[string]int64 {
	counts := make(map[string]int64, kindCount)
	for k := kind(0); k < kindCount; k++ {
		if n := live[k].Load(); n != 0 {
			counts[k.String()] = n
		}
	}
	return counts
}

func reportLeak(k kind, pcs []uintptr) {
	leakHook.Lock()
	report := leakHook.report
	leakHook.Unlock()
	stack := stackText(pcs)
	if report != nil {
		report(k.String(), stack)
	} else if leakStacks {
		os.Stderr.WriteString("weir: a " + k.String() + " was never closed; it was made here:\n" + stack)
	}
}

func stackText(pcs []uintptr) string {
	if len(pcs) == 0 {
		return ""
	}
	var text strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		frame, more := frames.Next()
		text.WriteString(frame.Function + "\n\t" + frame.File + ":" + strconv.Itoa(frame.Line) + "\n")
		if !more {
			return text.String()
		}
	}
}

// callerStack leaves out itself and `skip` callers.
func callerStack(skip int) []uintptr {
	if !leakStacks {
		return nil
	}
	pcs := make([]uintptr, 32)
	return pcs[:runtime.Callers(skip+2, pcs)]
}

// open makes `o`, embedded in `owner`, an open object, with end as what closes it when the collector finds it open; nil: it
// is reported only, and its owners stay open.
func open[T any](owner *T, o *object, k kind, handle uintptr, end func(*T) error) {
	o.handle = handle
	o.kind = k
	o.stack = callerStack(2)
	live[k].Add(1)
	runtime.SetFinalizer(owner, func(owner *T) {
		if o := objectOf(owner); !o.isClosed() {
			if !o.borrowed {
				reportLeak(o.kind, o.stack)
			}
			if end != nil {
				endLater(owner, end)
			}
		}
	})
}

// endLater closes what the collector has found. What is still used, as by another language, waits for a later collection.
func endLater[T any](owner *T, end func(*T) error) {
	// Ending a pool waits for work in flight; finalizers share one goroutine, which must not.
	go func() {
		if errors.Is(end(owner), ErrBusy) {
			runtime.SetFinalizer(owner, func(owner *T) { endLater(owner, end) })
		}
	}()
}

// objectOf finds the object of an owner; a closure over the object itself would keep the owner alive for ever.
func objectOf(owner any) *object { return owner.(interface{ base() *object }).base() }

func (o *object) base() *object { return o }
