// SPDX-License-Identifier: Apache-2.0

//! What must not compile does not, and says why: leases that outlive what they are of, views that outlive their lease, and
//! the like. The compiler's words differ from version to version, so they are compared with those of RECORDED only; the
//! crate's compile_fail examples are tried by every version.

use std::process::Command;

/// The versions of rustc that tests/compile/*.stderr are of: say `TRYBUILD=overwrite` to record another one's.
const RECORDED: [&str; 2] = ["1.95.", "1.96."];

#[test]
fn what_must_not_compile_does_not() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("rustc runs").stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    let recorded = RECORDED.iter().any(|known| version.starts_with(&format!("rustc {known}")));
    if !recorded && std::env::var_os("TRYBUILD").is_none() {
        println!("not checked: the words of {} are not recorded", version.trim());
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile/pass_*.rs");
    cases.compile_fail("tests/compile/fail_*.rs");
}
