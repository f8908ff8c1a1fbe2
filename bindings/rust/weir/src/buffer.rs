// SPDX-License-Identifier: Apache-2.0

//! Buffers: virtual allocations whose bytes live wherever the pool has room. A buffer keeps its pool and its client alive.

use crate::client::ClientInner;
use crate::context::{c_text, count, document, pointer};
use crate::error::check;
use crate::plain::bytes_of;
use crate::pool::PoolInner;
use crate::shards::RawLayout;
use crate::{
    Advice, Client, Device, Element, Error, Hold, HoldMode, Plain, Pool, Priority, Result, ShardLayout,
};
use std::ffi::{c_void, CString};
use std::ops::{Bound, RangeBounds};
use std::ptr;
use std::sync::Arc;
use weir_sys as sys;
use weir_sys::Init as _;

/// How a buffer is to be made.
///
/// ```
/// # let context = weir::ContextOptions::new().options("host.memory=64M").open()?;
/// # let pool = weir::PoolOptions::new().device(weir::Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
/// let buffer = weir::BufferOptions::new(1 << 20).name("weights").element(weir::Element::F32).create(&pool)?;
/// assert_eq!(buffer.name()?, "weights");
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BufferOptions {
    size: u64,
    alignment: u64,
    flags: u64,
    priority: Priority,
    client: Option<Client>,
    home: Device,
    element: Element,
    tag: u64,
    users: Vec<Device>,
    shards: Option<ShardLayout>,
    name: Option<String>,
}

/// What a descriptor of C points to, and so must outlive it.
struct Pointed<'a> {
    users: Vec<sys::weir_device>,
    shards: Option<sys::weir_shard_desc>,
    /// What `shards` points to.
    _layout: Option<RawLayout<'a>>,
    name: Option<CString>,
}

impl BufferOptions {
    /// A buffer of `size` bytes, at home on the pool's first device.
    pub fn new(size: u64) -> BufferOptions {
        BufferOptions {
            size,
            alignment: 0,
            flags: 0,
            priority: Priority::Normal,
            client: None,
            home: Device::DEFAULT,
            element: Element::Any,
            tag: 0,
            users: Vec::new(),
            shards: None,
            name: None,
        }
    }

    /// Of its address; a power of two up to the page size.
    pub fn alignment(mut self, bytes: u64) -> BufferOptions {
        self.alignment = bytes;
        self
    }

    /// Its eviction class.
    pub fn priority(mut self, priority: Priority) -> BufferOptions {
        self.priority = priority;
        self
    }

    /// The client that its bytes are charged to.
    pub fn client(mut self, client: &Client) -> BufferOptions {
        self.client = Some(client.clone());
        self
    }

    /// Where it is expected to be used; with [`Device::ANY`] Weir chooses.
    pub fn home(mut self, device: Device) -> BufferOptions {
        self.home = device;
        self
    }

    /// What its bytes are.
    pub fn element(mut self, element: Element) -> BufferOptions {
        self.element = element;
        self
    }

    /// Yours; shown in snapshots.
    pub fn tag(mut self, tag: u64) -> BufferOptions {
        self.tag = tag;
        self
    }

    /// What errors, reports and snapshots call it, as for [`Buffer::set_name`].
    pub fn name(mut self, name: &str) -> BufferOptions {
        self.name = Some(name.to_owned());
        self
    }

    /// Those that will use it, where Weir chooses the home. One that is listed twice uses it twice as often.
    pub fn users(mut self, devices: &[Device]) -> BufferOptions {
        self.users = devices.to_vec();
        self
    }

    /// Dealt out to several devices. The home is the first of them, or left open, and there are no users.
    pub fn shards(mut self, layout: &ShardLayout) -> BufferOptions {
        self.shards = Some(layout.clone());
        self
    }

    /// Keep one address for life, also below a page.
    pub fn stable_address(self) -> BufferOptions {
        self.flag(sys::WEIR_BUFFER_STABLE_ADDRESS)
    }

    /// Zero its memory when it is freed, not only before another client sees it.
    pub fn scrub(self) -> BufferOptions {
        self.flag(sys::WEIR_BUFFER_SCRUB)
    }

    /// LOSSY: its floats may come back rounded to bf16. The element must be [`Element::F32`]; see `weir/buffer.h`.
    pub fn lossy_bf16(self) -> BufferOptions {
        self.flag(sys::WEIR_BUFFER_LOSSY_BF16)
    }

    /// LOSSY: as [`BufferOptions::lossy_bf16`], to f16.
    pub fn lossy_f16(self) -> BufferOptions {
        self.flag(sys::WEIR_BUFFER_LOSSY_F16)
    }

    fn flag(mut self, flag: u32) -> BufferOptions {
        self.flags |= u64::from(flag);
        self
    }

    /// The descriptor of C. It lives no longer than `pointed`.
    fn desc(&self, pointed: &Pointed<'_>) -> Result<sys::weir_buffer_desc> {
        let mut desc = sys::weir_buffer_desc::INIT;
        desc.priority = self.priority.as_raw();
        desc.flags = self.flags;
        desc.size = self.size;
        desc.alignment = self.alignment;
        desc.client = self.client.as_ref().map_or(ptr::null_mut(), Client::as_raw);
        desc.home = self.home.0;
        desc.element = self.element.as_raw();
        desc.tag = self.tag;
        desc.user_count = count(pointed.users.len())?;
        if !pointed.users.is_empty() {
            desc.users = pointed.users.as_ptr();
        }
        desc.shards = pointed.shards.as_ref().map_or(ptr::null(), |shards| shards);
        desc.name = pointer(&pointed.name);
        Ok(desc)
    }

    fn pointed(&self) -> Result<Pointed<'_>> {
        let users = self.users.iter().map(|device| device.0).collect();
        let layout = self.shards.as_ref().map(RawLayout::of);
        let shards = layout.as_ref().map(RawLayout::desc).transpose()?;
        let name = self.name.as_deref().map(|name| c_text("name", name)).transpose()?;
        Ok(Pointed { users, shards, _layout: layout, name })
    }

    /// Makes the buffer. It takes no device memory before it is first leased.
    pub fn create(&self, pool: &Pool) -> Result<Buffer> {
        if let Some(client) = &self.client {
            if client.inner.pool.raw() != pool.as_raw() {
                return Err(Error::invalid(format!("{client:?} is of another pool than {pool:?}")));
            }
        }
        let pointed = self.pointed()?;
        let desc = self.desc(&pointed)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the pool and the client are live, and what the descriptor points to is copied.
        check(unsafe { sys::weir_buffer_create(pool.as_raw(), &desc, &mut raw) })?;
        let client = self.client.as_ref().map(|client| Arc::clone(&client.inner));
        Ok(Buffer::of(raw, self.size, true, &pool.inner, client))
    }
}

/// `size` bytes that read as zero until they are written, wherever they are.
///
/// A buffer can't be dropped while a [`Lease`](crate::Lease) or a [`Hold`] of it is there: they borrow it. Work of released
/// leases that still runs is waited for in the background; the memory is charged until then. If a lease or a hold was leaked
/// (`std::mem::forget`), the buffer stays after its drop, and so do its pool and context.
pub struct Buffer {
    pub(crate) inner: Arc<BufferInner>,
}

pub(crate) struct BufferInner {
    pub(crate) raw: sys::weir_buffer,
    size: u64,
    owned: bool,
    /// Let go of after the buffer, before the pool.
    _client: Option<Arc<ClientInner>>,
    pool: Arc<PoolInner>,
}

// SAFETY: every function on a buffer may be called from any thread.
unsafe impl Send for BufferInner {}
// SAFETY: as above.
unsafe impl Sync for BufferInner {}

impl Drop for BufferInner {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the handle is live, and no other code has it. One with a leaked lease stays, and ends with its pool.
            unsafe { sys::weir_buffer_destroy(self.pool.raw(), self.raw) };
        }
    }
}

/// What a buffer is, and where the bytes of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferInfo {
    /// Its home.
    pub home: Device,
    /// Bytes.
    pub size: u64,
    /// Yours.
    pub tag: u64,
    /// On the home device; 0 if it has none at present.
    pub address: u64,
    /// Bytes on the home device; of a sharded buffer, each page's own.
    pub device_bytes: u64,
    /// On other devices, and not on the home device.
    pub peer_bytes: u64,
    /// In HOST, and on no device.
    pub host_bytes: u64,
    /// Of `device_bytes`, those that are in HOST too.
    pub both_bytes: u64,
    /// Never written, or discarded: they read as zero.
    pub unwritten_bytes: u64,
    /// Lost with a device.
    pub lost_bytes: u64,
    /// In COMPRESSED, and neither on a device nor in HOST.
    pub compressed_bytes: u64,
    /// In STORAGE, and nowhere else.
    pub storage_bytes: u64,
    /// Unreleased leases.
    pub leases: u32,
    /// Its eviction class.
    pub priority: Priority,
    /// Holds not yet undone.
    pub held: u32,
    /// 0 for a tenant of a slab.
    pub pages: u32,
}

impl Buffer {
    fn of(
        raw: sys::weir_buffer,
        size: u64,
        owned: bool,
        pool: &Arc<PoolInner>,
        client: Option<Arc<ClientInner>>,
    ) -> Buffer {
        let inner = BufferInner { raw, size, owned, _client: client, pool: Arc::clone(pool) };
        Buffer { inner: Arc::new(inner) }
    }

    /// Its size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// The pool it is of.
    pub fn pool(&self) -> Pool {
        Pool { inner: Arc::clone(&self.inner.pool) }
    }

    fn raw_pool(&self) -> sys::weir_pool {
        self.inner.pool.raw()
    }

    /// What it is, and where its bytes are.
    pub fn info(&self) -> Result<BufferInfo> {
        self.info_of(..)
    }

    /// The same, of the bytes of a range: in whole pages clipped to it.
    pub fn info_of(&self, range: impl RangeBounds<u64>) -> Result<BufferInfo> {
        let (offset, length) = self.span(&range)?;
        let mut info = sys::weir_buffer_info::INIT;
        // SAFETY: both handles are live.
        check(unsafe {
            sys::weir_buffer_info_get(self.raw_pool(), self.as_raw(), offset, length, &mut info)
        })?;
        Ok(BufferInfo {
            home: Device(info.home),
            size: info.size,
            tag: info.tag,
            address: info.address,
            device_bytes: info.device_bytes,
            peer_bytes: info.peer_bytes,
            host_bytes: info.host_bytes,
            both_bytes: info.both_bytes,
            unwritten_bytes: info.unwritten_bytes,
            lost_bytes: info.lost_bytes,
            compressed_bytes: info.compressed_bytes,
            storage_bytes: info.storage_bytes,
            leases: info.leases,
            priority: Priority::from_raw(info.priority),
            held: info.held,
            pages: info.pages,
        })
    }

    /// Copies elements out, from byte `offset` on, from whatever tier they are on. Waits for the work that writes them, and
    /// for the copy. Refused under an unreleased lease that writes there.
    pub fn read<T: Plain>(&self, offset: u64, destination: &mut [T]) -> Result<()> {
        let length = std::mem::size_of_val(destination) as u64;
        let destination = destination.as_mut_ptr().cast::<c_void>();
        if length == 0 {
            return Ok(());
        }
        // SAFETY: both handles are live; the destination has `length` bytes, of which every pattern is a value.
        check(unsafe { sys::weir_buffer_read(self.raw_pool(), self.as_raw(), offset, length, destination) })
    }

    /// Copies elements in, from byte `offset` on. Waits for work that uses the range, and for the copy. Refused under any
    /// unreleased lease there. If it fails, bytes before the failure may already be new.
    pub fn write<T: Plain>(&self, offset: u64, source: &[T]) -> Result<()> {
        let source = bytes_of(source);
        if source.is_empty() {
            return Ok(());
        }
        let (length, source) = (source.len() as u64, source.as_ptr().cast::<c_void>());
        // SAFETY: both handles are live; the source has `length` bytes.
        check(unsafe { sys::weir_buffer_write(self.raw_pool(), self.as_raw(), offset, length, source) })
    }

    /// A hint what is to be expected of a range. Lasts until the next advice.
    pub fn advise(&self, range: impl RangeBounds<u64>, advice: Advice) -> Result<()> {
        let (offset, length) = self.span(&range)?;
        // SAFETY: both handles are live.
        check(unsafe { sys::weir_advise(self.raw_pool(), self.as_raw(), offset, length, advice.as_raw()) })
    }

    /// The contents of a range are no longer needed: whole pages inside it read as zero from then on.
    pub fn discard(&self, range: impl RangeBounds<u64>) -> Result<()> {
        let (offset, length) = self.span(&range)?;
        // SAFETY: both handles are live.
        check(unsafe { sys::weir_discard(self.raw_pool(), self.as_raw(), offset, length) })
    }

    /// Changes the eviction class.
    pub fn set_priority(&self, priority: Priority) -> Result<()> {
        // SAFETY: both handles are live.
        check(unsafe { sys::weir_buffer_set_priority(self.raw_pool(), self.as_raw(), priority.as_raw()) })
    }

    /// Gives the buffer a name, or another; "" takes it away. Errors, reports and snapshots have it. The first 255 bytes are
    /// kept, up to the end of a character. Names need not differ, and mean nothing to Weir.
    pub fn set_name(&self, name: &str) -> Result<()> {
        let name = c_text("name", name)?;
        // SAFETY: both handles are live, and the name is copied.
        check(unsafe { sys::weir_buffer_set_name(self.raw_pool(), self.as_raw(), name.as_ptr()) })
    }

    /// Its name, as far as it is kept; "" if it has none. What another language has named with bytes that are no UTF-8 has
    /// U+FFFD in their place.
    pub fn name(&self) -> Result<String> {
        document(|text, capacity, needed| {
            // SAFETY: both handles are live, and there are `capacity` bytes.
            unsafe { sys::weir_buffer_name(self.raw_pool(), self.as_raw(), text, capacity, needed) }
        })
    }

    /// Makes the whole buffer resident on `device` and keeps it there as long as the hold, without a lease: for captured
    /// graphs and exported memory. What is written there, by any code, is the latest version. It is [`Buffer::hold_as`] with
    /// [`HoldMode::Shared`].
    pub fn hold(&self, device: Device) -> Result<Hold<'_>> {
        self.hold_as(device, HoldMode::Shared)
    }

    /// A hold in a mode. Those of one mode nest, but for [`HoldMode::Alone`]; every other pair, and a second device, is
    /// [`Error::LeaseConflict`].
    pub fn hold_as(&self, device: Device, mode: HoldMode) -> Result<Hold<'_>> {
        Hold::new(self, device, mode)
    }

    /// Gives the buffer `memory` as the home of its HOST copies; with `load` the memory's contents become the buffer's.
    ///
    /// # Safety
    /// `memory` has at least the buffer's size, begins with a page of the system, and stays valid and untouched until
    /// [`Buffer::host_unregister`], or until the buffer's pool has ended.
    pub unsafe fn host_register(&self, memory: *mut u8, load: bool) -> Result<()> {
        let flags = if load { u64::from(sys::WEIR_HOST_LOAD) } else { 0 };
        // SAFETY: both handles are live; the rest is this function's contract.
        check(unsafe { sys::weir_host_register(self.raw_pool(), self.as_raw(), memory.cast(), flags) })
    }

    /// Writes the latest contents to the registered memory and parts from it: the memory is the caller's again.
    ///
    /// # Safety
    /// No lease of a stream on [`Device::HOST`] is looking at the memory.
    pub unsafe fn host_unregister(&self) -> Result<()> {
        // SAFETY: both handles are live; the rest is this function's contract.
        check(unsafe { sys::weir_host_unregister(self.raw_pool(), self.as_raw()) })
    }

    /// Ends the buffer, and tells if it can't: [`Error::Busy`] while an asynchronous lease has it too, or a lease was leaked.
    pub fn close(self) -> Result<()> {
        let mut inner = Arc::try_unwrap(self.inner)
            .map_err(|_| Error::busy("the buffer is used by an asynchronous acquire of this program"))?;
        if !std::mem::replace(&mut inner.owned, false) {
            return Ok(());
        }
        // SAFETY: both handles are live, and no other code has the buffer's.
        check(unsafe { sys::weir_buffer_destroy(inner.pool.raw(), inner.raw) })
    }

    /// The handle of C. It stays this buffer's.
    #[inline]
    pub fn as_raw(&self) -> sys::weir_buffer {
        self.inner.raw
    }

    /// Gives the buffer away: the code that gets the handle destroys it, or leaves that to the pool's end. [`Error::Busy`] while an
    /// asynchronous lease has it too; the buffer is dropped with that one then.
    pub fn into_raw(self) -> Result<sys::weir_buffer> {
        let mut inner = Arc::try_unwrap(self.inner)
            .map_err(|_| Error::busy("the buffer is used by an asynchronous acquire of this program"))?;
        inner.owned = false;
        Ok(inner.raw)
    }

    /// A buffer that other code owns: dropping this one leaves it alone.
    ///
    /// # Safety
    /// `raw` is a live buffer of the pool, and lives longer than the one returned and all leases of it.
    pub unsafe fn from_raw(pool: &Pool, raw: sys::weir_buffer) -> Result<Buffer> {
        // Until its size is known, its whole is what C calls so.
        let mut buffer = Buffer::of(raw, sys::WEIR_WHOLE, false, &pool.inner, None);
        let size = buffer.info()?.size;
        if let Some(inner) = Arc::get_mut(&mut buffer.inner) {
            inner.size = size;
        }
        Ok(buffer)
    }

    /// Takes over a buffer that [`Buffer::into_raw`] or C gave away.
    ///
    /// # Safety
    /// As [`Buffer::from_raw`], and no other code destroys it.
    pub unsafe fn from_raw_owned(pool: &Pool, raw: sys::weir_buffer) -> Result<Buffer> {
        // SAFETY: by this function's contract.
        let mut buffer = unsafe { Buffer::from_raw(pool, raw) }?;
        if let Some(inner) = Arc::get_mut(&mut buffer.inner) {
            inner.owned = true;
        }
        Ok(buffer)
    }

    /// Offset and length of a range. What lies beyond the end is left to the library to refuse.
    pub(crate) fn span(&self, range: &impl RangeBounds<u64>) -> Result<(u64, u64)> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.inner.size.max(start),
        };
        let length = end
            .checked_sub(start)
            .ok_or_else(|| Error::invalid(format!("range {start}..{end} ends before it begins")))?;
        Ok((start, length))
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("raw", &self.as_raw()).field("size", &self.size()).finish()
    }
}

impl Pool {
    /// A buffer of `size` bytes with all defaults.
    pub fn buffer(&self, size: u64) -> Result<Buffer> {
        BufferOptions::new(size).create(self)
    }

    /// Homes for buffers that are going to be made, chosen together: put each into [`BufferOptions::home`]. Not for buffers
    /// with shards, which say themselves where their bytes are to be.
    pub fn place(&self, buffers: &[BufferOptions]) -> Result<Vec<Device>> {
        if let Some(number) = buffers.iter().position(|options| options.shards.is_some()) {
            return Err(Error::invalid(format!(
                "buffer {number} has shards, which say where its bytes are to be"
            )));
        }
        let pointed = buffers.iter().map(BufferOptions::pointed).collect::<Result<Vec<_>>>()?;
        let descs = buffers
            .iter()
            .zip(&pointed)
            .map(|(options, pointed)| options.desc(pointed))
            .collect::<Result<Vec<_>>>()?;
        let pointers: Vec<*const sys::weir_buffer_desc> = descs.iter().map(|desc| desc as *const _).collect();
        let mut homes = vec![0; descs.len()];
        // SAFETY: the pool is live; there are as many homes as descriptors, and they and what they point to outlive the call.
        check(unsafe {
            sys::weir_buffer_place(self.as_raw(), pointers.as_ptr(), pointers.len(), homes.as_mut_ptr())
        })?;
        Ok(homes.into_iter().map(Device).collect())
    }
}
