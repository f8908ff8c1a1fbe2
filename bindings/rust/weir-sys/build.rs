// SPDX-License-Identifier: Apache-2.0

//! Finds libweir by pkg-config and has it linked. Both ABIs are at version 0, so the library must be of the version
//! that the bindings were made from.

fn main() {
    // Where documentation is built there is no library, and nothing is linked.
    if std::env::var_os("DOCS_RS").is_some() {
        return;
    }
    if let Err(error) = pkg_config::Config::new().range_version("0.1.0".."0.2.0").probe("weir") {
        eprintln!(
            "\nweir-sys: libweir was not found by pkg-config.\n\
             Install Weir (scripts/install --prefix PREFIX, or the package libweir-dev), and if PREFIX is not where\n\
             pkg-config looks by itself, name it:\n\n    \
             export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig\n    \
             export LD_LIBRARY_PATH=PREFIX/lib\n\n\
             pkg-config says:\n{error}"
        );
        std::process::exit(1);
    }
}
