// SPDX-License-Identifier: Apache-2.0

//! Streams: in-order queues of a runtime, and functions of the CPU in them. A stream keeps its context alive.

use crate::callback::{as_pool_thread, Panics};
use crate::context::ContextInner;
use crate::error::check;
use crate::{Capabilities, Context, Device, Error, Result};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, OnceLock};
use weir_sys as sys;

/// An in-order queue of a runtime. On [`Device::HOST`] there is none: the calling thread is the queue, and leases give CPU
/// addresses.
///
/// A stream can't be dropped while a [`Lease`](crate::Lease) on it is there: that borrows it. Dropping it does not wait for
/// its work, which is finished all the same.
pub struct Stream {
    pub(crate) inner: Arc<StreamInner>,
}

pub(crate) struct StreamInner {
    pub(crate) raw: sys::weir_stream,
    pub(crate) device: Device,
    owned: bool,
    host_access: OnceLock<bool>,
    panics: Arc<Panics>,
    context: Arc<ContextInner>,
}

// SAFETY: every function on a stream may be called from any thread; what is said of wrapped ones is `wrap`'s contract.
unsafe impl Send for StreamInner {}
// SAFETY: as above.
unsafe impl Sync for StreamInner {}

impl StreamInner {
    /// Whether the CPU may look at what a lease on it has.
    pub(crate) fn host_access(&self) -> bool {
        self.device == Device::HOST
            || *self.host_access.get_or_init(|| {
                let context = Context { inner: Arc::clone(&self.context) };
                context.device(self.device).is_ok_and(|info| info.capabilities.has(Capabilities::HOST_ACCESS))
            })
    }

    /// Blocks until everything enqueued has finished, and tells of a panic in it.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_stream_synchronize(self.raw) })?;
        self.told()
    }

    fn told(&self) -> Result<()> {
        self.panics.take().map_or(Ok(()), |message| Err(Error::panicked(message)))
    }

    /// Enqueues `work`. A panic in it ends there, and is told by the next call that waits.
    pub(crate) fn host_call<F: FnOnce() + Send + 'static>(&self, work: F) -> Result<()> {
        let call = Box::into_raw(Box::new(HostCall { work, panics: Arc::clone(&self.panics) }));
        // SAFETY: the handle is live; `call` is the function's as soon as it is enqueued.
        let result = unsafe { sys::weir_stream_host_call(self.raw, Some(run::<F>), call.cast()) };
        check(result).map_err(|error| {
            // SAFETY: it was not enqueued, so no other code has it.
            drop(unsafe { Box::from_raw(call) });
            error
        })
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the handle is live, and no other code has it. One with a leaked lease stays, and its context too.
            unsafe { sys::weir_stream_close(self.raw) };
        }
    }
}

/// A function in a stream.
struct HostCall<F> {
    work: F,
    panics: Arc<Panics>,
}

/// Called by a thread of the runtime, once.
unsafe extern "C" fn run<F: FnOnce() + Send + 'static>(user: *mut c_void) {
    // SAFETY: `user` is what `host_call` made, and is called once.
    let HostCall { work, panics } = *unsafe { Box::from_raw(user.cast::<HostCall<F>>()) };
    panics.guard(|| as_pool_thread(work));
}

impl Stream {
    /// Creates a stream on a device, or on [`Device::HOST`].
    pub fn new(context: &Context, device: Device) -> Result<Stream> {
        let mut raw = ptr::null_mut();
        // SAFETY: the context is live.
        check(unsafe { sys::weir_stream_create(context.as_raw(), device.0, 0, &mut raw) })?;
        Ok(Stream::of(context, raw, device, true))
    }

    /// Wraps a stream of the runtime, as `weir_stream_wrap` describes it.
    ///
    /// # Safety
    /// `native` is a stream of the device, and outlives the one returned. One that means another queue on each thread is used
    /// on this thread only, and so is one of a device without [`Capabilities::STREAM_ANY_THREAD`] where its runtime says so.
    pub unsafe fn wrap(context: &Context, device: Device, native: *mut c_void) -> Result<Stream> {
        let mut raw = ptr::null_mut();
        // SAFETY: the context is live; the rest is this function's contract.
        check(unsafe { sys::weir_stream_wrap(context.as_raw(), device.0, native, 0, &mut raw) })?;
        Ok(Stream::of(context, raw, device, true))
    }

    fn of(context: &Context, raw: sys::weir_stream, device: Device, owned: bool) -> Stream {
        let device = if device == Device::DEFAULT { Device(0) } else { device };
        let inner = StreamInner {
            raw,
            device,
            owned,
            host_access: OnceLock::new(),
            panics: Arc::default(),
            context: Arc::clone(&context.inner),
        };
        Stream { inner: Arc::new(inner) }
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        self.inner.device
    }

    /// Blocks the thread until everything enqueued so far has finished. [`Error::Panicked`] if a function in the stream has
    /// panicked since this was last told; everything has finished then, too.
    pub fn synchronize(&self) -> Result<()> {
        self.inner.synchronize()
    }

    /// Whether everything enqueued so far has finished; never blocks. [`Error::Panicked`] as [`Stream::synchronize`].
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the handle is live.
        let result = unsafe { sys::weir_stream_query(self.as_raw()) };
        check(result)?;
        if result == sys::WEIR_NOT_READY {
            return Ok(false);
        }
        self.inner.told().map(|()| true)
    }

    /// Enqueues a function, to run on a CPU thread in stream order. It must not call Weir or the runtime, and what it owns is
    /// dropped there. A panic in it ends there; the next [`Stream::synchronize`] tells.
    ///
    /// [`Lease::host_call`](crate::Lease::host_call) is the same with the bytes of a lease.
    pub fn host_call(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        self.inner.host_call(work)
    }

    /// The runtime's own handle; it stays whose it was.
    pub fn native(&self) -> Result<*mut c_void> {
        let mut native = ptr::null_mut();
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_stream_native(self.as_raw(), &mut native) })?;
        Ok(native)
    }

    /// Closes the stream, and tells if it can't: [`Error::Busy`] while an asynchronous lease has it too, or a lease was
    /// leaked.
    pub fn close(self) -> Result<()> {
        let mut inner = Arc::try_unwrap(self.inner)
            .map_err(|_| Error::busy("the stream is used by an asynchronous acquire of this program"))?;
        if !std::mem::replace(&mut inner.owned, false) {
            return Ok(());
        }
        // SAFETY: the handle is live, and no other code has it.
        check(unsafe { sys::weir_stream_close(inner.raw) })
    }

    /// The handle of C. It stays this stream's.
    #[inline]
    pub fn as_raw(&self) -> sys::weir_stream {
        self.inner.raw
    }

    /// A stream that other code owns: dropping this one leaves it alone.
    ///
    /// # Safety
    /// `raw` is an open stream of the context on that device, and stays open longer than the one returned and all leases on
    /// it; it is used on the threads that it may be used on.
    pub unsafe fn from_raw(context: &Context, raw: sys::weir_stream, device: Device) -> Stream {
        Stream::of(context, raw, device, false)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("raw", &self.as_raw()).field("device", &self.device()).finish()
    }
}
