// SPDX-License-Identifier: Apache-2.0

//! Uses: what a lease is to have of which buffer, and sets of them. A use borrows its buffer, so that what is made of it
//! can't outlive the buffer; an owned use counts as a handle to the buffer instead.

use crate::buffer::BufferInner;
use crate::pool::PoolInner;
use crate::stream::StreamInner;
use crate::{Buffer, Mode};
use std::marker::PhantomData;
use std::sync::Arc;
use weir_sys as sys;
use weir_sys::Init as _;

/// Bytes of a buffer, and what is to be done with them.
///
/// ```
/// # let context = weir::ContextOptions::new().options("host.memory=64M").open()?;
/// # let pool = weir::PoolOptions::new().device(weir::Device(0), 8 << 20).host_budget(32 << 20).create(&context)?;
/// # let (weights, output) = (pool.buffer(1 << 20)?, pool.buffer(1 << 20)?);
/// # let stream = weir::Stream::new(&context, weir::Device(0))?;
/// use weir::Use;
/// let lease = pool.acquire(&stream, [Use::read(&weights).range(0, 4096), Use::discard_write(&output)])?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Use<'a> {
    pub(crate) raw: sys::weir_use,
    buffer: PhantomData<&'a Buffer>,
}

// SAFETY: a use is a buffer's handle and numbers.
unsafe impl Send for Use<'_> {}
// SAFETY: as above.
unsafe impl Sync for Use<'_> {}

impl<'a> Use<'a> {
    /// A use of the whole buffer.
    #[inline]
    pub fn new(buffer: &'a Buffer, mode: Mode) -> Use<'a> {
        let raw = sys::weir_use {
            buffer: buffer.as_raw(),
            length: buffer.size(),
            mode: mode.as_raw(),
            ..sys::weir_use::INIT
        };
        Use { raw, buffer: PhantomData }
    }

    /// To read the whole buffer.
    #[inline]
    pub fn read(buffer: &'a Buffer) -> Use<'a> {
        Use::new(buffer, Mode::Read)
    }

    /// To read and write the whole buffer.
    #[inline]
    pub fn read_write(buffer: &'a Buffer) -> Use<'a> {
        Use::new(buffer, Mode::ReadWrite)
    }

    /// To write the whole buffer anew: its old contents are not needed.
    #[inline]
    pub fn discard_write(buffer: &'a Buffer) -> Use<'a> {
        Use::new(buffer, Mode::DiscardWrite)
    }

    /// Only the `length` bytes from `offset` on.
    #[inline]
    pub fn range(mut self, offset: u64, length: u64) -> Use<'a> {
        self.raw.offset = offset;
        self.raw.length = length;
        self
    }

    /// Straight on another device's memory, where the bytes are there and the stream's device reaches it.
    #[inline]
    pub fn allow_remote(mut self) -> Use<'a> {
        self.raw.flags |= sys::WEIR_USE_ALLOW_REMOTE;
        self
    }

    /// What is to be done with the bytes.
    pub fn mode(&self) -> Mode {
        Mode::from_raw(self.raw.mode)
    }

    /// Offset and length in bytes.
    pub fn span(&self) -> (u64, u64) {
        (self.raw.offset, self.raw.length)
    }
}

impl std::fmt::Debug for Use<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (offset, length) = self.span();
        f.debug_struct("Use")
            .field("buffer", &self.raw.buffer)
            .field("mode", &self.mode())
            .field("offset", &offset)
            .field("length", &length)
            .finish()
    }
}

/// A [`Use`] that keeps its buffer alive, for [`Pool::acquire_async`](crate::Pool::acquire_async).
#[derive(Clone)]
pub struct OwnedUse {
    of: Use<'static>,
    buffer: Arc<BufferInner>,
}

impl OwnedUse {
    /// A use of the whole buffer.
    pub fn new(buffer: &Buffer, mode: Mode) -> OwnedUse {
        let of = Use { raw: Use::new(buffer, mode).raw, buffer: PhantomData };
        OwnedUse { of, buffer: Arc::clone(&buffer.inner) }
    }

    /// To read the whole buffer.
    pub fn read(buffer: &Buffer) -> OwnedUse {
        OwnedUse::new(buffer, Mode::Read)
    }

    /// To read and write the whole buffer.
    pub fn read_write(buffer: &Buffer) -> OwnedUse {
        OwnedUse::new(buffer, Mode::ReadWrite)
    }

    /// To write the whole buffer anew.
    pub fn discard_write(buffer: &Buffer) -> OwnedUse {
        OwnedUse::new(buffer, Mode::DiscardWrite)
    }

    /// Only the `length` bytes from `offset` on.
    pub fn range(mut self, offset: u64, length: u64) -> OwnedUse {
        self.of = self.of.range(offset, length);
        self
    }

    /// As [`Use::allow_remote`].
    pub fn allow_remote(mut self) -> OwnedUse {
        self.of = self.of.allow_remote();
        self
    }
}

impl std::fmt::Debug for OwnedUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.of.fmt(f)
    }
}

/// The uses of a lease of [`Pool::acquire_async`](crate::Pool::acquire_async), with all that they need.
pub struct OwnedUses {
    uses: Box<[Use<'static>]>,
    _buffers: Vec<Arc<BufferInner>>,
    pub(crate) stream: Arc<StreamInner>,
    pub(crate) pool: Arc<PoolInner>,
}

impl OwnedUses {
    pub(crate) fn new(uses: Vec<OwnedUse>, stream: &Arc<StreamInner>, pool: &Arc<PoolInner>) -> OwnedUses {
        let (uses, buffers): (Vec<_>, Vec<_>) = uses.into_iter().map(|one| (one.of, one.buffer)).unzip();
        OwnedUses {
            uses: uses.into_boxed_slice(),
            _buffers: buffers,
            stream: Arc::clone(stream),
            pool: Arc::clone(pool),
        }
    }
}

impl std::fmt::Debug for OwnedUses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.uses.fmt(f)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What [`Pool::acquire`](crate::Pool::acquire) takes: an array, a vector, a boxed or a borrowed slice of uses. No other type
/// can be one.
pub trait UseSet<'a>: sealed::Sealed {
    #[doc(hidden)]
    fn uses(&self) -> &[Use<'a>];
    #[doc(hidden)]
    fn uses_mut(&mut self) -> &mut [Use<'a>];
}

macro_rules! use_set {
    ($({$($generics:tt)*} $life:lifetime $name:ty, |$set:ident| $shared:expr, $exclusive:expr;)*) => {$(
        impl<$($generics)*> sealed::Sealed for $name {}
        impl<$($generics)*> UseSet<$life> for $name {
            #[inline]
            fn uses(&self) -> &[Use<$life>] {
                let $set = self;
                $shared
            }
            #[inline]
            fn uses_mut(&mut self) -> &mut [Use<$life>] {
                let $set = self;
                $exclusive
            }
        }
    )*};
}

use_set! {
    {'a, const N: usize} 'a [Use<'a>; N], |set| set, set;
    {'a} 'a Vec<Use<'a>>, |set| set, set;
    {'a} 'a Box<[Use<'a>]>, |set| set, set;
    {'a} 'a &mut [Use<'a>], |set| set, set;
    {} 'static OwnedUses, |set| &set.uses, &mut set.uses;
}
