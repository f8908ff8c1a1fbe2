// SPDX-License-Identifier: Apache-2.0
//
// A static library with the other allocators of bench_arena. VMA's functions are there as its header declares them, and
// the benchmark calls them itself; the Rust port of OffsetAllocator gets a C interface here.
//
// Must add nothing to what it wraps: the port is inlined into these functions.

use offset_allocator::{Allocation, Allocator};
use std::mem::{size_of, transmute};
use vk_mem as _; // for the C++ library that comes with it

const _: () = assert!(size_of::<Allocation>() == size_of::<u64>());

/// What no allocation looks like: its node would be the one number that a node never has.
const REFUSED: u64 = u64::MAX;

#[no_mangle]
pub extern "C" fn yardstick_offset_create(units: u32) -> *mut Allocator {
    Box::into_raw(Box::new(Allocator::new(units)))
}

/// # Safety
/// `allocator` came from `yardstick_offset_create()` and is not used again.
#[no_mangle]
pub unsafe extern "C" fn yardstick_offset_destroy(allocator: *mut Allocator) {
    drop(Box::from_raw(allocator));
}

/// An allocation to give back, or `REFUSED`.
///
/// # Safety
/// `allocator` lives, and nothing else uses it meanwhile.
#[no_mangle]
pub unsafe extern "C" fn yardstick_offset_allocate(allocator: *mut Allocator, units: u32) -> u64 {
    match (*allocator).allocate(units) {
        Some(allocation) => transmute::<Allocation, u64>(allocation),
        None => REFUSED,
    }
}

/// # Safety
/// As above; `allocation` came from `yardstick_offset_allocate()` and was not given back before.
#[no_mangle]
pub unsafe extern "C" fn yardstick_offset_free(allocator: *mut Allocator, allocation: u64) {
    (*allocator).free(transmute::<u64, Allocation>(allocation));
}
