// SPDX-License-Identifier: Apache-2.0

//! Defragmentation: buffers move together so that memory becomes free in one piece. By a call, or in the background.

use crate::callback::Carried;
use crate::error::check;
use crate::words::nanoseconds;
use crate::{Device, Pool, Result};
use std::ffi::c_void;
use std::time::Duration;
use weir_sys as sys;
use weir_sys::Init as _;

/// Bounds of one call. Without any it goes on until nothing more can be won.
#[derive(Clone, Debug)]
pub struct DefragmentOptions {
    device: Device,
    flags: u64,
    max_bytes: u64,
    max_moves: u64,
    max_ns: u64,
    max_cost_permille: u32,
}

impl Default for DefragmentOptions {
    fn default() -> DefragmentOptions {
        DefragmentOptions {
            device: Device::ALL,
            flags: 0,
            max_bytes: 0,
            max_moves: 0,
            max_ns: 0,
            max_cost_permille: 0,
        }
    }
}

impl DefragmentOptions {
    /// All devices, no bounds.
    pub fn new() -> DefragmentOptions {
        DefragmentOptions::default()
    }

    /// One device only.
    pub fn device(mut self, device: Device) -> DefragmentOptions {
        self.device = device;
        self
    }

    /// What is won is free when the call returns.
    pub fn wait(mut self) -> DefragmentOptions {
        self.flags |= u64::from(sys::WEIR_DEFRAGMENT_WAIT);
        self
    }

    /// Without virtual-memory management: what is in the way and fits nowhere else is evicted.
    pub fn evict(mut self) -> DefragmentOptions {
        self.flags |= u64::from(sys::WEIR_DEFRAGMENT_EVICT);
        self
    }

    /// Bytes moved, at most.
    pub fn max_bytes(mut self, bytes: u64) -> DefragmentOptions {
        self.max_bytes = bytes;
        self
    }

    /// Moves, at most.
    pub fn max_moves(mut self, moves: u64) -> DefragmentOptions {
        self.max_moves = moves;
        self
    }

    /// Looked at before each step, so that with no time left nothing is moved.
    pub fn max_time(mut self, time: Duration) -> DefragmentOptions {
        self.max_ns = nanoseconds(time).max(1); // 0 would be no bound
        self
    }

    /// Bytes moved for a thousand bytes won; what costs more is left alone.
    pub fn max_cost_permille(mut self, cost: u32) -> DefragmentOptions {
        self.max_cost_permille = cost;
        self
    }
}

macro_rules! report {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// What a call did, and what it left. Of several devices the sums, and the worst fragmentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct DefragmentReport {
            /// No bound ended it; calling again at once would change nothing.
            pub finished: bool,
            /// What it took.
            pub elapsed: Duration,
            /// Thousandths of the memory of slabs that no buffer uses, before; without virtual-memory management those of the
            /// free bytes outside the longest range, if that is more.
            pub fragmentation_before_permille: u32,
            /// The same, as the call left it.
            pub fragmentation_after_permille: u32,
            $($(#[$meta])* pub $name: u64,)*
        }

        impl DefragmentReport {
            fn from_raw(raw: &sys::weir_defragment_report) -> DefragmentReport {
                DefragmentReport {
                    finished: raw.finished != 0,
                    elapsed: Duration::from_nanos(raw.elapsed_ns),
                    fragmentation_before_permille: raw.fragmentation_before_permille,
                    fragmentation_after_permille: raw.fragmentation_after_permille,
                    $($name: raw.$name,)*
                }
            }
        }
    };
}

report! {
    /// Copied on the device.
    moved_bytes,
    /// Tenants moved, those without contents too.
    copy_moves,
    /// Parts of buffers that went to a granule with others; their addresses stay.
    remap_moves,
    /// With [`DefragmentOptions::evict`].
    evict_moves,
    /// Bytes of those.
    evicted_bytes,
    /// Device memory that is free now and was not.
    won_bytes,
    /// Without virtual-memory management: the longest free range of one device, before.
    largest_free_before,
    /// ... and after.
    largest_free_after,
    /// What stayed because it is leased.
    leased_bytes,
    /// ... held.
    held_bytes,
    /// ... of `malloc`.
    pinned_bytes,
    /// ... of stable address.
    stable_bytes,
    /// ... on its way.
    busy_bytes,
    /// ... and would fit nowhere else.
    no_room_bytes,
}

/// Defragmentation by a thread of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundDefragmentation {
    /// Thousandths of fragmentation above which it works; 0 = off.
    pub threshold_permille: u32,
    /// Moved, at most; 0 = 256 MiB.
    pub bytes_per_second: u64,
    /// As [`DefragmentOptions::max_cost_permille`]; 0 = 500.
    pub max_cost_permille: u32,
}

/// What the closure is called through.
struct Break<'a> {
    should_stop: &'a mut dyn FnMut() -> bool,
    panic: Carried,
}

/// Asked between two steps, on the calling thread.
unsafe extern "C" fn should_stop(user: *mut c_void) -> i32 {
    // SAFETY: `user` is the `Break` of the call under way, which no other code uses meanwhile.
    let asked = unsafe { &mut *user.cast::<Break<'_>>() };
    let Break { should_stop, panic } = asked;
    i32::from(panic.run(true, should_stop))
}

impl Pool {
    /// Moves buffers together. What is leased or held is stepped around. What was moved stays moved if it fails halfway; only
    /// the call of C, `weir_pool_defragment`, reports how much that was.
    pub fn defragment(&self, options: &DefragmentOptions) -> Result<DefragmentReport> {
        self.run_defragment(options, None)
    }

    /// As [`Pool::defragment`]; `should_stop` is asked between two steps, and `true` ends the call. A panic in it ends the
    /// call too, with [`Error::Panicked`](crate::Error::Panicked).
    pub fn defragment_until(
        &self,
        options: &DefragmentOptions,
        mut should_stop: impl FnMut() -> bool,
    ) -> Result<DefragmentReport> {
        self.run_defragment(options, Some(&mut should_stop))
    }

    fn run_defragment(
        &self,
        options: &DefragmentOptions,
        stop: Option<&mut dyn FnMut() -> bool>,
    ) -> Result<DefragmentReport> {
        let mut desc = sys::weir_defragment_desc::INIT;
        desc.device = options.device.0;
        desc.flags = options.flags;
        desc.max_bytes = options.max_bytes;
        desc.max_moves = options.max_moves;
        desc.max_ns = options.max_ns;
        desc.max_cost_permille = options.max_cost_permille;
        let mut asked = stop.map(|should_stop| Break { should_stop, panic: Carried::new() });
        if let Some(asked) = &mut asked {
            desc.should_stop = Some(should_stop);
            desc.user = (asked as *mut Break<'_>).cast();
        }
        let mut report = sys::weir_defragment_report::INIT;
        // SAFETY: the handle is live, and `asked` outlives the call.
        let ended = check(unsafe { sys::weir_pool_defragment(self.as_raw(), &desc, &mut report) });
        let ended = match asked {
            Some(asked) => asked.panic.outcome(ended),
            None => ended,
        };
        ended.map(|()| DefragmentReport::from_raw(&report))
    }

    /// Starts, changes or ends the pool's defragmentation in the background.
    pub fn set_defragmentation(&self, how: &BackgroundDefragmentation) -> Result<()> {
        let mut desc = sys::weir_defragmentation_desc::INIT;
        desc.threshold_permille = how.threshold_permille;
        desc.bytes_per_second = how.bytes_per_second;
        desc.max_cost_permille = how.max_cost_permille;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_set_defragmentation(self.as_raw(), &desc) })
    }
}
