// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn view<'a>(pool: &'a Pool, cpu: &'a Stream, buffer: &'a Buffer) -> &'a [f32] {
    let lease = pool.acquire(cpu, [Use::read(buffer)]).unwrap();
    lease.slice::<f32>(0).unwrap()
}

fn main() {
    let _ = view;
}
