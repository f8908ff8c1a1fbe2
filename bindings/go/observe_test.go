// SPDX-License-Identifier: Apache-2.0

package weir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTracesStartAndStop(t *testing.T) {
	w := newWorld(t, setup{})
	path := filepath.Join(t.TempDir(), "timeline.json")
	trace, err := w.context.StartTrace(TraceOptions{Path: path})
	ok(t, err)
	_, err = w.context.StartTrace(TraceOptions{Path: path + "2"})
	expect(t, err, ErrBusy)
	w.fill(w.buffer(2), 1)
	ok(t, trace.Stop())
	ok(t, trace.Stop())
	text, err := os.ReadFile(path)
	ok(t, err)
	if !json.Valid(text) {
		t.Fatalf("the trace is no JSON: %s", text)
	}
	_, err = w.context.StartTrace(TraceOptions{Path: path})
	expect(t, err, ErrIO)
	_, err = w.context.StartTrace(TraceOptions{Path: path + "2", Kind: 77})
	expect(t, err, ErrInvalidArgument)
	_, err = w.context.StartTrace(TraceOptions{Path: path + "2", MaxBytes: 1})
	expect(t, err, ErrInvalidArgument)
}

func TestARecordingBeginsBeforeTheFirstPool(t *testing.T) {
	c, err := NewContext(&ContextOptions{Options: smallHost, NoSearch: true})
	ok(t, err)
	options := TraceOptions{Kind: TraceRecording, Path: filepath.Join(t.TempDir(), "calls.vmt")}
	recording, err := c.StartTrace(options)
	ok(t, err)
	pool, err := c.NewPool(PoolOptions{Devices: []PoolDevice{{Device(0), 4 * page}}, HostBudget: 16 * page})
	ok(t, err)
	ok(t, recording.Stop())
	recorded, err := os.ReadFile(options.Path)
	ok(t, err)
	if !strings.HasPrefix(string(recorded), "#vmt 2") {
		t.Errorf("no recording: %s", recorded)
	}
	_, err = c.StartTrace(options)
	expect(t, err, ErrBusy)
	ok(t, pool.Close())
	ok(t, c.Close())
}

func TestATraceEndsWithItsContext(t *testing.T) {
	c, err := NewContext(&ContextOptions{Options: smallHost, NoSearch: true})
	ok(t, err)
	path := filepath.Join(t.TempDir(), "timeline.json")
	trace, err := c.StartTrace(TraceOptions{Path: path})
	ok(t, err)
	ok(t, c.Close())
	ok(t, trace.Stop())
	_, err = c.StartTrace(TraceOptions{Path: path + "2"})
	expect(t, err, ErrInvalidHandle)
	_, err = c.MetricsText()
	expect(t, err, ErrInvalidHandle)
	text, err := os.ReadFile(path)
	ok(t, err)
	if !json.Valid(text) {
		t.Fatalf("the trace is no JSON: %s", text)
	}
}

func TestMetricsAreOfAllPools(t *testing.T) {
	w := newWorld(t, setup{change: func(options *PoolOptions) { options.Name = "größe \"x\"" }})
	w.fill(w.buffer(2), 1)
	text, err := w.context.MetricsText()
	ok(t, err)
	for _, line := range []string{
		"# TYPE weir_buffers gauge\n",
		"weir_buffers{pool=\"größe \\\"x\\\"\",pool_number=\"0\"} 1\n",
		"weir_slow_acquire_seconds_count{",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if !strings.HasSuffix(text, "\n") || strings.Contains(text, "\x00") {
		t.Errorf("cut: %q", text[len(text)-20:])
	}
}
