// SPDX-License-Identifier: Apache-2.0

//! The machine as a context sees it, and measuring its links.

use crate::context::document;
use crate::error::{check, text};
use crate::words::nanoseconds;
use crate::{Context, Result, TopologyFormat};
use std::time::Duration;
use weir_sys as sys;
use weir_sys::Init as _;

/// Bounds of a calibration.
#[derive(Clone, Debug, Default)]
pub struct CalibrateOptions {
    flags: u64,
    max_ns: u64,
    max_bytes: u64,
}

impl CalibrateOptions {
    /// All defaults: 5 s, 64 MiB, saved for later contexts.
    pub fn new() -> CalibrateOptions {
        CalibrateOptions::default()
    }

    /// Measure for this context only: write nothing to the cache.
    pub fn no_cache(mut self) -> CalibrateOptions {
        self.flags |= u64::from(sys::WEIR_CALIBRATE_NO_CACHE);
        self
    }

    /// Time for all links together, kept to within some small copies on each.
    pub fn max_time(mut self, time: Duration) -> CalibrateOptions {
        self.max_ns = nanoseconds(time).max(1); // 0 would be the default
        self
    }

    /// Bytes of memory that may be held at once; at least 128 KiB.
    pub fn max_bytes(mut self, bytes: u64) -> CalibrateOptions {
        self.max_bytes = bytes;
        self
    }
}

/// What became of the links; each way of a link counts as one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CalibrateReport {
    /// Have a figure of this call.
    pub measured: u32,
    /// A call of the backend failed; they keep the figure that they had.
    pub failed: u32,
    /// The time was up; they keep the figure that they had.
    pub skipped: u32,
    /// Files written to the cache.
    pub saved: u32,
    /// What it took.
    pub elapsed: Duration,
    /// The folder of the cache, empty if the context has none.
    pub folder: String,
}

impl Context {
    /// The machine with the context's devices in it, as a document.
    ///
    /// ```
    /// let context = weir::ContextOptions::new().options("host.memory=64M").open()?;
    /// let text = context.topology(weir::TopologyFormat::Text)?;
    /// assert!(!text.is_empty());
    /// # Ok::<(), weir::Error>(())
    /// ```
    pub fn topology(&self, format: TopologyFormat) -> Result<String> {
        document(|bytes, capacity, needed| {
            // SAFETY: the handle is live, and there are `capacity` bytes.
            unsafe { sys::weir_topology_export(self.as_raw(), format.as_raw(), bytes, capacity, needed) }
        })
    }

    /// Measures the links between the devices and the host, and between devices that reach each other. The calling thread
    /// waits. [`Error::Io`](crate::Error::Io) if figures can't be saved: they count in this context all the same, and only the
    /// call of C, `weir_topology_calibrate`, reports how many there are.
    pub fn calibrate(&self, options: &CalibrateOptions) -> Result<CalibrateReport> {
        let mut desc = sys::weir_calibrate_desc::INIT;
        desc.flags = options.flags;
        desc.max_ns = options.max_ns;
        desc.max_bytes = options.max_bytes;
        let mut report = sys::weir_calibrate_report::INIT;
        // SAFETY: the handle is live, and so is the folder's name as long as it.
        unsafe {
            check(sys::weir_topology_calibrate(self.as_raw(), &desc, &mut report))?;
            Ok(CalibrateReport {
                measured: report.measured,
                failed: report.failed,
                skipped: report.skipped,
                saved: report.saved,
                elapsed: Duration::from_nanos(report.elapsed_ns),
                folder: text(report.folder),
            })
        }
    }
}
