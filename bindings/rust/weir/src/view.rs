// SPDX-License-Identifier: Apache-2.0

//! Views: the bytes of a use as a slice of plain values, checked for alignment, length and mode.

use crate::{Error, Mode, Plain, Result, Use};
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use weir_sys as sys;

/// Where the bytes of a use are.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    address: u64,
    length: u64,
    mode: Mode,
}

impl Span {
    /// Of a use that has been granted, and that the CPU may look at.
    pub(crate) fn of(granted: &Use<'_>) -> Result<Span> {
        if granted.raw.flags & sys::WEIR_USE_ALLOW_REMOTE != 0 {
            return Err(Error::not_supported("a use that may be remote can't be viewed by the CPU"));
        }
        Ok(Span { address: granted.raw.address, length: granted.raw.length, mode: granted.mode() })
    }

    /// Pointer and number of elements.
    fn elements<T: Plain>(self) -> Result<(*mut T, usize)> {
        let (size, align) = (size_of::<T>() as u64, align_of::<T>() as u64);
        let name = std::any::type_name::<T>();
        if size == 0 {
            return Err(Error::invalid(format!("{name} has no bytes")));
        }
        if self.length % size != 0 {
            return Err(Error::invalid(format!("{} bytes are no whole number of {name}", self.length)));
        }
        if self.address == 0 || self.address % align != 0 {
            return Err(Error::invalid(format!("address {:#x} is not aligned for {name}", self.address)));
        }
        if isize::try_from(self.length).is_err() {
            return Err(Error::invalid(format!("{} bytes are more than a slice can have", self.length)));
        }
        Ok((self.address as usize as *mut T, (self.length / size) as usize))
    }

    /// The bytes as values.
    ///
    /// # Safety
    /// They can be read and no code writes them as long as `'v`.
    pub(crate) unsafe fn slice<'v, T: Plain>(self) -> Result<&'v [T]> {
        let (pointer, count) = self.elements()?;
        // SAFETY: aligned, of that length, plain; the rest is this function's contract.
        Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
    }

    /// The bytes as values that may be changed.
    ///
    /// # Safety
    /// No other code reads or writes them as long as `'v`.
    pub(crate) unsafe fn slice_mut<'v, T: Plain>(self) -> Result<&'v mut [T]> {
        if !self.mode.writes() {
            return Err(Error::invalid("the use is for reading only"));
        }
        let (pointer, count) = self.elements()?;
        // SAFETY: aligned, of that length, plain; the rest is this function's contract.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
    }
}

/// The spans of a set, of which none that is written overlaps another.
pub(crate) fn disjoint(uses: &[Use<'_>]) -> Result<Vec<Span>> {
    let spans = uses.iter().map(Span::of).collect::<Result<Vec<_>>>()?;
    let mut order: Vec<&Span> = spans.iter().collect();
    order.sort_unstable_by_key(|span| span.address);
    let (mut end, mut written_end) = (0, 0);
    for span in order {
        if span.address < written_end || (span.mode.writes() && span.address < end) {
            return Err(Error::conflict(format!(
                "uses of one lease overlap at {:#x}, and one of them writes",
                span.address
            )));
        }
        end = end.max(span.address.saturating_add(span.length));
        if span.mode.writes() {
            written_end = end;
        }
    }
    Ok(spans)
}

/// The bytes of one use. [`Lease::views`](crate::Lease::views) has those of all at once, so that some can be written while
/// others are read.
pub struct View<'v> {
    span: Span,
    bytes: PhantomData<&'v mut [u8]>,
}

// SAFETY: a view is a reference to bytes.
unsafe impl Send for View<'_> {}
// SAFETY: as above: shared, it gives shared slices only.
unsafe impl Sync for View<'_> {}

impl<'v> View<'v> {
    /// # Safety
    /// As long as `'v` the bytes can be read and written as the use's mode says, and no other code does.
    pub(crate) unsafe fn new(span: Span) -> View<'v> {
        View { span, bytes: PhantomData }
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.span.length
    }

    /// What may be done with them.
    pub fn mode(&self) -> Mode {
        self.span.mode
    }

    /// The bytes as values. Refused if they are not aligned for `T`, or no whole number of them.
    pub fn slice<T: Plain>(&self) -> Result<&[T]> {
        // SAFETY: by the contract of `new`; the view is borrowed meanwhile.
        unsafe { self.span.slice() }
    }

    /// The bytes as values that may be changed. Refused if the use is for reading.
    pub fn slice_mut<T: Plain>(&mut self) -> Result<&mut [T]> {
        // SAFETY: by the contract of `new`; the view is borrowed alone meanwhile.
        unsafe { self.span.slice_mut() }
    }

    /// As [`View::slice`], for as long as the lease is borrowed.
    pub fn into_slice<T: Plain>(self) -> Result<&'v [T]> {
        // SAFETY: by the contract of `new`; the view is used up.
        unsafe { self.span.slice() }
    }

    /// As [`View::slice_mut`], for as long as the lease is borrowed.
    pub fn into_slice_mut<T: Plain>(self) -> Result<&'v mut [T]> {
        // SAFETY: by the contract of `new`; the view is used up.
        unsafe { self.span.slice_mut() }
    }
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("mode", &self.mode()).field("bytes", &self.bytes()).finish()
    }
}
