// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn shared<T: Sync>(_: &T) {}

fn share(arena: &Arena) {
    shared(arena);
}

fn main() {
    let _ = share;
}
