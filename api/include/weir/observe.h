/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/observe.h - what a context's pools do: traces, written to a file while they do it, and figures for a monitoring system.
 * docs/observing.md has what can be seen of a program, and by which means.
 */
#ifndef WEIR_OBSERVE_H
#define WEIR_OBSERVE_H

#include <weir/context.h>

WEIR_BEGIN_DECLS

/** What a trace is. */
enum {
  WEIR_TRACE_TIMELINE = 0, /**< leases by stream, how long they last and what they waited for, moves of pages, evictions, budgets and refusals over
                                time: Chrome trace format (JSON), for ui.perfetto.dev or chrome://tracing */
  WEIR_TRACE_RECORDING = 1 /**< the calls that the program makes, with which it can be replayed: a trace .vmt of version 2
                                (docs/trace-format.md), compressed by zstd where the path ends in ".zst". It begins before the
                                context's first pool is made */
};

/** A trace. */
typedef struct weir_trace_desc {
  uint32_t struct_size;
  uint32_t kind;      /**< WEIR_TRACE_* */
  const char *path;   /**< of a file that is not there yet; "%p" is the process's number. It is made for its owner alone (0600) and no
                           link is followed. Copied */
  uint64_t max_bytes; /**< the trace ends when its file has come to that (0 = 1 GiB; at least 64 KiB) */
} weir_trace_desc;
#define WEIR_TRACE_DESC_INIT {sizeof(weir_trace_desc), WEIR_TRACE_TIMELINE, NULL, 0}

/** Starts a trace of all pools of the context, those that it has and those that it gets. A context has one of each kind at a time.
 *  Calls on the pools put what they do into rings in memory, 4 MiB for each thread; a thread of the context's writes it down. A note
 *  that finds its ring full is lost, and counted in the file. Where the file can't be written any more, the trace ends by itself, with one
 *  WARNING; nothing else changes for the program. The file can be read at any moment, also after the process was killed.
 *  The environment variables WEIR_TRACE=PATH (a timeline) and WEIR_RECORD=PATH (a recording) start one with the context, whose path gets a
 *  number where there is such a file, and WEIR_TRACE_BYTES is its max_bytes, also as "64M" or "4G" (what can't be read is logged and counts as 0, less than 64 KiB as 64 KiB); they are ignored under secure execution. Any thread. Errors: INVALID_ARGUMENT, BUSY (one of that
 *  kind runs; a recording, and the context has pools), IO (the file can't be made), OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_trace_start(weir_context context, const weir_trace_desc *desc);

/** Ends the trace of that kind; its file is whole when this returns. weir_context_destroy and the process's end do so, too. Any thread.
 *  Errors: INVALID_ARGUMENT (none has been started since the last was stopped), IO (it had ended before: the text says why). */
WEIR_API weir_result weir_trace_stop(weir_context context, uint32_t kind);

/** Writes the figures of all pools of the context in Prometheus' text format 0.0.4 (Content-Type "text/plain; version=0.0.4"), for a
 *  program that has an HTTP endpoint of its own; for others there is `weir exporter`. docs/metrics.md has every metric. At most `capacity`
 *  bytes are written, always NUL-terminated if capacity > 0; *needed (may be NULL) gets the full size with the NUL. The figures of a pool
 *  are of one moment: its lock is taken as long as for weir_pool_stats_get, once a pool. 256 pools are told of, and 64 clients of each
 *  one by one; further ones are counted. Any thread. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. INCOMPLETE if it was cut; `text` may be
 *  NULL with a capacity of 0. The next call may need more. */
WEIR_API weir_result weir_metrics_text(weir_context context, char *text, size_t capacity, size_t *needed);

WEIR_END_DECLS
#endif /* WEIR_OBSERVE_H */
