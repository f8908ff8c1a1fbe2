// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn lease_and_release(pool: &Pool, stream: &Stream) -> Result<()> {
    let buffer = pool.buffer(4096)?;
    let lease = pool.acquire(stream, [Use::read(&buffer)])?;
    lease.release()?;
    drop(buffer);
    Ok(())
}

fn main() {
    let _ = lease_and_release;
}
