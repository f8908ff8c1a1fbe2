// SPDX-License-Identifier: Apache-2.0

//! Pools: budgets over devices and tiers. A pool keeps its context alive, and is kept alive by its buffers and clients.

use crate::callback::{as_pool_thread, on_pool_thread, Panics};
use crate::context::{document, ContextInner};
use crate::error::check;
use crate::words::deadline;
use crate::{Context, Device, Error, PieceState, Result, Tier, Trim};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_sys as sys;
use weir_sys::Init as _;

/// A device that was lost, and what went with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLoss {
    /// Which device.
    pub device: Device,
    /// The pool's generation as it was lost.
    pub generation: u64,
    /// Bytes that were nowhere else.
    pub lost_bytes: u64,
}

/// Bytes of a buffer that were lost with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostRange {
    /// The buffer's handle, as [`Buffer::as_raw`](crate::Buffer::as_raw) has it.
    pub buffer: sys::weir_buffer,
    /// The buffer's tag.
    pub tag: u64,
    /// In the buffer.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

// SAFETY: the handle is opaque, and no code looks behind it; functions on it may be called from any thread.
unsafe impl Send for LostRange {}
// SAFETY: as above.
unsafe impl Sync for LostRange {}

/// A run of memory and what lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// Where it lies.
    pub tier: Tier,
    /// Whose memory, if it is a device's.
    pub device: Device,
    /// What it tells of the bytes.
    pub state: PieceState,
    /// The granule, segment or chunk.
    pub container: u64,
    /// In the container.
    pub offset: u64,
    /// Of memory.
    pub bytes: u64,
    /// Of its first byte in the buffer.
    pub buffer_offset: u64,
    /// The buffer's tag.
    pub tag: u64,
    /// The buffer's handle; NULL: no buffer's, or that of several small buffers.
    pub buffer: sys::weir_buffer,
}

// SAFETY: as for `LostRange`.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

/// What the callback for lost devices gets as `user`.
struct LossSink {
    callback: Box<dyn Fn(DeviceLoss) + Send + Sync>,
    panics: Arc<Panics>,
}

/// Budgets over devices and tiers. It is a handle: a clone is the same pool.
#[derive(Clone)]
pub struct Pool {
    pub(crate) inner: Arc<PoolInner>,
}

pub(crate) struct PoolInner {
    body: ManuallyDrop<Body>,
}

/// What has to be ended, on a thread that may wait.
struct Body {
    raw: sys::weir_pool,
    owned: bool,
    /// Not a `Box`: C has a pointer into it, which a `Box` that is moved makes invalid.
    loss: Mutex<Option<Arc<LossSink>>>,
    panics: Arc<Panics>,
    context: Option<Arc<ContextInner>>,
}

// SAFETY: every function on a pool may be called from any thread; the closure is Send and Sync.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

impl Body {
    /// Ends the pool if it is ours. What it may still call back stays if it does not end: a lease was leaked then.
    fn end(self) -> Result<()> {
        let has_callback = self.loss.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        // SAFETY: the handle is live, and no code of this crate has it any more.
        let result = unsafe {
            match (self.owned, has_callback) {
                (true, _) => sys::weir_pool_destroy(self.raw),
                (false, true) => sys::weir_pool_set_loss_callback(self.raw, None, ptr::null_mut()),
                (false, false) => sys::WEIR_SUCCESS,
            }
        };
        let ended = check(result);
        if ended.is_err() {
            std::mem::forget(self);
        }
        ended
    }
}

impl PoolInner {
    #[inline]
    pub(crate) fn raw(&self) -> sys::weir_pool {
        self.body.raw
    }

    /// Where panics of closures on the pool's threads are counted.
    pub(crate) fn panics(&self) -> Arc<Panics> {
        Arc::clone(&self.body.panics)
    }

    /// Takes the body out of what is dropped or never used again.
    ///
    /// # Safety
    /// `self` is neither used nor dropped after.
    unsafe fn take(&mut self) -> Body {
        // SAFETY: by this function's contract.
        unsafe { ManuallyDrop::take(&mut self.body) }
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        // SAFETY: it is not used after its drop.
        let body = unsafe { self.take() };
        if !on_pool_thread() {
            let _ = body.end();
            return;
        }
        // A pool waits for its threads, and this is one of them. If there is no other thread to be had, the pool stays.
        let body = ManuallyDrop::new(body);
        let end = move || {
            let _ = ManuallyDrop::into_inner(body).end();
        };
        let _ = std::thread::Builder::new().name("weir-pool-end".to_owned()).spawn(end);
    }
}

/// Called by a thread of the pool.
unsafe extern "C" fn device_lost(user: *mut c_void, loss: *const sys::weir_device_loss) {
    // SAFETY: `user` is the sink, which stays until another callback is set or the pool has ended.
    unsafe {
        let sink = &*user.cast::<LossSink>();
        let loss = DeviceLoss {
            device: Device((*loss).device),
            generation: (*loss).generation,
            lost_bytes: (*loss).lost_bytes,
        };
        sink.panics.guard(|| as_pool_thread(|| (sink.callback)(loss)));
    }
}

impl Pool {
    pub(crate) fn owner(raw: sys::weir_pool, context: &Context) -> Pool {
        Pool::of(raw, true, Some(Arc::clone(&context.inner)))
    }

    fn of(raw: sys::weir_pool, owned: bool, context: Option<Arc<ContextInner>>) -> Pool {
        let body = Body { raw, owned, loss: Mutex::new(None), panics: Arc::default(), context };
        Pool { inner: Arc::new(PoolInner { body: ManuallyDrop::new(body) }) }
    }

    /// The context the pool was made in; `None` for one of [`Pool::from_raw`].
    pub fn context(&self) -> Option<Context> {
        self.inner.body.context.as_ref().map(|inner| Context { inner: Arc::clone(inner) })
    }

    /// Adds a device of the context while the pool is used, with bytes of its memory that it may hold.
    pub fn add_device(&self, device: Device, budget: u64) -> Result<()> {
        let device = sys::weir_pool_device { device: device.0, budget, ..sys::weir_pool_device::INIT };
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_add_device(self.as_raw(), &device) })
    }

    /// Takes a device out of the pool, with nothing lost. Waits for leases there, `timeout` at most; `None`: no bound.
    pub fn remove_device(&self, device: Device, timeout: Option<Duration>) -> Result<()> {
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_remove_device(self.as_raw(), device.0, deadline(timeout)) })
    }

    /// Ends a [`Pool::remove_device`] that another thread is in, with [`Error::Cancelled`] there.
    pub fn cancel_remove(&self, device: Device) -> Result<()> {
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_cancel_remove(self.as_raw(), device.0) })
    }

    /// Copies up to `bytes` of spilled pages to neighbours that have memory to spare; the bytes that were.
    pub fn rebalance(&self, bytes: u64) -> Result<u64> {
        let mut moved = 0;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_rebalance(self.as_raw(), bytes, &mut moved) })?;
        Ok(moved)
    }

    /// Gives device memory back to the system until `bytes` are freed or nothing more can go; the bytes that were.
    pub fn trim(&self, device: Device, how: Trim, bytes: u64) -> Result<u64> {
        let mut freed = 0;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_pool_trim(self.as_raw(), device.0, how.as_raw(), bytes, &mut freed) })?;
        Ok(freed)
    }

    /// Calls `callback` for each device that is lost, on a thread of the pool; losses from before are told too. It may use
    /// the pool, but not change its callback. A panic in it ends there, and is counted by [`Pool::callback_panics`].
    pub fn on_device_loss(&self, callback: impl Fn(DeviceLoss) + Send + Sync + 'static) -> Result<()> {
        let panics = Arc::clone(&self.inner.body.panics);
        self.set_loss(Some(Arc::new(LossSink { callback: Box::new(callback), panics })))
    }

    /// Takes the callback for lost devices away. When it returns, none is running.
    pub fn no_device_loss_callback(&self) -> Result<()> {
        self.set_loss(None)
    }

    fn set_loss(&self, sink: Option<Arc<LossSink>>) -> Result<()> {
        if on_pool_thread() {
            return Err(Error::busy("the callback can't be changed from within a callback of a pool"));
        }
        let mut current = self.inner.body.loss.lock().unwrap_or_else(PoisonError::into_inner);
        let (callback, user): (sys::weir_loss_callback, *mut c_void) = match &sink {
            Some(sink) => (Some(device_lost), Arc::as_ptr(sink).cast_mut().cast()),
            None => (None, ptr::null_mut()),
        };
        // SAFETY: the sink stays in the pool; the former one is dropped after the library has parted from it.
        check(unsafe { sys::weir_pool_set_loss_callback(self.as_raw(), callback, user) })?;
        *current = sink;
        Ok(())
    }

    /// How many panics of closures that the pool calls on its own threads were caught: those for lost devices, and of
    /// [`Pool::acquire_then`].
    pub fn callback_panics(&self) -> u64 {
        self.inner.body.panics.count()
    }

    /// What is lost now, in whole pages clipped to the buffers.
    pub fn lost_ranges(&self) -> Result<Vec<LostRange>> {
        // SAFETY: a plain C struct of integers and a pointer.
        let empty: sys::weir_lost_range = unsafe { std::mem::zeroed() };
        let ranges = list(empty, |ranges, capacity, count| {
            // SAFETY: the handle is live, and there is room for `capacity` ranges.
            unsafe { sys::weir_pool_lost_ranges(self.as_raw(), ranges, capacity, count) }
        })?;
        let known = |range: &sys::weir_lost_range| LostRange {
            buffer: range.buffer,
            tag: range.tag,
            offset: range.offset,
            length: range.length,
        };
        Ok(ranges.iter().map(known).collect())
    }

    /// What the pool's policy has learned of the program, for [`Pool::load_policy`] of a later pool, also in another process. At most
    /// 64 MiB: names of operations, sizes and orders, and nothing of any content. What was acquired before is in it. It is a cache: another
    /// release of the library may refuse it. [`Error::NotSupported`]: the pool's policy learns nothing.
    pub fn save_policy(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::<u8>::new();
        loop {
            let mut needed = 0;
            // SAFETY: the handle is live, and there is room for as many bytes as told.
            let result = unsafe {
                let capacity = bytes.len() as u64;
                sys::weir_pool_policy_save(self.as_raw(), bytes.as_mut_ptr().cast(), capacity, &mut needed)
            };
            let needed = needed as usize; // at most 64 MiB
            if needed <= bytes.len() {
                check(result)?;
                bytes.truncate(needed);
                return Ok(bytes);
            }
            bytes = vec![0u8; needed + needed / 8];
        }
    }

    /// Has the pool's policy know what another has learned, so that the first round of the program is planned as a later one would
    /// be. Before the pool's first acquire. [`Error::Corrupt`]: the bytes are damaged; [`Error::NotSupported`]: they are of another
    /// version, policy or page size. The pool is as it was then.
    pub fn load_policy(&self, bytes: &[u8]) -> Result<()> {
        // SAFETY: the handle is live, and there are as many bytes as told, which are only read.
        check(unsafe { sys::weir_pool_policy_load(self.as_raw(), bytes.as_ptr().cast(), bytes.len() as u64) })
    }

    /// Where everything lies in the pool. Walks all pages: for tools, not for every frame.
    pub fn map(&self) -> Result<Vec<Piece>> {
        // SAFETY: a plain C struct of integers and a pointer.
        let empty: sys::weir_piece = unsafe { std::mem::zeroed() };
        let pieces = list(empty, |pieces, capacity, count| {
            // SAFETY: the handle is live, and there is room for `capacity` pieces.
            unsafe { sys::weir_pool_map(self.as_raw(), pieces, capacity, count) }
        })?;
        let known = |piece: &sys::weir_piece| Piece {
            tier: Tier::from_raw(piece.tier),
            device: Device(piece.device),
            state: PieceState::from_raw(piece.state),
            container: piece.container,
            offset: piece.offset,
            bytes: piece.bytes,
            buffer_offset: piece.buffer_offset,
            tag: piece.tag,
            buffer: piece.buffer,
        };
        Ok(pieces.iter().map(known).collect())
    }

    /// A JSON document of the pool, its devices, clients and buffers.
    pub fn snapshot(&self) -> Result<String> {
        document(|bytes, capacity, needed| {
            // SAFETY: the handle is live, and there are `capacity` bytes.
            unsafe { sys::weir_pool_snapshot(self.as_raw(), bytes, capacity, needed) }
        })
    }

    /// Ends the pool, and tells if it can't: [`Error::Busy`] while something made of it is left. Dropping it does the same
    /// with the last of them, and tells nothing.
    ///
    /// Within a callback of a pool it is [`Error::Busy`] too: a pool waits for its threads to end, and this may be one of
    /// them. The pool is dropped then.
    pub fn close(self) -> Result<()> {
        if on_pool_thread() {
            return Err(Error::busy("a pool can't be closed from within a callback of a pool"));
        }
        let mut inner = ManuallyDrop::new(Arc::try_unwrap(self.inner).map_err(|_| {
            Error::busy(
                "the pool is used by a buffer, a client, a request or another clone of it in this program",
            )
        })?);
        // SAFETY: `inner` is neither used nor dropped after.
        unsafe { inner.take() }.end()
    }

    /// The handle of C. It stays this pool's.
    #[inline]
    pub fn as_raw(&self) -> sys::weir_pool {
        self.inner.raw()
    }

    /// A pool that other code owns, perhaps in another language: dropping this one leaves it alone.
    ///
    /// # Safety
    /// `raw` is a live pool, and lives longer than all that is made of the one returned.
    pub unsafe fn from_raw(raw: sys::weir_pool) -> Pool {
        Pool::of(raw, false, None)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pool").field(&self.as_raw()).finish()
    }
}

/// The entries of a call that says how many there are: it is asked again as long as they become more in between.
fn list<T: Copy>(
    empty: T,
    mut fill: impl FnMut(*mut T, usize, &mut usize) -> sys::weir_result,
) -> Result<Vec<T>> {
    let mut count = 0;
    check(fill(ptr::null_mut(), 0, &mut count))?;
    loop {
        let mut entries = vec![empty; count.saturating_add(count / 8)];
        let result = fill(entries.as_mut_ptr(), entries.len(), &mut count);
        check(result)?;
        if result == sys::WEIR_INCOMPLETE {
            continue;
        }
        entries.truncate(count);
        return Ok(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_panic_in_the_callback_for_losses_ends_there() {
        let seen = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&seen);
        let panics = Arc::new(Panics::default());
        let callback = Box::new(move |loss: DeviceLoss| {
            sum.fetch_add(loss.lost_bytes, Ordering::SeqCst);
            assert!(on_pool_thread());
            assert_ne!(loss.device, Device(3), "device 3");
        });
        let sink = LossSink { callback, panics: Arc::clone(&panics) };
        let user = (&sink as *const LossSink).cast_mut().cast();
        for device in [2, 3, 4] {
            let loss = sys::weir_device_loss { device, lost_bytes: 10, ..sys::weir_device_loss::INIT };
            // SAFETY: the sink and the loss outlive the call.
            unsafe { device_lost(user, &loss) };
        }
        assert_eq!((seen.load(Ordering::SeqCst), panics.count()), (30, 1));
        assert!(panics.take().unwrap().contains("device 3") && !on_pool_thread());
    }

    #[test]
    fn a_list_that_grows_while_it_is_asked_for_is_not_cut() {
        // What the library has at each call; the first call only asks.
        let mut there = [3usize, 9, 40, 42].into_iter();
        let mut capacities = Vec::new();
        let entries = list(0u64, |entries, capacity, count| {
            capacities.push(capacity);
            *count = there.next().expect("it ends when all have room");
            for at in 0..capacity.min(*count) {
                // SAFETY: there is room for `capacity` entries.
                unsafe { entries.add(at).write(at as u64 + 1) };
            }
            if capacity > 0 && *count > capacity {
                sys::WEIR_INCOMPLETE
            } else {
                sys::WEIR_SUCCESS
            }
        });
        assert_eq!(entries.unwrap(), (1..=42).collect::<Vec<u64>>());
        assert_eq!(capacities, [0, 3, 10, 45]);
    }

    #[test]
    fn a_list_that_is_refused_is_not_asked_for_again() {
        let mut calls = 0;
        let refused = list(0u8, |_, _, count| {
            calls += 1;
            *count = 1000;
            if calls == 1 {
                sys::WEIR_SUCCESS
            } else {
                sys::WEIR_ERROR_INVALID_HANDLE
            }
        });
        assert!(matches!(refused, Err(Error::InvalidHandle(_))), "{refused:?}");
        assert_eq!(calls, 2);
    }
}
