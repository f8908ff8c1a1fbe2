// SPDX-License-Identifier: Apache-2.0

//! A C library written in Rust that works on a pool that other code made, perhaps in a third language: `weir_share_demo.h`
//! declares its functions. It shows, and a test across languages proves, that handles of C are all that languages need to
//! share a pool.
//!
//! Every function answers as Weir's own do: 0, or a negative `WEIR_ERROR_*`. A panic does not leave it.

#![allow(clippy::missing_safety_doc)] // The header says what each function needs.

use std::panic::{catch_unwind, AssertUnwindSafe};
use weir::sys::{weir_buffer, weir_context, weir_pool, weir_result, weir_stream};
use weir::{Buffer, Context, Device, Pool, Result, Stream, Use};

/// The outcome as C has it.
fn answer(body: impl FnOnce() -> Result<()>) -> weir_result {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        // A panic that Weir caught has no number of C's.
        Ok(Err(weir::Error::Panicked(_))) | Err(_) => weir::sys::WEIR_ERROR_INTERNAL,
        Ok(Err(error)) => error.code(),
    }
}

/// The words of the sequence that begins with `seed`.
fn word(seed: u64, index: u64) -> u64 {
    (seed ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ index
}

/// Makes a buffer in the pool, written with the words that `seed` begins; the caller owns it.
///
/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn weir_share_make(
    pool: weir_pool,
    words: u64,
    seed: u64,
    buffer: *mut weir_buffer,
) -> weir_result {
    answer(|| {
        // SAFETY: the caller's handle, which outlives the call.
        let pool = unsafe { Pool::from_raw(pool) };
        let made = pool.buffer(words.saturating_mul(8))?;
        let contents: Vec<u64> = (0..words).map(|index| word(seed, index)).collect();
        made.write(0, &contents)?;
        // SAFETY: the caller's variable.
        unsafe { buffer.write(made.into_raw()?) };
        Ok(())
    })
}

/// Counts the words of a buffer that are not what `seed` begins, by a lease on the CPU's memory.
///
/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn weir_share_check(
    context: weir_context,
    pool: weir_pool,
    buffer: weir_buffer,
    seed: u64,
    wrong: *mut u64,
) -> weir_result {
    answer(|| {
        // SAFETY: the caller's handles, which outlive the call.
        let (context, pool) = unsafe { (Context::from_raw(context), Pool::from_raw(pool)) };
        // SAFETY: as above; it is dropped before this function returns.
        let buffer = unsafe { Buffer::from_raw(&pool, buffer) }?;
        let cpu = Stream::new(&context, Device::HOST)?;
        let lease = pool.acquire(&cpu, [Use::read(&buffer)])?;
        let found =
            lease.slice::<u64>(0)?.iter().zip(0..).filter(|&(&found, index)| found != word(seed, index));
        // SAFETY: the caller's variable.
        unsafe { wrong.write(found.count() as u64) };
        Ok(())
    })
}

/// Adds `addend` to every word of a buffer, by a function in a stream of the caller's. Does not wait for it.
///
/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn weir_share_add(
    context: weir_context,
    pool: weir_pool,
    stream: weir_stream,
    device: u32,
    buffer: weir_buffer,
    addend: u64,
) -> weir_result {
    answer(|| {
        // SAFETY: the caller's handles, which outlive the call; what is enqueued needs only the lease's memory.
        unsafe {
            let (context, pool) = (Context::from_raw(context), Pool::from_raw(pool));
            let stream = Stream::from_raw(&context, stream, Device(device));
            let buffer = Buffer::from_raw(&pool, buffer)?;
            let mut lease = pool.acquire(&stream, [Use::read_write(&buffer)])?;
            lease.host_call(move |views| add(views, addend))?;
            lease.release()
        }
    })
}

fn add(views: &mut [weir::View<'_>], addend: u64) {
    if let Ok(words) = views[0].slice_mut::<u64>() {
        for word in words {
            *word = word.wrapping_add(addend);
        }
    }
}

/// Asks for a lease to write beside one to read, so that a test can see an error cross the languages: LEASE_CONFLICT.
///
/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn weir_share_conflict(
    context: weir_context,
    pool: weir_pool,
    buffer: weir_buffer,
) -> weir_result {
    answer(|| {
        // SAFETY: the caller's handles, which outlive the call.
        let (context, pool) = unsafe { (Context::from_raw(context), Pool::from_raw(pool)) };
        // SAFETY: as above.
        let buffer = unsafe { Buffer::from_raw(&pool, buffer) }?;
        let cpu = Stream::new(&context, Device::HOST)?;
        let _reading = pool.acquire(&cpu, [Use::read(&buffer)])?;
        pool.acquire(&cpu, [Use::read_write(&buffer)]).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::answer;
    use weir::sys;

    #[test]
    fn what_has_failed_is_no_success() {
        assert_eq!(answer(|| Ok(())), sys::WEIR_SUCCESS);
        assert_eq!(answer(|| weir::Arena::new(0).map(drop)), sys::WEIR_ERROR_INVALID_ARGUMENT);
        assert_eq!(answer(|| panic!("here")), sys::WEIR_ERROR_INTERNAL);
        assert_eq!(
            answer(|| weir::Arena::new(64)?.walk(|_| panic!("called back"))),
            sys::WEIR_ERROR_INTERNAL
        );
    }
}
