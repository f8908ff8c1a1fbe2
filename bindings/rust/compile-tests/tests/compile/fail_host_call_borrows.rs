// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn call(stream: &Stream) -> i32 {
    let mut sum = 0;
    stream.host_call(|| sum += 1).unwrap();
    sum
}

fn main() {
    let _ = call;
}
