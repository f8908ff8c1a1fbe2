// SPDX-License-Identifier: Apache-2.0

//! How a pool is to be made. What is not said is at the default of `weir_pool_desc`.

use crate::context::{c_text, count, pointer};
use crate::error::check;
use crate::words::nanoseconds;
use crate::{Context, Device, Pool, Result};
use std::ffi::{c_char, CString};
use std::ptr;
use std::time::Duration;
use weir_sys as sys;
use weir_sys::Init as _;

/// How a pool is to be made.
///
/// ```
/// use weir::{ContextOptions, Device, PoolOptions};
/// let context = ContextOptions::new().options("host.memory=64M").open()?;
/// let pool = PoolOptions::new().device(Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
/// assert_eq!(pool.stats()?.device_budget, 8 << 20);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone)]
pub struct PoolOptions {
    desc: sys::weir_pool_desc,
    devices: Vec<sys::weir_pool_device>,
    policy: Option<String>,
    name: Option<String>,
    storage_paths: Vec<String>,
    codec: Option<String>,
}

// SAFETY: the descriptor's pointers are NULL until `create` fills a copy of it.
unsafe impl Send for PoolOptions {}
// SAFETY: as above.
unsafe impl Sync for PoolOptions {}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            desc: sys::weir_pool_desc::INIT,
            devices: Vec::new(),
            policy: None,
            name: None,
            storage_paths: Vec::new(),
            codec: None,
        }
    }
}

impl PoolOptions {
    /// A pool without devices yet: give it one at least.
    pub fn new() -> PoolOptions {
        PoolOptions::default()
    }

    /// A device, and how many bytes of its memory the pool may hold. The first one is [`Device::DEFAULT`].
    pub fn device(mut self, device: Device, budget: u64) -> PoolOptions {
        self.devices.push(sys::weir_pool_device { device: device.0, budget, ..sys::weir_pool_device::INIT });
        self
    }

    /// Bytes of pinned host memory; [`NONE`](crate::NONE) = none but for staging. Without it HOST follows what the machine has
    /// to spare.
    pub fn host_budget(mut self, bytes: u64) -> PoolOptions {
        self.desc.host_budget = bytes;
        self
    }

    /// A power of two times the largest of the devices' granules, at most 1 GiB. Otherwise that granule, or 4 MiB where it is 2 MiB
    /// and every budget has 64 of them.
    pub fn page_size(mut self, bytes: u64) -> PoolOptions {
        self.desc.page_size = bytes;
        self
    }

    /// A power of two times the page size, at most 1 GiB; equal to the page size = one class only.
    pub fn large_page_size(mut self, bytes: u64) -> PoolOptions {
        self.desc.large_page_size = bytes;
        self
    }

    /// Thousandths of the device budget: below `low_permille` free, background demotion starts, and goes on until
    /// `high_permille` are free.
    pub fn watermarks(mut self, low_permille: u32, high_permille: u32) -> PoolOptions {
        self.desc.watermark_low_permille = low_permille;
        self.desc.watermark_high_permille = high_permille;
        self
    }

    /// How long one eviction may wait for the fences of released work; [`Duration::ZERO`] = 10 s, as without it.
    pub fn evict_wait(mut self, time: Duration) -> PoolOptions {
        self.desc.evict_wait_ns = nanoseconds(time);
        self
    }

    /// The eviction policy, "auto" or "lru-window". Without it: "auto" in pools that are large enough
    /// (docs/policies.md), else "lru-window".
    pub fn policy(mut self, name: &str) -> PoolOptions {
        self.policy = Some(name.to_owned());
        self
    }

    /// For logs and snapshots.
    pub fn name(mut self, name: &str) -> PoolOptions {
        self.name = Some(name.to_owned());
        self
    }

    /// Bytes of pageable host memory for compressed pages.
    pub fn compressed_budget(mut self, bytes: u64) -> PoolOptions {
        self.desc.compressed_budget = bytes;
        self
    }

    /// Bytes of spill files in all, and the directories they lie in, which must exist.
    pub fn storage<P: AsRef<str>>(mut self, bytes: u64, paths: &[P]) -> PoolOptions {
        self.desc.storage_budget = bytes;
        self.storage_paths = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        self
    }

    /// Threads that compress, and percent of a CPU that each may use in the background; 0 = Weir chooses.
    pub fn compress_threads(mut self, threads: u32, share_percent: u32) -> PoolOptions {
        self.desc.compress_threads = threads;
        self.desc.compress_share_percent = share_percent;
        self
    }

    /// What compressed blocks may be coded with: "auto", or one method's name.
    pub fn codec(mut self, name: &str) -> PoolOptions {
        self.codec = Some(name.to_owned());
        self
    }

    /// Device memory that was not needed for this long goes back to the system; [`Duration::ZERO`] = 10 s, as without it.
    pub fn idle_grace(mut self, time: Duration) -> PoolOptions {
        self.desc.idle_grace_ns = nanoseconds(time);
        self
    }

    /// Device memory goes back to the system only by [`Pool::trim`].
    pub fn keep_idle_memory(mut self) -> PoolOptions {
        self.desc.idle_grace_ns = sys::WEIR_NONE;
        self
    }

    /// What device memory is taken in where there is no virtual-memory management.
    pub fn segment_size(mut self, bytes: u64) -> PoolOptions {
        self.desc.segment_size = bytes;
        self
    }

    /// Pages that lie unused in COMPRESSED for this long are compressed again, harder; [`Duration::ZERO`] = 10 s, as without it.
    pub fn recompress_idle(mut self, time: Duration) -> PoolOptions {
        self.desc.recompress_idle_ns = nanoseconds(time);
        self
    }

    /// Nothing in COMPRESSED is compressed again.
    pub fn no_recompression(mut self) -> PoolOptions {
        self.desc.recompress_idle_ns = sys::WEIR_NONE;
        self
    }

    /// How much may go to neighbours with memory to spare, in the background; [`NONE`](crate::NONE) = only by
    /// [`Pool::rebalance`].
    pub fn rebalance_rate(mut self, bytes_per_second: u64) -> PoolOptions {
        self.desc.rebalance_bytes_per_second = bytes_per_second;
        self
    }

    /// Bytes of host memory that the pool's own records may take for buffers to be made; [`UNLIMITED`](crate::UNLIMITED) = no
    /// limit. Without it a 64th of the machine's memory.
    pub fn record_budget(mut self, bytes: u64) -> PoolOptions {
        self.desc.record_budget = bytes;
        self
    }

    /// Bytes of host memory for what the policy "auto" learns, at least 2 MiB. Without it 32 MiB, or a quarter of `record_budget`.
    pub fn policy_memory(mut self, bytes: u64) -> PoolOptions {
        self.desc.policy_memory = bytes;
        self
    }

    /// Percent of one CPU that the policy "auto" may use to learn and plan. Without it 10.
    pub fn policy_cpu_percent(mut self, percent: u32) -> PoolOptions {
        self.desc.policy_cpu_percent = percent;
        self
    }

    /// No demotion or prefetch threads: all work happens inside calls.
    pub fn no_background(self) -> PoolOptions {
        self.flag(sys::WEIR_POOL_NO_BACKGROUND)
    }

    /// Checksum every page that is demoted to host memory, and compare it before the bytes are used again.
    pub fn checksum_host(self) -> PoolOptions {
        self.flag(sys::WEIR_POOL_CHECKSUM_HOST)
    }

    /// Encrypt the spill files with a random key that is kept in memory only.
    pub fn encrypt_storage(self) -> PoolOptions {
        self.flag(sys::WEIR_POOL_ENCRYPT_STORAGE)
    }

    /// Spill files through the page cache.
    pub fn buffered_storage(self) -> PoolOptions {
        self.flag(sys::WEIR_POOL_BUFFERED_STORAGE)
    }

    /// Spill files by threads, even where io_uring works.
    pub fn no_io_uring(self) -> PoolOptions {
        self.flag(sys::WEIR_POOL_NO_IO_URING)
    }

    /// No page leaves a device for a neighbour's idle memory.
    pub fn no_peer(self) -> PoolOptions {
        self.flag(sys::WEIR_POOL_NO_PEER)
    }

    fn flag(mut self, flag: u32) -> PoolOptions {
        self.desc.flags |= u64::from(flag);
        self
    }

    /// Makes the pool.
    pub fn create(&self, context: &Context) -> Result<Pool> {
        let text = |name: &str, text: &Option<String>| -> Result<Option<CString>> {
            text.as_deref().map(|text| c_text(name, text)).transpose()
        };
        let (policy, name) = (text("policy", &self.policy)?, text("name", &self.name)?);
        let codec = text("codec", &self.codec)?;
        let paths: Vec<CString> =
            self.storage_paths.iter().map(|path| c_text("storage path", path)).collect::<Result<_>>()?;
        let path_list: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
        let mut desc = self.desc;
        desc.device_count = count(self.devices.len())?;
        desc.devices = self.devices.as_ptr();
        desc.policy = pointer(&policy);
        desc.name = pointer(&name);
        desc.codec = pointer(&codec);
        desc.storage_path_count = count(path_list.len())?;
        if !path_list.is_empty() {
            desc.storage_paths = path_list.as_ptr();
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the context is live, and everything the descriptor points to is copied by the call.
        check(unsafe { sys::weir_pool_create(context.as_raw(), &desc, &mut raw) })?;
        Ok(Pool::owner(raw, context))
    }
}

impl std::fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolOptions")
            .field("devices", &self.devices)
            .field("host_budget", &self.desc.host_budget)
            .field("compressed_budget", &self.desc.compressed_budget)
            .field("storage_budget", &self.desc.storage_budget)
            .field("flags", &self.desc.flags)
            .finish_non_exhaustive()
    }
}
