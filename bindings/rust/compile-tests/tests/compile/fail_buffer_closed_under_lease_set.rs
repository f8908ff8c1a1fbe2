// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn lease(pool: &Pool, stream: &Stream, buffers: Vec<Buffer>) {
    let uses: Vec<Use> = buffers.iter().map(Use::read).collect();
    let lease = pool.acquire(stream, uses).unwrap();
    for buffer in buffers {
        buffer.close().unwrap();
    }
    lease.release().unwrap();
}

fn main() {
    let _ = lease;
}
