// SPDX-License-Identifier: Apache-2.0

//! What the `*_INIT` macros of the headers give: descriptors and outputs with `struct_size` set, elements of arrays, and
//! every other field at its default. tests/layout.rs compares each with the macro, byte for byte.

use crate::bindings::*;
use core::mem::{size_of, MaybeUninit};

/// A struct that the headers have an `*_INIT` macro for.
pub trait Init: Sized {
    /// The value of the type's `*_INIT` macro.
    const INIT: Self;
}

/// Zero but for `struct_size` and the fields named.
macro_rules! init {
    ($($name:ident { $($field:ident: $value:expr),* })*) => {$(
        impl Init for $name {
            const INIT: Self = {
                // SAFETY: these are plain C structs of integers, pointers and optional functions: zero is a value of each.
                #[allow(unused_mut)]
                let mut value: Self = unsafe { MaybeUninit::zeroed().assume_init() };
                value.struct_size = size_of::<Self>() as u32;
                $(value.$field = $value;)*
                value
            };
        }
    )*};
}

init! {
    weir_acquire_options {}
    weir_arena_desc {}
    weir_arena_report {}
    weir_arena_stats {}
    weir_backend_info {}
    weir_buffer_desc { home: WEIR_DEVICE_DEFAULT }
    weir_buffer_info {}
    weir_calibrate_desc {}
    weir_calibrate_report { folder: b"\0".as_ptr().cast() }
    weir_client_desc {}
    weir_client_stats {}
    weir_codec_stats {}
    weir_compress_desc {}
    weir_compressed_info {}
    weir_context_desc {}
    weir_defragment_desc { device: WEIR_DEVICE_ALL }
    weir_defragment_report {}
    weir_defragmentation_desc {}
    weir_device_info {}
    weir_device_loss {}
    weir_error_info {}
    weir_link_info {}
    weir_pool_desc {}
    weir_pool_device_stats {}
    weir_pool_stats {}
    weir_shard_desc { policy: WEIR_SHARD_STRIPED }
    weir_trace_desc {}
}

impl Init for weir_operation {
    const INIT: Self = weir_operation {
        name: core::ptr::null(),
        uses: core::ptr::null(),
        use_count: 0,
        operation_id: 0,
        reserved: [0; 2],
    };
}

impl Init for weir_pool_device {
    const INIT: Self = weir_pool_device { device: 0, reserved0: 0, budget: 0, reserved: [0; 2] };
}

impl Init for weir_use {
    const INIT: Self = weir_use {
        buffer: core::ptr::null_mut(),
        offset: 0,
        length: WEIR_WHOLE,
        mode: WEIR_READ,
        flags: 0,
        address: 0,
        reserved: [0; 3],
    };
}
