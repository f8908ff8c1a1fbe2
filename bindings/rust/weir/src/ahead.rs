// SPDX-License-Identifier: Apache-2.0

//! Before the need: prefetch, and announcing what the next acquires will use. Hints, which promise nothing.

use crate::error::check;
use crate::{Pool, Result, Stream, Use};
use std::ffi::CStr;
use std::marker::PhantomData;
use weir_sys as sys;
use weir_sys::Init as _;

/// One operation to come: what the acquire for it will use.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Operation<'a> {
    raw: sys::weir_operation,
    uses: PhantomData<&'a [Use<'a>]>,
}

// SAFETY: an operation is a reference to uses and one to a name.
unsafe impl Send for Operation<'_> {}
// SAFETY: as above.
unsafe impl Sync for Operation<'_> {}

impl<'a> Operation<'a> {
    /// An operation with these uses.
    pub fn new(uses: &'a [Use<'a>]) -> Operation<'a> {
        let raw = sys::weir_operation {
            uses: uses.as_ptr().cast(),
            use_count: uses.len() as u64,
            ..sys::weir_operation::INIT
        };
        Operation { raw, uses: PhantomData }
    }

    /// A name for the policy to learn from.
    pub fn named(mut self, name: &'a CStr) -> Operation<'a> {
        self.raw.name = name.as_ptr();
        self
    }

    /// The number of a name, of [`Pool::operation_id`] of the pool that it is announced to. A name is not looked at then.
    pub fn numbered(mut self, id: u32) -> Operation<'a> {
        self.raw.operation_id = u64::from(id);
        self
    }
}

impl std::fmt::Debug for Operation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation").field("uses", &self.raw.use_count).finish_non_exhaustive()
    }
}

impl Pool {
    /// The number of an operation's name in this pool: 1 and up, the same for the same name as long as the pool lives. Ask once:
    /// acquiring with the number costs nothing, while a name is looked up each time. A name has 1 to 1023 bytes. 65,536 names of a
    /// pool have numbers of their own, and all further ones share one ([`PoolStats::shared_operation_ids`](crate::PoolStats)).
    pub fn operation_id(&self, name: &CStr) -> Result<u32> {
        let mut id = 0;
        // SAFETY: the pool is live, the name ends with 0 and is copied.
        check(unsafe { sys::weir_operation_id(self.as_raw(), name.as_ptr(), &mut id) })?;
        Ok(id)
    }

    /// Starts bringing the uses' bytes to the stream's device, as far as room can be had without harm. Returns at once.
    pub fn prefetch(&self, stream: &Stream, uses: &[Use<'_>]) -> Result<()> {
        // SAFETY: the handles are live; a `Use` is a `weir_use`, and is only read.
        check(unsafe { sys::weir_prefetch(self.as_raw(), stream.as_raw(), uses.as_ptr().cast(), uses.len()) })
    }

    /// Tells what the next acquires on `stream` will use, in order. Each acquire there consumes one announced operation. A
    /// buffer that is dropped meanwhile is skipped.
    pub fn announce(&self, stream: &Stream, operations: &[Operation<'_>]) -> Result<()> {
        self.announce_raw(stream, operations, 0)
    }

    /// As [`Pool::announce`], forgetting what was announced on the stream before. With no operations it only forgets.
    pub fn announce_anew(&self, stream: &Stream, operations: &[Operation<'_>]) -> Result<()> {
        self.announce_raw(stream, operations, u64::from(sys::WEIR_ANNOUNCE_REPLACE))
    }

    fn announce_raw(&self, stream: &Stream, operations: &[Operation<'_>], flags: u64) -> Result<()> {
        let (first, count) = (operations.as_ptr().cast::<sys::weir_operation>(), operations.len());
        // SAFETY: the handles are live; an `Operation` is a `weir_operation`; everything is copied.
        check(unsafe { sys::weir_announce(self.as_raw(), stream.as_raw(), first, count, flags) })
    }
}
