// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn view(pool: &Pool, cpu: &Stream, buffer: &Buffer) -> f32 {
    let lease = pool.acquire(cpu, [Use::read(buffer)]).unwrap();
    let values = lease.slice::<f32>(0).unwrap();
    lease.release().unwrap();
    values[0]
}

fn main() {
    let _ = view;
}
