// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn hold(pool: &Pool) -> u64 {
    let hold = {
        let buffer = pool.buffer(4096).unwrap();
        buffer.hold(Device(0)).unwrap()
    };
    hold.address()
}

fn main() {
    let _ = hold;
}
