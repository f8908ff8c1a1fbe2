// SPDX-License-Identifier: Apache-2.0

//! Clients, to which bytes are charged within a pool. A client lives as long as its buffers.

use crate::context::c_text;
use crate::error::check;
use crate::pool::PoolInner;
use crate::{Error, Pool, Priority, Result};
use std::ptr;
use std::sync::Arc;
use weir_sys as sys;
use weir_sys::Init as _;

/// How a client is to be made.
///
/// Quotas are bytes. As in C, 0 is no quota: the pool's budget is the bound then, as without the call. What is to hold nothing
/// at all gets [`NONE`](crate::NONE).
///
/// ```
/// # let context = weir::ContextOptions::new().options("host.memory=64M").open()?;
/// # let pool = weir::PoolOptions::new().device(weir::Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
/// // At most 2 MiB of each device, and nothing in the spill files.
/// let tenant = weir::ClientOptions::new("tenant").device_quota(2 << 20).storage_quota(weir::NONE).create(&pool)?;
/// let buffer = weir::BufferOptions::new(1 << 20).client(&tenant).create(&pool)?;
/// assert_eq!(tenant.stats()?.buffers, 1);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    name: String,
    priority: Option<Priority>,
    device_quota: u64,
    host_quota: u64,
    compressed_quota: u64,
    storage_quota: u64,
}

impl ClientOptions {
    /// A client of that name, without quotas.
    pub fn new(name: &str) -> ClientOptions {
        ClientOptions { name: name.to_owned(), ..ClientOptions::default() }
    }

    /// Added to the buffers' own priority.
    pub fn priority(mut self, priority: Priority) -> ClientOptions {
        self.priority = Some(priority);
        self
    }

    /// Bytes it may hold on each device; [`NONE`](crate::NONE) = nothing.
    pub fn device_quota(mut self, bytes: u64) -> ClientOptions {
        self.device_quota = bytes;
        self
    }

    /// Bytes it may hold in HOST; [`NONE`](crate::NONE) = nothing.
    pub fn host_quota(mut self, bytes: u64) -> ClientOptions {
        self.host_quota = bytes;
        self
    }

    /// Bytes it may hold in COMPRESSED, as compressed; [`NONE`](crate::NONE) = nothing.
    pub fn compressed_quota(mut self, bytes: u64) -> ClientOptions {
        self.compressed_quota = bytes;
        self
    }

    /// Bytes it may hold in STORAGE, as stored; [`NONE`](crate::NONE) = nothing.
    pub fn storage_quota(mut self, bytes: u64) -> ClientOptions {
        self.storage_quota = bytes;
        self
    }

    /// Makes the client.
    pub fn create(&self, pool: &Pool) -> Result<Client> {
        let name = c_text("name", &self.name)?;
        let mut desc = sys::weir_client_desc::INIT;
        desc.priority = self.priority.unwrap_or(Priority::Normal).as_raw();
        desc.device_quota = self.device_quota;
        desc.host_quota = self.host_quota;
        desc.name = name.as_ptr();
        desc.compressed_quota = self.compressed_quota;
        desc.storage_quota = self.storage_quota;
        let mut raw = ptr::null_mut();
        // SAFETY: the pool is live, and the name is copied.
        check(unsafe { sys::weir_client_create(pool.as_raw(), &desc, &mut raw) })?;
        Ok(Client { inner: Arc::new(ClientInner { raw, pool: Arc::clone(&pool.inner), owned: true }) })
    }
}

/// What bytes are charged to. It is a handle: a clone is the same client.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientInner>,
}

pub(crate) struct ClientInner {
    pub(crate) raw: sys::weir_client,
    pub(crate) pool: Arc<PoolInner>,
    owned: bool,
}

// SAFETY: every function on a client may be called from any thread.
unsafe impl Send for ClientInner {}
// SAFETY: as above.
unsafe impl Sync for ClientInner {}

impl Drop for ClientInner {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the handle is live, and no other code has it. One with a leaked buffer stays, and ends with its pool.
            unsafe { sys::weir_client_destroy(self.raw) };
        }
    }
}

/// What a client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStats {
    /// Its buffers.
    pub buffers: u32,
    /// Held on all devices.
    pub device_bytes: u64,
    /// In HOST.
    pub host_bytes: u64,
    /// In COMPRESSED, as compressed.
    pub compressed_bytes: u64,
    /// In STORAGE, as stored.
    pub storage_bytes: u64,
}

impl Client {
    /// What it holds now.
    pub fn stats(&self) -> Result<ClientStats> {
        let mut stats = sys::weir_client_stats::INIT;
        // SAFETY: the handle is live.
        check(unsafe { sys::weir_client_stats_get(self.as_raw(), &mut stats) })?;
        Ok(ClientStats {
            buffers: stats.buffers,
            device_bytes: stats.device_bytes,
            host_bytes: stats.host_bytes,
            compressed_bytes: stats.compressed_bytes,
            storage_bytes: stats.storage_bytes,
        })
    }

    /// Ends the client, and tells if it can't: [`Error::Busy`] while it has buffers.
    pub fn close(self) -> Result<()> {
        let mut inner = Arc::try_unwrap(self.inner).map_err(|_| {
            Error::busy("the client is used by a buffer or another clone of it in this program")
        })?;
        inner.owned = false;
        // SAFETY: the handle is live, and no other code has it.
        check(unsafe { sys::weir_client_destroy(inner.raw) })
    }

    /// The handle of C. It stays this client's.
    pub fn as_raw(&self) -> sys::weir_client {
        self.inner.raw
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.as_raw()).finish()
    }
}
