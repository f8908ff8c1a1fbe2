// SPDX-License-Identifier: Apache-2.0

//! Sharded buffers: how one buffer is dealt out to several devices, and which of its bytes are whose.

use crate::context::count;
use crate::error::check;
use crate::{Buffer, Device, Error, Result, ShardPolicy};
use std::ops::RangeBounds;
use weir_sys as sys;
use weir_sys::Init as _;

/// How one buffer is dealt out to several devices of its pool, for [`BufferOptions::shards`](crate::BufferOptions::shards): for
/// what is larger than one device, or is computed on by all of them. The buffer has one address, the same on all of these
/// devices; each of its pages is brought to the device that the layout names, and used by the others over their links.
///
/// ```
/// use weir::{BufferOptions, ContextOptions, Device, PoolOptions, Shard, ShardLayout, Stream, Use};
///
/// # let machine = "host.devices=2;host.memory=16M;host.granule=64K;host.granule_large=0;\
/// #     host.links=0-1:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G";
/// let context = ContextOptions::new().options(machine).open()?; // two devices that reach each other
/// let pool = PoolOptions::new().device(Device(0), 1 << 20).device(Device(1), 1 << 20).create(&context)?;
///
/// // 1.5 MiB, and more than that fits no device alone: two thirds of it on the first, the rest on the second.
/// let layout = ShardLayout::blocked(&[Device(0), Device(1)]).weights(&[2, 1]);
/// let buffer = BufferOptions::new(1536 << 10).shards(&layout).create(&pool)?;
/// let runs = buffer.shards()?;
/// assert_eq!(runs[0], Shard { offset: 0, length: 1 << 20, device: Device(0) });
/// assert_eq!(runs[1], Shard { offset: 1 << 20, length: 512 << 10, device: Device(1) });
///
/// for run in runs {
///     // Each device works on what it has. Any of them could use all of it, at the same address.
///     let stream = Stream::new(&context, run.device)?;
///     let part = Use::discard_write(&buffer).range(run.offset, run.length);
///     let mut lease = pool.acquire(&stream, [part])?;
///     lease.host_call(move |views| views[0].slice_mut::<u32>().unwrap().fill(run.device.0))?;
/// }
/// # let mut last = [9u32];
/// # buffer.read((1536 << 10) - 4, &mut last)?;
/// # assert_eq!(last[0], 1);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLayout {
    policy: ShardPolicy,
    devices: Vec<Device>,
    weights: Vec<u32>,
    stripe: u64,
}

impl ShardLayout {
    /// 1 to 28 different devices of the pool, each reached directly by all others.
    pub fn new(policy: ShardPolicy, devices: &[Device]) -> ShardLayout {
        ShardLayout { policy, devices: devices.to_vec(), weights: Vec::new(), stripe: 0 }
    }

    /// Stripes in turn: for what all devices read alike.
    pub fn striped(devices: &[Device]) -> ShardLayout {
        ShardLayout::new(ShardPolicy::Striped, devices)
    }

    /// One run of bytes for each device: for what each computes on by itself.
    pub fn blocked(devices: &[Device]) -> ShardLayout {
        ShardLayout::new(ShardPolicy::Blocked, devices)
    }

    /// How much each device gets of it, 1 to 65535, one for each of the devices; all alike unless this is called.
    pub fn weights(mut self, weights: &[u32]) -> ShardLayout {
        self.weights = weights.to_vec();
        self
    }

    /// Bytes of a stripe, a multiple of the pool's page size; 0: Weir chooses a page's. Blocks have none.
    pub fn stripe(mut self, bytes: u64) -> ShardLayout {
        self.stripe = bytes;
        self
    }
}

/// A run of bytes of a buffer that one device is home to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// Of the first byte, in the buffer.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whose they are.
    pub device: Device,
}

/// A layout in C's terms. Its descriptor points into it, and so must not outlive it.
pub(crate) struct RawLayout<'a> {
    layout: &'a ShardLayout,
    devices: Vec<sys::weir_device>,
}

impl<'a> RawLayout<'a> {
    pub(crate) fn of(layout: &'a ShardLayout) -> RawLayout<'a> {
        RawLayout { layout, devices: layout.devices.iter().map(|device| device.0).collect() }
    }

    /// The library reads as many weights as there are devices, so that here is the place to count them.
    pub(crate) fn desc(&self) -> Result<sys::weir_shard_desc> {
        let (devices, weights) = (&self.devices, &self.layout.weights);
        if !weights.is_empty() && weights.len() != devices.len() {
            let (weights, devices) = (weights.len(), devices.len());
            return Err(Error::invalid(format!("shards: {weights} weights for {devices} devices")));
        }
        let mut desc = sys::weir_shard_desc::INIT;
        desc.policy = self.layout.policy.as_raw();
        desc.device_count = count(devices.len())?;
        desc.stripe = self.layout.stripe;
        if !devices.is_empty() {
            desc.devices = devices.as_ptr();
        }
        if !weights.is_empty() {
            desc.weights = weights.as_ptr();
        }
        Ok(desc)
    }
}

/// Runs that there is room for at first.
const FIRST: usize = 64;

impl Buffer {
    /// The layout of the buffer in runs of bytes, in their order and without gaps; without shards it is one run on its home. It
    /// changes only when a device leaves the pool. Where the bytes are at present is told by [`Buffer::info`].
    pub fn shards(&self) -> Result<Vec<Shard>> {
        self.shards_of(..)
    }

    /// The same, of the bytes of a range: clipped to it.
    pub fn shards_of(&self, range: impl RangeBounds<u64>) -> Result<Vec<Shard>> {
        let (start, length) = self.span(&range)?;
        let end = start.saturating_add(length);
        let (mut clipped, mut at) = (Vec::new(), start);
        if start == end {
            return Ok(clipped);
        }
        for run in &self.runs(start, end)? {
            let until = run.offset.saturating_add(run.length).min(end);
            clipped.push(Shard { offset: at, length: until.saturating_sub(at), device: Device(run.device) });
            at = until;
            if at == end {
                return Ok(clipped);
            }
        }
        Err(Error::invalid(format!(
            "range {start}..{end} ends after the runs of {self:?}, which end at {at}"
        )))
    }

    /// The runs from the one on that byte `start` is in, to the one that reaches `end` at least. All are of one answer, so that
    /// they fit together though a device may leave at any time.
    fn runs(&self, start: u64, end: u64) -> Result<Vec<sys::weir_shard>> {
        let (pool, buffer) = (self.pool(), self.as_raw());
        let empty = sys::weir_shard { offset: 0, length: 0, device: 0, reserved: 0, reserved2: 0 };
        let mut runs = vec![empty; FIRST];
        loop {
            let (mut count, room) = (0, runs.len());
            // SAFETY: both handles are live, and there is room for as many runs.
            let result = unsafe {
                sys::weir_buffer_shards(pool.as_raw(), buffer, start, runs.as_mut_ptr(), room, &mut count)
            };
            check(result)?;
            let last = &runs[room.min(count).saturating_sub(1)];
            if result == sys::WEIR_INCOMPLETE && last.offset.saturating_add(last.length) < end {
                runs.resize(count, empty);
                continue;
            }
            runs.truncate(count);
            return Ok(runs);
        }
    }
}
