// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn views(pool: &Pool, stream: &Stream, buffer: &Buffer) -> f32 {
    let mut lease = pool.acquire(stream, [Use::read_write(buffer)]).unwrap();
    let values = lease.slice::<f32>(0).unwrap();
    lease.host_call(|views| views[0].slice_mut::<f32>().unwrap().fill(0.0)).unwrap();
    values[0]
}

fn main() {
    let _ = views;
}
