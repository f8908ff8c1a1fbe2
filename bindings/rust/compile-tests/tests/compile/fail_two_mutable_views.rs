// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn views(pool: &Pool, cpu: &Stream, buffer: &Buffer) {
    let mut lease = pool.acquire(cpu, [Use::read_write(buffer)]).unwrap();
    let first = lease.slice_mut::<f32>(0).unwrap();
    let second = lease.slice_mut::<f32>(0).unwrap();
    first[0] = second[0];
}

fn main() {
    let _ = views;
}
