// SPDX-License-Identifier: Apache-2.0

//! What is to be seen of a context's pools: traces, and figures for Prometheus.

use crate::context::{c_text, document};
use crate::error::check;
use crate::{Context, Result};
use weir_sys as sys;
use weir_sys::Init as _;

/// What a trace is.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum TraceKind {
    /// Leases by stream, how long they last and what they waited for, moves of pages, evictions, budgets and refusals over time: Chrome's
    /// trace format, for ui.perfetto.dev.
    #[default]
    Timeline,
    /// The calls that the program makes, with which `weir replay` replays it.
    Recording,
}

impl TraceKind {
    fn as_raw(self) -> u32 {
        match self {
            TraceKind::Timeline => sys::WEIR_TRACE_TIMELINE,
            TraceKind::Recording => sys::WEIR_TRACE_RECORDING,
        }
    }
}

/// A trace to be started.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    path: String,
    kind: TraceKind,
    max_bytes: u64,
}

impl TraceOptions {
    /// A timeline in a file that is not there yet; `%p` is the process's number. The file is made for its owner alone.
    pub fn new(path: &str) -> TraceOptions {
        TraceOptions { path: path.to_owned(), kind: TraceKind::default(), max_bytes: 0 }
    }

    /// Another kind of trace.
    pub fn kind(mut self, kind: TraceKind) -> TraceOptions {
        self.kind = kind;
        self
    }

    /// The trace ends when its file has come to that, 1 GiB unless told otherwise.
    pub fn max_bytes(mut self, bytes: u64) -> TraceOptions {
        self.max_bytes = bytes;
        self
    }
}

/// A trace of a context's pools, which runs. It stops when it is dropped. It keeps the context alive.
#[derive(Debug)]
#[must_use = "a trace stops when it is dropped"]
pub struct Trace {
    context: Context,
    kind: TraceKind,
}

impl Trace {
    /// Stops it: its file is whole then. [`Error::Io`](crate::Error::Io): it had ended before, and the error says why.
    pub fn stop(self) -> Result<()> {
        // SAFETY: the handle is live; `self` is not dropped before `ended` has its words.
        let ended = check(unsafe { sys::weir_trace_stop(self.context.as_raw(), self.kind.as_raw()) });
        let stopped = std::mem::ManuallyDrop::new(self);
        // SAFETY: `stopped` is not dropped, and its context is taken once.
        drop(unsafe { std::ptr::read(&stopped.context) });
        ended
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Why it ended before its time, if it did, the log has told.
        // SAFETY: the handle is live.
        unsafe { sys::weir_trace_stop(self.context.as_raw(), self.kind.as_raw()) };
    }
}

impl Context {
    /// Starts a trace of all pools of the context, those that it has and those that it gets. [`Error::Busy`](crate::Error::Busy):
    /// one of that kind runs.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("weir-trace-{}.json", std::process::id()));
    /// # let path = folder.to_str().unwrap();
    /// let context = weir::ContextOptions::new().options("host.memory=64M").open()?;
    /// let trace = context.trace(&weir::TraceOptions::new(path))?;
    /// // ... what is to be seen
    /// trace.stop()?;
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), weir::Error>(())
    /// ```
    pub fn trace(&self, options: &TraceOptions) -> Result<Trace> {
        let path = c_text("path", &options.path)?;
        let mut desc = sys::weir_trace_desc::INIT;
        desc.kind = options.kind.as_raw();
        desc.path = path.as_ptr();
        desc.max_bytes = options.max_bytes;
        // SAFETY: the handle is live, and the path outlives the call.
        check(unsafe { sys::weir_trace_start(self.as_raw(), &desc) })?;
        Ok(Trace { context: self.clone(), kind: options.kind })
    }

    /// The figures of all pools of the context in Prometheus' text format 0.0.4, for a program that has an HTTP endpoint of its own
    /// (`Content-Type: text/plain; version=0.0.4`). `docs/metrics.md` has every metric.
    pub fn metrics_text(&self) -> Result<String> {
        document(|bytes, capacity, needed| {
            // SAFETY: the handle is live, and there are `capacity` bytes.
            unsafe { sys::weir_metrics_text(self.as_raw(), bytes, capacity, needed) }
        })
    }
}
