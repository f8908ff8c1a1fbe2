// SPDX-License-Identifier: Apache-2.0

//! What the binding adds to a call: acquire and release of a resident buffer through this crate, beside the same two calls
//! of C in the same run. Rounds of the two alternate, so that both meet the same machine, and each pair of rounds gives a
//! ratio; what is printed is the median of those. The goal is 1.05.
//!
//!     cargo run --release --example call_cost -- [ROUNDS]

use std::hint::black_box;
use std::ptr;
use std::time::Instant;
use weir::sys::{self, Init as _};
use weir::{Buffer, ContextOptions, Device, Pool, PoolOptions, Stream, Use};

const CALLS: u32 = 20_000;

/// Nanoseconds a pair of calls takes through the crate.
fn through_the_crate(pool: &Pool, stream: &Stream, buffer: &Buffer) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        let lease = pool.acquire(stream, [Use::read(buffer)]).expect("resident");
        black_box(lease.address(0));
        lease.release().expect("released");
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// The same in C's calls.
fn through_c(pool: &Pool, stream: &Stream, buffer: &Buffer) -> f64 {
    let (pool, stream, buffer) = (pool.as_raw(), stream.as_raw(), buffer.as_raw());
    let start = Instant::now();
    for _ in 0..CALLS {
        let mut uses = [sys::weir_use { buffer, ..sys::weir_use::INIT }];
        let mut lease = ptr::null_mut();
        // SAFETY: all handles are live, and the lease is released on its own stream.
        unsafe {
            let result = sys::weir_acquire(pool, stream, uses.as_mut_ptr(), 1, ptr::null(), &mut lease);
            assert_eq!(result, sys::WEIR_SUCCESS);
            black_box(uses[0].address);
            assert_eq!(sys::weir_release(lease, stream), sys::WEIR_SUCCESS);
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> weir::Result<()> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(41).max(1);
    let context = ContextOptions::new().options("host.memory=64M").open()?;
    let pool = PoolOptions::new().device(Device(0), 8 << 20).host_budget(8 << 20).create(&context)?;
    let stream = Stream::new(&context, Device(0))?;
    let buffer = pool.buffer(2 << 20)?;
    through_the_crate(&pool, &stream, &buffer);
    through_c(&pool, &stream, &buffer);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Which of the two goes first changes too.
        if round % 2 == 0 {
            ours.push(through_the_crate(&pool, &stream, &buffer));
            theirs.push(through_c(&pool, &stream, &buffer));
        } else {
            theirs.push(through_c(&pool, &stream, &buffer));
            ours.push(through_the_crate(&pool, &stream, &buffer));
        }
    }
    let ratio = median(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect());
    println!(
        "call cost: acquire and release of a resident buffer, Rust / C = {ratio:.3} ({:.0} and {:.0} ns, median of {rounds} rounds of {CALLS}; goal 1.05)",
        median(ours),
        median(theirs)
    );
    Ok(())
}
