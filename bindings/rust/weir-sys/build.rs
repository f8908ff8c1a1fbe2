// SPDX-License-Identifier: Apache-2.0

//! Has libweir linked: by pkg-config an installed one, any of the crate's major version that is not older than its minor one,
//! since the C ABI only grows within a major version, and an older library may lack what the bindings name. With the feature
//! `bundled` one that is built here: from the folder `bundled` of the package, or in a checkout from the checkout.

fn main() {
    // Where documentation is built there is no library, and nothing is linked.
    if std::env::var_os("DOCS_RS").is_some() {
        return;
    }
    #[cfg(feature = "bundled")]
    bundled::build();
    #[cfg(not(feature = "bundled"))]
    installed();
}

#[cfg(not(feature = "bundled"))]
fn installed() {
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

#[cfg(feature = "bundled")]
mod bundled {
    use std::path::{Path, PathBuf};

    const ROOT: &str = env!("CARGO_MANIFEST_DIR");

    /// The archive, with what weir-static.pc says that it needs: a program with it in needs no libweir to run. It has the
    /// host backend; the folder of the others is told to the build scripts of crates that depend on this one, as DEP_WEIR_BACKENDS.
    pub fn build() {
        let source = source();
        for folder in ["api", "backends", "core", "cmake", "CMakeLists.txt"] {
            println!("cargo:rerun-if-changed={}", source.join(folder).display());
        }
        let prefix = cmake::Config::new(&source)
            .profile("Release")
            .define("CMAKE_INSTALL_LIBDIR", "lib")
            .define("WEIR_BUILD_TOOLS", "OFF")
            .define("WEIR_BUILD_TESTS", "OFF")
            .define("WEIR_BUILD_BENCH", "OFF")
            .define("WEIR_BUILD_EXAMPLES", "OFF")
            .define("WEIR_BUILD_CONFORMANCE", "OFF")
            .define("WEIR_BUILD_MAN", "OFF")
            .build();
        // Ours alone: another that is installed must not be found before it.
        let mut path = prefix.join("lib/pkgconfig").into_os_string();
        if let Some(others) = std::env::var_os("PKG_CONFIG_PATH") {
            path.push(":");
            path.push(others);
        }
        std::env::set_var("PKG_CONFIG_PATH", path);
        if let Err(error) = pkg_config::Config::new().env_metadata(false).probe("weir-static") {
            eprintln!("\nweir-memory-sys: what libweir needs was not found by pkg-config:\n{error}");
            std::process::exit(1);
        }
        println!("cargo:backends={}", prefix.join("lib/weir/1").display());
    }

    fn source() -> PathBuf {
        let packed = Path::new(ROOT).join("bundled");
        let checkout = Path::new(ROOT).join("../../..");
        [packed, checkout].into_iter().find(|folder| folder.join("core").is_dir()).unwrap_or_else(|| {
            eprintln!("\nweir-memory-sys: there are no sources of libweir in {ROOT}/bundled");
            std::process::exit(1)
        })
    }
}
