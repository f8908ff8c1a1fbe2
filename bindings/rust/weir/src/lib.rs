// SPDX-License-Identifier: Apache-2.0

//! Weir: one logical pool of memory over GPUs, neighbours' memory, pinned host, compressed host and storage.
//!
//! A [`Context`] finds devices, a [`Pool`] promises more memory than they have, a [`Buffer`] is memory whose bytes live
//! wherever there is room, and a [`Lease`] is the right to use them on a [`Stream`]: as long as it is there, the bytes are
//! where it says.
//!
//! ```
//! use weir::{ContextOptions, Device, PoolOptions, Stream, Use};
//!
//! # fn main() -> weir::Result<()> {
//! let context = ContextOptions::new().options("host.memory=64M").open()?;
//! let pool = PoolOptions::new().device(Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
//! let stream = Stream::new(&context, Device(0))?;
//!
//! // 16 MiB of buffers on 8 MiB of device memory.
//! let buffers: Vec<_> = (0..8).map(|_| pool.buffer(2 << 20)).collect::<Result<_, _>>()?;
//! for (number, buffer) in buffers.iter().enumerate() {
//!     let mut lease = pool.acquire(&stream, [Use::discard_write(buffer)])?;
//!     lease.host_call(move |views| views[0].slice_mut::<u64>().unwrap().fill(number as u64))?;
//! }
//! for (number, buffer) in buffers.iter().enumerate() {
//!     let lease = pool.acquire(&stream, [Use::read(buffer)])?;
//!     assert!(lease.slice::<u64>(0)?.iter().all(|&word| word == number as u64));
//! }
//! assert!(pool.stats()?.demoted_bytes > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # What holds
//!
//! - **Lifetimes.** A lease borrows its pool, its stream and its buffers; that one of them ends first does not compile. What is
//!   acquired asynchronously ([`Pool::acquire_async`]) counts as a handle to them instead. Pools keep their context alive,
//!   buffers and clients their pool, streams their context.
//! - **Drop** frees and never panics. `close` and `release` do the same and tell what went wrong. What is leaked
//!   (`std::mem::forget`) stays, with all that it is of.
//! - **Threads.** Everything is [`Send`] and [`Sync`], but for [`Arena`] and [`ContextOptions`], which are [`Send`] only.
//! - **Errors** are an [`Error`] with the numbers, read where the call failed. [`last_error_report`] tells what holds the memory that was
//!   short, and what to do.
//! - **Callbacks** are closures. A panic in one never unwinds into C: it is reported as [`Error::Panicked`] where a call of yours
//!   can report it, and counted where none can.
//! - **Views** ([`Lease::slice`], [`Lease::views`]) are slices of [`Plain`] types, checked for alignment, length and mode. They
//!   are for streams of [`Device::HOST`], and of devices whose memory the CPU can look into.
//! - **Other languages.** `as_raw` gives the handle of C; `from_raw` works on a handle that other code owns.
//!
//! The headers of C have the details: units, stream semantics, and which call answers which error.

#![warn(rustdoc::all)]

mod ahead;
mod arena;
mod buffer;
mod callback;
mod client;
mod codec;
mod context;
mod defragment;
mod error;
mod hold;
mod lease;
mod observe;
mod plain;
mod pool;
mod pool_options;
mod request;
mod shards;
mod stats;
mod stream;
mod topology;
mod uses;
mod view;
mod words;

pub use ahead::Operation;
pub use arena::{Arena, ArenaAllocation, ArenaClass, ArenaPiece, ArenaRange, ArenaReport, ArenaStats};
pub use buffer::{Buffer, BufferInfo, BufferOptions};
pub use client::{Client, ClientOptions, ClientStats};
pub use codec::{
    compress, compress_bound, compress_into, compressed_info, decompress, decompress_into, CompressOptions,
    CompressedInfo,
};
pub use context::{BackendInfo, Context, ContextOptions, DeviceInfo, LinkInfo};
pub use defragment::{BackgroundDefragmentation, DefragmentOptions, DefragmentReport};
pub use error::{last_error_report, Detail, Error, Result};
pub use hold::{Allocation, Hold, HoldMode};
pub use lease::{AcquireOptions, Lease, OwnedLease};
pub use observe::{Trace, TraceKind, TraceOptions};
pub use plain::Plain;
pub use pool::{DeviceLoss, LostRange, Piece, Pool};
pub use pool_options::PoolOptions;
pub use request::Request;
pub use shards::{Shard, ShardLayout};
pub use stats::{CodecShare, CodecStats, PoolDeviceStats, PoolStats};
pub use stream::Stream;
pub use topology::{CalibrateOptions, CalibrateReport};
pub use uses::{OwnedUse, OwnedUses, Use, UseSet};
pub use view::View;
pub use words::{
    Advice, Capabilities, Device, DeviceState, Element, Level, LinkFigure, LinkKind, LogLevel, Method, Mode,
    PieceState, Priority, ShardPolicy, Tier, TopologyFormat, Trim, NONE, UNLIMITED,
};

/// The C ABI as it is.
pub use weir_sys as sys;

/// The library's version, "major.minor.patch".
pub fn version() -> String {
    // SAFETY: it returns a constant text.
    unsafe { error::text(sys::weir_version_string()) }
}

/// The library's version as one number, to be compared: major * 1000000 + minor * 1000 + patch. That of the headers which this
/// crate was made from is [`sys::WEIR_VERSION_NUMBER`]; the library's is of the same major version and not less.
///
/// ```
/// assert!(weir::version_number() >= 1_000_000);
/// ```
pub fn version_number() -> u32 {
    // SAFETY: it returns a constant.
    unsafe { sys::weir_version_number() }
}
