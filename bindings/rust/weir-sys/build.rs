// SPDX-License-Identifier: Apache-2.0

//! Finds libweir by pkg-config and has it linked: any of the crate's major version that is not older than its minor one,
//! since the C ABI only grows within a major version, and an older library may lack what the bindings name.

fn main() {
    // Where documentation is built there is no library, and nothing is linked.
    if std::env::var_os("DOCS_RS").is_some() {
        return;
    }
    let number = |name: &str| -> u32 {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).expect("cargo tells the crate's version")
    };
    let major = number("CARGO_PKG_VERSION_MAJOR");
    let (oldest, end) =
        (format!("{major}.{}.0", number("CARGO_PKG_VERSION_MINOR")), format!("{}.0.0", major + 1));
    if let Err(error) = pkg_config::Config::new().range_version(oldest.as_str()..end.as_str()).probe("weir") {
        eprintln!(
            "\nweir-memory-sys: libweir was not found by pkg-config, of version {oldest} at least and older than {end}.\n\
             Install Weir (scripts/install --prefix PREFIX, or the package libweir-dev), and if PREFIX is not where\n\
             pkg-config looks by itself, name it:\n\n    \
             export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig\n    \
             export LD_LIBRARY_PATH=PREFIX/lib\n\n\
             pkg-config says:\n{error}"
        );
        std::process::exit(1);
    }
}
