// SPDX-License-Identifier: Apache-2.0

//! Types whose values are bytes and nothing else: what memory that a device wrote may be looked at as.

/// A type of which every pattern of bytes is a value, and whose values have no padding.
///
/// The integers, the floats and arrays of them are. A struct of your own may be, if it is `#[repr(C)]`, all its members
/// are plain, and there is no padding between or behind them.
///
/// # Safety
/// Every pattern of `size_of::<Self>()` bytes is a valid value; no byte of a value is padding; there is no pointer or
/// interior mutability in it.
///
/// ```
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// struct Particle {
///     position: [f32; 3],
///     charge: f32,
/// }
/// // SAFETY: four floats, no padding.
/// unsafe impl weir::Plain for Particle {}
/// ```
///
/// `bool` and `char` are not: not every byte is one.
///
/// ```compile_fail
/// fn plain<T: weir::Plain>() {}
/// plain::<bool>();
/// ```
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($name:ty)*) => {$(
        // SAFETY: every pattern of bytes is a value, and there is no padding.
        unsafe impl Plain for $name {}
    )*};
}

plain! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 }

// SAFETY: elements lie one behind the other, without padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The bytes of a slice.
pub(crate) fn bytes_of<T: Plain>(slice: &[T]) -> &[u8] {
    // SAFETY: plain values have no padding, so that every byte is initialised.
    unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), std::mem::size_of_val(slice)) }
}
