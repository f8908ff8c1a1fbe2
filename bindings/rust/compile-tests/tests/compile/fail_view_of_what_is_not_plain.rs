// SPDX-License-Identifier: Apache-2.0

use weir::*;

fn view(lease: &OwnedLease) -> bool {
    lease.slice::<bool>(0).unwrap()[0]
}

fn main() {
    let _ = view;
}
