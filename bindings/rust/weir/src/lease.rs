// SPDX-License-Identifier: Apache-2.0

//! Leases: the right to use bytes on a stream. A lease borrows its pool, its stream and its buffers, so that none of them
//! can end before it; docs/leases.md explains the model.

use crate::error::check;
use crate::stream::StreamInner;
use crate::uses::OwnedUses;
use crate::view::{disjoint, Span};
use crate::words::nanoseconds;
use crate::{Error, Mode, Plain, Pool, Result, Stream, Use, UseSet, View};
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::time::Duration;
use weir_sys as sys;
use weir_sys::Init as _;

/// How to wait for other leases, and what the operation is called.
#[derive(Clone, Debug, Default)]
pub struct AcquireOptions {
    flags: u64,
    timeout_ns: u64,
    operation: Option<CString>,
    operation_id: u32,
}

impl AcquireOptions {
    /// Do not wait.
    pub fn new() -> AcquireOptions {
        AcquireOptions::default()
    }

    /// Wait so long at most.
    pub fn timeout(mut self, time: Duration) -> AcquireOptions {
        self.timeout_ns = nanoseconds(time);
        self
    }

    /// Wait without a deadline. It is your word that you hold no other lease, and that no thread that holds one waits for you: else two
    /// may wait for each other for good.
    pub fn as_sole_holder(mut self) -> AcquireOptions {
        self.timeout_ns = sys::WEIR_INFINITE;
        self.flags |= u64::from(sys::WEIR_ACQUIRE_SOLE_HOLDER);
        self
    }

    /// A name for the policy to learn from. Each acquire looks it up; with its number ([`AcquireOptions::operation_id`]) none does.
    pub fn operation(mut self, name: &CStr) -> AcquireOptions {
        self.operation = Some(name.to_owned());
        self
    }

    /// The number of a name for the policy to learn from, of [`Pool::operation_id`] of the lease's pool. A name is not looked at then.
    pub fn operation_id(mut self, id: u32) -> AcquireOptions {
        self.operation_id = id;
        self
    }

    /// As C has it; the name is this one's.
    pub(crate) fn raw(&self) -> sys::weir_acquire_options {
        let mut raw = sys::weir_acquire_options::INIT;
        raw.flags = self.flags;
        raw.timeout_ns = self.timeout_ns;
        raw.operation_id = self.operation_id;
        raw.operation = self.operation.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        raw
    }
}

/// The right to use bytes on a stream, from [`Pool::acquire`] until the work that was enqueued on the stream before the
/// release has finished. It is released when it is dropped.
///
/// A lease can't outlive its buffers:
///
/// ```compile_fail,E0505
/// # let context = weir::Context::new().unwrap();
/// # let pool = weir::PoolOptions::new().device(weir::Device(0), 8 << 20).create(&context).unwrap();
/// # let stream = weir::Stream::new(&context, weir::Device(0)).unwrap();
/// let buffer = pool.buffer(4096).unwrap();
/// let lease = pool.acquire(&stream, [weir::Use::read(&buffer)]).unwrap();
/// drop(buffer);
/// lease.release().unwrap();
/// ```
///
/// nor its stream:
///
/// ```compile_fail,E0505
/// # let context = weir::Context::new().unwrap();
/// # let pool = weir::PoolOptions::new().device(weir::Device(0), 8 << 20).create(&context).unwrap();
/// # let buffer = pool.buffer(4096).unwrap();
/// let stream = weir::Stream::new(&context, weir::Device(0)).unwrap();
/// let lease = pool.acquire(&stream, [weir::Use::read(&buffer)]).unwrap();
/// drop(stream);
/// lease.release().unwrap();
/// ```
pub struct Lease<'a, U: UseSet<'a> = Vec<Use<'a>>> {
    /// NULL once it is released.
    raw: sys::weir_lease,
    /// Borrowed for `'a`, or kept alive by `uses`.
    stream: NonNull<StreamInner>,
    uses: U,
    borrowed: PhantomData<&'a Stream>,
}

/// A lease of [`Pool::acquire_async`], which keeps its buffers, its stream and its pool alive by itself.
pub type OwnedLease = Lease<'static, OwnedUses>;

// SAFETY: a lease may be used and released by any thread; its stream is Sync, its uses are Send and Sync.
unsafe impl<'a, U: UseSet<'a> + Send> Send for Lease<'a, U> {}
// SAFETY: as above; shared, a lease gives shared slices only.
unsafe impl<'a, U: UseSet<'a> + Sync> Sync for Lease<'a, U> {}

impl Pool {
    /// Acquires a set of uses on a stream, all or nothing. Does not wait for other leases: [`Error::WouldBlock`] if the set
    /// fits only when some are released.
    ///
    /// When it returns, *the stream* waits for whatever is still in flight, so that the addresses are good at once for work
    /// enqueued on it. [`Lease::slice`] and [`Lease::views`] wait themselves.
    ///
    /// ```
    /// use weir::{ContextOptions, Device, PoolOptions, Stream, Use};
    ///
    /// let context = ContextOptions::new().options("host.memory=64M").open()?;
    /// let pool = PoolOptions::new().device(Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
    /// let buffer = pool.buffer(4096)?;
    /// let cpu = Stream::new(&context, Device::HOST)?;
    ///
    /// let mut lease = pool.acquire(&cpu, [Use::discard_write(&buffer)])?;
    /// lease.slice_mut::<f32>(0)?.fill(1.5);
    /// drop(lease);
    ///
    /// let lease = pool.acquire(&cpu, [Use::read(&buffer)])?;
    /// assert_eq!(lease.slice::<f32>(0)?, [1.5; 1024]);
    /// # Ok::<(), weir::Error>(())
    /// ```
    #[inline]
    pub fn acquire<'a, U: UseSet<'a>>(&'a self, stream: &'a Stream, uses: U) -> Result<Lease<'a, U>> {
        self.acquire_raw(stream, uses, ptr::null())
    }

    /// As [`Pool::acquire`], waiting for other leases as the options say.
    #[inline]
    pub fn acquire_with<'a, U: UseSet<'a>>(
        &'a self,
        stream: &'a Stream,
        uses: U,
        options: &AcquireOptions,
    ) -> Result<Lease<'a, U>> {
        self.acquire_raw(stream, uses, &options.raw())
    }

    #[inline]
    fn acquire_raw<'a, U: UseSet<'a>>(
        &'a self,
        stream: &'a Stream,
        uses: U,
        options: *const sys::weir_acquire_options,
    ) -> Result<Lease<'a, U>> {
        let stream: &'a StreamInner = &stream.inner;
        let mut lease =
            Lease { raw: ptr::null_mut(), stream: NonNull::from(stream), uses, borrowed: PhantomData };
        let uses = lease.uses.uses_mut();
        let (first, count) = (uses.as_mut_ptr().cast::<sys::weir_use>(), uses.len());
        // SAFETY: the handles are live, the uses borrow theirs; a `Use` is a `weir_use`.
        let result =
            unsafe { sys::weir_acquire(self.as_raw(), stream.raw, first, count, options, &mut lease.raw) };
        if result == sys::WEIR_SUCCESS {
            Ok(lease)
        } else {
            Err(Error::last(result))
        }
    }
}

impl OwnedLease {
    /// # Safety
    /// `raw` is a lease of these uses on their stream, and of no other owner.
    pub(crate) unsafe fn granted(raw: sys::weir_lease, uses: OwnedUses) -> OwnedLease {
        let stream = NonNull::from(&*uses.stream);
        Lease { raw, stream, uses, borrowed: PhantomData }
    }
}

impl<'a, U: UseSet<'a>> Lease<'a, U> {
    #[inline]
    fn stream(&self) -> &StreamInner {
        // SAFETY: it is borrowed for `'a`, or kept alive by `uses`.
        unsafe { self.stream.as_ref() }
    }

    /// How many uses it has.
    pub fn len(&self) -> usize {
        self.uses.uses().len()
    }

    /// Whether it has none, which no lease has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the first byte of a use is, on the stream's device or in its reach: for work enqueued on the stream.
    ///
    /// # Panics
    /// If there are not so many uses.
    #[inline]
    pub fn address(&self, index: usize) -> u64 {
        self.uses.uses()[index].raw.address
    }

    /// What a use may do.
    ///
    /// # Panics
    /// If there are not so many uses.
    pub fn mode(&self, index: usize) -> Mode {
        self.uses.uses()[index].mode()
    }

    /// Sees to it that the CPU may look at the bytes now: nothing to do on [`Device::HOST`](crate::Device::HOST); on a device
    /// that the CPU can look into, it waits for the stream.
    fn reach(&self) -> Result<()> {
        let stream = self.stream();
        if stream.device == crate::Device::HOST {
            return Ok(());
        }
        self.need_access()?;
        stream.synchronize()
    }

    fn need_access(&self) -> Result<()> {
        let stream = self.stream();
        if stream.host_access() {
            return Ok(());
        }
        let device = stream.device.0;
        Err(Error::not_supported(format!("the CPU can't look at the memory of device {device}")))
    }

    fn span(&self, index: usize) -> Result<Span> {
        let uses = self.uses.uses();
        match uses.get(index) {
            Some(granted) => Span::of(granted),
            None => Err(Error::invalid(format!("there is no use {index}: the lease has {}", uses.len()))),
        }
    }

    /// The bytes of a use as values. On a stream of [`Device::HOST`](crate::Device::HOST), or of a device that the CPU can look
    /// into: it waits for that one. Refused if they are not aligned for `T`, or no whole number of them.
    pub fn slice<T: Plain>(&self, index: usize) -> Result<&[T]> {
        let span = self.span(index)?;
        self.reach()?;
        // SAFETY: the lease keeps the bytes there and writers away, and the work on them has ended; what could enqueue more
        // needs the lease alone.
        unsafe { span.slice() }
    }

    /// As [`Lease::slice`], to be changed. Refused if the use is for reading.
    pub fn slice_mut<T: Plain>(&mut self, index: usize) -> Result<&mut [T]> {
        let span = self.span(index)?;
        self.reach()?;
        // SAFETY: the lease is for writing, so no other lease has the bytes; its other uses can't be looked at meanwhile.
        unsafe { span.slice_mut() }
    }

    /// The bytes of all `N` uses at once. Refused if one that writes overlaps another, or if there are not `N`.
    ///
    /// ```
    /// # use weir::{ContextOptions, Device, PoolOptions, Stream, Use};
    /// # let context = ContextOptions::new().options("host.memory=64M").open()?;
    /// # let pool = PoolOptions::new().device(Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
    /// # let (a, b) = (pool.buffer(4096)?, pool.buffer(4096)?);
    /// # let cpu = Stream::new(&context, Device::HOST)?;
    /// let mut lease = pool.acquire(&cpu, [Use::read(&a), Use::read_write(&b)])?;
    /// let [a, mut b] = lease.views()?;
    /// for (to, from) in b.slice_mut::<u32>()?.iter_mut().zip(a.slice::<u32>()?) {
    ///     *to += *from;
    /// }
    /// # Ok::<(), weir::Error>(())
    /// ```
    pub fn views<const N: usize>(&mut self) -> Result<[View<'_>; N]> {
        let count = self.len();
        <[View<'_>; N]>::try_from(self.view_list()?)
            .map_err(|_| Error::invalid(format!("the lease has {count} uses, not {N}")))
    }

    /// As [`Lease::views`], of any number of uses.
    pub fn view_list(&mut self) -> Result<Vec<View<'_>>> {
        let spans = disjoint(self.uses.uses())?;
        self.reach()?;
        // SAFETY: as in `slice` and `slice_mut`; those that are written overlap no other.
        Ok(spans.into_iter().map(|span| unsafe { View::new(span) }).collect())
    }

    /// Enqueues a function on the lease's stream that works on the bytes of all uses: on the host backend this is a kernel.
    /// It runs on a CPU thread in stream order, perhaps after the lease is released, which it may be at once.
    ///
    /// The function must not call Weir. A panic in it ends there, and [`Stream::synchronize`] tells.
    ///
    /// ```
    /// # use weir::{ContextOptions, Device, PoolOptions, Stream, Use};
    /// # let context = ContextOptions::new().options("host.memory=64M").open()?;
    /// # let pool = PoolOptions::new().device(Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
    /// # let buffer = pool.buffer(4096)?;
    /// let stream = Stream::new(&context, Device(0))?;
    /// let mut lease = pool.acquire(&stream, [Use::discard_write(&buffer)])?;
    /// lease.host_call(|views| views[0].slice_mut::<u64>().unwrap().fill(7))?;
    /// lease.release()?;
    ///
    /// let mut first = [0u64];
    /// buffer.read(0, &mut first)?; // waits for the function
    /// assert_eq!(first, [7]);
    /// # Ok::<(), weir::Error>(())
    /// ```
    pub fn host_call<F>(&mut self, work: F) -> Result<()>
    where
        F: FnOnce(&mut [View<'_>]) + Send + 'static,
    {
        self.need_access()?;
        let spans = disjoint(self.uses.uses())?;
        self.stream().host_call(move || {
            // SAFETY: this runs on the lease's stream before the fence of its release: the bytes are there, and other leases
            // that want them wait. Those that are written overlap no other.
            let mut views: Vec<View<'_>> = spans.into_iter().map(|span| unsafe { View::new(span) }).collect();
            work(&mut views);
        })
    }

    /// Releases the lease, and tells if no fence could be recorded or the device is lost. It is over whatever is told.
    #[inline]
    pub fn release(mut self) -> Result<()> {
        check(self.end())
    }

    /// Releases the lease on another stream of its device.
    ///
    /// # Safety
    /// `stream`, of the same context, waits for the work that the lease protects.
    pub unsafe fn release_on(mut self, stream: &Stream) -> Result<()> {
        // SAFETY: the handles are live; the rest is this function's contract.
        let result = unsafe { sys::weir_release(self.raw, stream.as_raw()) };
        // These two change nothing: the lease is released on its own stream then, as it is dropped.
        if result != sys::WEIR_ERROR_INVALID_ARGUMENT && result != sys::WEIR_ERROR_INVALID_HANDLE {
            self.raw = ptr::null_mut();
        }
        check(result)
    }

    #[inline]
    fn end(&mut self) -> sys::weir_result {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        // SAFETY: the lease is unreleased, and its stream is live.
        unsafe { sys::weir_release(raw, self.stream().raw) }
    }

    /// The handle of C. It stays this lease's.
    pub fn as_raw(&self) -> sys::weir_lease {
        self.raw
    }
}

impl<'a, U: UseSet<'a>> Drop for Lease<'a, U> {
    #[inline]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            self.end();
        }
    }
}

impl<'a, U: UseSet<'a>> std::fmt::Debug for Lease<'a, U> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("raw", &self.raw).field("uses", &self.uses.uses()).finish()
    }
}
