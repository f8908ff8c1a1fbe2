// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn lease(pool: Pool, stream: &Stream, buffer: &Buffer) {
    let lease = pool.acquire(stream, [Use::read(buffer)]).unwrap();
    pool.close().unwrap();
    lease.release().unwrap();
}

fn main() {
    let _ = lease;
}
