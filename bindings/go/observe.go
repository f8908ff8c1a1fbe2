// SPDX-License-Identifier: Apache-2.0

package weir

// What is to be seen of a context's pools: traces, and figures for Prometheus.

/*
#include "shim.h"
*/
import "C"

import (
	"sync"
	"unsafe"
)

// TraceKind is what a trace is.
type TraceKind uint32

const (
	// TraceTimeline is leases by stream, how long they last and what they waited for, moves of pages, evictions, budgets and refusals over
	// time, in Chrome's trace format, for ui.perfetto.dev.
	TraceTimeline TraceKind = C.WEIR_TRACE_TIMELINE
	// TraceRecording is the calls that the program makes, with which `weir replay` replays it.
	TraceRecording TraceKind = C.WEIR_TRACE_RECORDING
)

// TraceOptions say what a trace is and where it is written.
type TraceOptions struct {
	Kind TraceKind // TraceTimeline if it is left out
	// Path is of a file that is not there yet; "%p" is the process's number. The file is made for its owner alone.
	Path     string
	MaxBytes uint64 // the trace ends when its file has come to that; 0 = 1 GiB
}

// Trace is a trace of a context that runs. One that is not stopped ends with its context.
type Trace struct {
	context *Context
	kind    TraceKind
	lock    sync.Mutex
	stopped bool
}

// StartTrace starts a trace of all pools of the context, those that it has and those that it gets. ErrBusy: one of that kind runs.
func (c *Context) StartTrace(options TraceOptions) (*Trace, error) {
	const op = "start trace"
	if err := c.enter(op); err != nil {
		return nil, err
	}
	defer c.leave()
	var texts cStrings
	defer texts.free()
	err := failed(op, C.weirgo_trace_start(C.uintptr_t(c.handle), C.uint32_t(options.Kind), texts.add(options.Path),
		C.uint64_t(options.MaxBytes)))
	if err != nil {
		return nil, err
	}
	return &Trace{context: c, kind: options.Kind}, nil
}

// Stop ends the trace: its file is whole then. Stopping again does nothing, as it does once the context has been closed. ErrIO: it
// had ended before, and the error says why.
func (t *Trace) Stop() error {
	const op = "stop trace"
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.stopped {
		return nil
	}
	t.stopped = true
	if t.context.enter(op) != nil {
		return nil
	}
	defer t.context.leave()
	return failed(op, C.weirgo_trace_stop(C.uintptr_t(t.context.handle), C.uint32_t(t.kind)))
}

// MetricsText is the figures of all pools of the context in Prometheus' text format 0.0.4, for a program that has an HTTP endpoint
// of its own (Content-Type "text/plain; version=0.0.4"). docs/metrics.md of the library has every metric.
func (c *Context) MetricsText() (string, error) {
	const op = "metrics"
	if err := c.enter(op); err != nil {
		return "", err
	}
	defer c.leave()
	var text *C.char
	var length C.size_t
	if err := failed(op, C.weirgo_metrics_text(C.uintptr_t(c.handle), &text, &length)); err != nil {
		return "", err
	}
	defer C.free(unsafe.Pointer(text))
	return C.GoStringN(text, C.int(length)), nil
}
