// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn lease<'a>(pool: &'a Pool, stream: &'a Stream) -> Lease<'a, [Use<'a>; 1]> {
    let lease;
    {
        let buffer = pool.buffer(4096).unwrap();
        lease = pool.acquire(stream, [Use::read(&buffer)]).unwrap();
    }
    lease
}

fn main() {
    let _ = lease;
}
