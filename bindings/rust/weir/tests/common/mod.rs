// SPDX-License-Identifier: Apache-2.0

//! What the tests share: small machines on the host backend, whose granules are 64 KiB so that little memory is much.

#![allow(dead_code)] // Each test program uses a part.

use weir::{Context, ContextOptions, Device, Pool, PoolOptions, Stream};

pub const PAGE: u64 = 64 << 10;

/// A machine with so many devices, which nothing of the environment changes.
pub fn machine(devices: u32) -> Context {
    machine_with(devices, "")
}

/// The same with further options.
pub fn machine_with(devices: u32, more: &str) -> Context {
    let options =
        format!("host.devices={devices};host.memory=64M;host.granule=64K;host.granule_large=0;topology.cache=0;{more}");
    ContextOptions::new().options(options.trim_end_matches(';')).no_search().open().expect("a machine")
}

/// A pool with so many pages on each of the context's devices, and a lot in HOST.
pub fn pool_of(context: &Context, pages: u64) -> Pool {
    let mut options = PoolOptions::new().host_budget(16 << 20).no_background();
    for device in 0..context.device_count().expect("devices") {
        options = options.device(Device(device), pages * PAGE);
    }
    options.create(context).expect("a pool")
}

/// A machine, a pool of so many pages on one device, and a stream of it.
pub struct Site {
    pub stream: Stream,
    pub cpu: Stream,
    pub pool: Pool,
    pub context: Context,
}

pub fn site(pages: u64) -> Site {
    let context = machine(1);
    let pool = pool_of(&context, pages);
    let stream = Stream::new(&context, Device(0)).expect("a stream");
    let cpu = Stream::new(&context, Device::HOST).expect("a stream of the CPU");
    Site { stream, cpu, pool, context }
}
