// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn walk(arena: &mut Arena) {
    arena
        .walk(|piece| {
            piece.allocation.map(|allocation| arena.free(allocation));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
}

fn main() {
    let _ = walk;
}
