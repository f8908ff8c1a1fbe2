// SPDX-License-Identifier: Apache-2.0

//! Asynchronous acquires: a thread of the pool waits for room, then calls a closure, or fulfils a request that can be
//! waited for, polled as a future, or cancelled. All that such an acquire needs is kept alive by it, until it has ended.

use crate::callback::as_pool_thread;
use crate::error::check;
use crate::pool::PoolInner;
use crate::uses::OwnedUses;
use crate::{AcquireOptions, Error, OwnedLease, OwnedUse, Pool, Result, Stream, UseSet as _};
use std::ffi::c_void;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};
use weir_sys as sys;

type Deliver = Box<dyn FnOnce(Result<OwnedLease>) + Send>;

/// What C has until its callback runs: the uses it writes addresses into, and the function that is told.
struct Pending {
    uses: OwnedUses,
    deliver: Deliver,
}

/// Called once, by a thread of the pool.
unsafe extern "C" fn ended(user: *mut c_void, result: sys::weir_result, lease: sys::weir_lease) {
    as_pool_thread(|| {
        // SAFETY: `user` is what `submit` made, and is called once.
        let Pending { uses, deliver } = *unsafe { Box::from_raw(user.cast::<Pending>()) };
        let panics = uses.pool.panics();
        panics.guard(move || {
            let outcome = if result == sys::WEIR_SUCCESS {
                // SAFETY: the lease is of these uses, and is ours.
                Ok(unsafe { OwnedLease::granted(lease, uses) })
            } else {
                // The reason is this thread's last error, as in every callback of an acquire.
                let error = Error::last(result);
                // Before the outcome is told: a caller that then closes what they name must not find it in use.
                drop(uses);
                Err(error)
            };
            deliver(outcome);
        });
    });
}

#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<Result<OwnedLease>>,
    waker: Option<Waker>,
    ended: bool,
}

impl State {
    /// The outcome, once.
    ///
    /// # Panics
    /// If it was taken before: there will be no other.
    fn take(&mut self, done: &str) -> Option<Result<OwnedLease>> {
        let outcome = self.outcome.take();
        assert!(outcome.is_some() || !self.ended, "a request was {done} after it was ready");
        outcome
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, outcome: Result<OwnedLease>) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        state.ended = true;
        let waker = state.waker.take();
        drop(state);
        self.filled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// An acquire that is under way. It can be waited for, or awaited; dropping it cancels it, and a lease that was granted
/// already is released.
///
/// ```
/// # use weir::{AcquireOptions, ContextOptions, Device, OwnedUse, PoolOptions, Stream};
/// # let context = ContextOptions::new().options("host.memory=64M").open()?;
/// # let pool = PoolOptions::new().device(Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
/// # let stream = Stream::new(&context, Device(0))?;
/// let buffer = pool.buffer(4096)?;
/// let request = pool.acquire_async(&stream, [OwnedUse::read(&buffer)], &AcquireOptions::new())?;
/// let lease = request.wait()?;
/// assert_ne!(lease.address(0), 0);
/// # Ok::<(), weir::Error>(())
/// ```
pub struct Request {
    raw: sys::weir_request,
    slot: Arc<Slot>,
    /// The last field: it goes when the handle is given back.
    _pool: Arc<PoolInner>,
}

// SAFETY: every function on a request may be called from any thread.
unsafe impl Send for Request {}
// SAFETY: as above.
unsafe impl Sync for Request {}

impl Pool {
    /// Acquires a set of uses on a thread of the pool. Requests of a pool run in order.
    pub fn acquire_async(
        &self,
        stream: &Stream,
        uses: impl IntoIterator<Item = OwnedUse>,
        options: &AcquireOptions,
    ) -> Result<Request> {
        let slot = Arc::new(Slot::default());
        let filled = Arc::clone(&slot);
        let deliver: Deliver = Box::new(move |outcome| filled.fill(outcome));
        let mut raw = ptr::null_mut();
        self.submit(stream, uses, options, deliver, &mut raw)?;
        Ok(Request { raw, slot, _pool: Arc::clone(&self.inner) })
    }

    /// Acquires a set of uses on a thread of the pool, and calls `then` there. That may use Weir, but must not wait for other
    /// requests. A panic in it ends there, releases the lease and is counted by [`Pool::callback_panics`].
    pub fn acquire_then(
        &self,
        stream: &Stream,
        uses: impl IntoIterator<Item = OwnedUse>,
        options: &AcquireOptions,
        then: impl FnOnce(Result<OwnedLease>) + Send + 'static,
    ) -> Result<()> {
        self.submit(stream, uses, options, Box::new(then), ptr::null_mut())
    }

    fn submit(
        &self,
        stream: &Stream,
        uses: impl IntoIterator<Item = OwnedUse>,
        options: &AcquireOptions,
        deliver: Deliver,
        request: *mut sys::weir_request,
    ) -> Result<()> {
        let uses = OwnedUses::new(uses.into_iter().collect(), &stream.inner, &self.inner);
        let raw = options.raw();
        let pending = Box::into_raw(Box::new(Pending { uses, deliver }));
        // SAFETY: the uses stay where they are until the callback has run; what the options point to is copied by the call.
        let result = unsafe {
            // Taken where they are to stay: a box that is moved makes former pointers into it invalid.
            let uses = (*pending).uses.uses_mut();
            let (first, count) = (uses.as_mut_ptr().cast::<sys::weir_use>(), uses.len());
            let (pool, stream) = (self.as_raw(), stream.as_raw());
            sys::weir_acquire_async(pool, stream, first, count, &raw, Some(ended), pending.cast(), request)
        };
        check(result).map_err(|error| {
            // SAFETY: it was not submitted, so no other code has it.
            drop(unsafe { Box::from_raw(pending) });
            error
        })
    }
}

impl Request {
    /// Blocks until the acquire has ended. If it failed, the error has the reason and its numbers, as that of
    /// [`Pool::acquire`] has. Not from within a callback of the pool.
    ///
    /// # Panics
    /// If it was polled and was ready.
    pub fn wait(self) -> Result<OwnedLease> {
        let mut state = self.slot.lock();
        loop {
            if let Some(outcome) = state.take("waited for") {
                return outcome;
            }
            state = self.slot.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks until the acquire has ended, `time` at most; the request itself if it has not.
    ///
    /// # Panics
    /// If it was polled and was ready.
    pub fn wait_for(self, time: Duration) -> Result<Result<OwnedLease>, Request> {
        let end = Instant::now().checked_add(time);
        let mut state = self.slot.lock();
        loop {
            if let Some(outcome) = state.take("waited for") {
                return Ok(outcome);
            }
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                drop(state);
                return Err(self);
            }
            state = self.slot.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the acquire has ended: what waits for it returns at once then.
    pub fn is_ended(&self) -> bool {
        self.slot.lock().ended
    }

    /// Asks a waiting acquire to end with [`Error::Cancelled`]; one that is already granted is not undone.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_request_cancel(self.raw) })
    }
}

impl Future for Request {
    type Output = Result<OwnedLease>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Result<OwnedLease>> {
        let mut state = self.slot.lock();
        if let Some(outcome) = state.take("polled") {
            return Poll::Ready(outcome);
        }
        match &mut state.waker {
            Some(waker) if waker.will_wake(context.waker()) => {}
            waker => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and it is not used after this. An acquire that goes on has all that it needs.
        unsafe {
            if !self.is_ended() {
                sys::weir_request_cancel(self.raw);
            }
            sys::weir_request_close(self.raw);
        }
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("raw", &self.raw).field("ended", &self.is_ended()).finish()
    }
}
