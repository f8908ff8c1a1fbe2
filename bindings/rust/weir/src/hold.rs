// SPDX-License-Identifier: Apache-2.0

//! Memory that stays where it is without a lease: holds of buffers, and stream-ordered allocations.

use crate::error::check;
use crate::pool::PoolInner;
use crate::stream::StreamInner;
use crate::{Buffer, Device, Pool, Result, Stream};
use std::ptr;
use std::sync::Arc;
use weir_sys as sys;

/// What a hold lets others do with the buffer meanwhile.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum HoldMode {
    /// No writes, the holder's neither. Copies elsewhere stay good.
    Read,
    /// Leases on the device, [`Buffer::write`] and [`Buffer::discard`] go to the held memory; elsewhere it can be read.
    Shared,
    /// No leases, reads, writes or discards besides.
    Alone,
}

impl HoldMode {
    fn as_raw(self) -> (u32, u64) {
        match self {
            HoldMode::Read => (sys::WEIR_READ, 0),
            HoldMode::Shared => (sys::WEIR_READ_WRITE, 0),
            HoldMode::Alone => (sys::WEIR_READ_WRITE, u64::from(sys::WEIR_HOLD_ALONE)),
        }
    }
}

/// A buffer that is resident on a device and stays there. It is undone when it is dropped: see to it that no work that you
/// enqueued under it still runs then. Holds nest.
#[derive(Debug)]
pub struct Hold<'a> {
    buffer: &'a Buffer,
    device: Device,
    address: u64,
}

impl<'a> Hold<'a> {
    pub(crate) fn new(buffer: &'a Buffer, device: Device, mode: HoldMode) -> Result<Hold<'a>> {
        let mut address = 0;
        let (mode, flags) = mode.as_raw();
        // SAFETY: both handles are live.
        check(unsafe {
            sys::weir_hold_as(buffer.pool().as_raw(), buffer.as_raw(), device.0, mode, flags, &mut address)
        })?;
        Ok(Hold { buffer, device, address })
    }

    /// Where it is on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Undoes the hold, and tells if that failed.
    pub fn release(self) -> Result<()> {
        std::mem::ManuallyDrop::new(self).end()
    }

    fn end(&self) -> Result<()> {
        // SAFETY: both handles are live, and this hold was not undone.
        check(unsafe { sys::weir_unhold(self.buffer.pool().as_raw(), self.buffer.as_raw()) })
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Memory of a device that is always resident and never moves, for frameworks' allocators. It is freed when it is dropped,
/// after the work enqueued so far on its stream, or at once if it has none.
///
/// A stream that records a graph can't say when its work is done: while it does, [`Allocation::free`] on it is refused with
/// [`Error::StreamCapturing`](crate::Error::StreamCapturing), and dropping an allocation of it frees nothing. The memory is
/// lost then, and its pool never ends. End the recording first, or free it on another stream.
pub struct Allocation {
    address: u64,
    size: u64,
    stream: Option<Arc<StreamInner>>,
    pool: Arc<PoolInner>,
}

impl Allocation {
    /// Where it is.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes as asked for.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Frees it after the work enqueued so far on `stream` (`None`: now). If that stream is refused, because it records a
    /// graph or is of another context, the allocation is dropped instead, and freed on its own stream by that.
    pub fn free(mut self, stream: Option<&Stream>) -> Result<()> {
        let own = std::mem::replace(&mut self.stream, stream.map(|stream| Arc::clone(&stream.inner)));
        let ended = self.end();
        self.stream = own;
        ended
    }

    /// Gives the memory away: [`Pool::free`] frees it.
    pub fn into_raw(mut self) -> u64 {
        std::mem::take(&mut self.address)
    }

    /// Address 0 is nothing to free, so that what has been freed or given away is not freed again. What was refused for the
    /// stream's sake alone is still there.
    fn end(&mut self) -> Result<()> {
        let stream = self.stream.as_ref().map_or(ptr::null_mut(), |stream| stream.raw);
        let address = std::mem::take(&mut self.address);
        // SAFETY: the handles are live, and the address is of `weir_malloc` or 0.
        let result = unsafe { sys::weir_free(self.pool.raw(), stream, address) };
        if result == sys::WEIR_ERROR_STREAM_CAPTURING || result == sys::WEIR_ERROR_INVALID_HANDLE {
            self.address = address;
        }
        check(result)
    }
}

impl std::fmt::Debug for Allocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Allocation").field("address", &self.address).field("size", &self.size).finish()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Pool {
    /// Memory of a device for work on `stream` from now on (`None`: on any). Its contents are zero or the same client's own
    /// old bytes.
    pub fn malloc(&self, device: Device, stream: Option<&Stream>, size: u64) -> Result<Allocation> {
        let raw = stream.map_or(ptr::null_mut(), Stream::as_raw);
        let mut address = 0;
        // SAFETY: the handles are live.
        check(unsafe { sys::weir_malloc(self.as_raw(), device.0, raw, size, &mut address) })?;
        let stream = stream.map(|stream| Arc::clone(&stream.inner));
        Ok(Allocation { address, size, stream, pool: Arc::clone(&self.inner) })
    }

    /// Frees what [`Allocation::into_raw`] or C gave away, after the work enqueued so far on `stream` (`None`: now).
    ///
    /// # Safety
    /// The memory is the caller's to free, and nothing but work on `stream` uses it.
    pub unsafe fn free(&self, stream: Option<&Stream>, address: u64) -> Result<()> {
        let raw = stream.map_or(ptr::null_mut(), Stream::as_raw);
        // SAFETY: the handles are live; the rest is this function's contract.
        check(unsafe { sys::weir_free(self.as_raw(), raw, address) })
    }
}
