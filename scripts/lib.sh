# SPDX-License-Identifier: Apache-2.0
#
# Shared by the scripts of this folder: sourced, never run. It puts the caller into the repository's root,
# installs what a bare Debian 12, Debian 13 or Ubuntu 24.04 lacks, and names the number of parallel jobs. It must not
# touch the network when nothing is missing.

set -euo pipefail
CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.."

BUILD_PACKAGES=(g++ cmake ninja-build pkg-config libxxhash-dev libcmocka-dev liblz4-dev libzstd-dev
                liburing-dev libssl-dev libhwloc-dev nlohmann-json3-dev libcli11-dev libcairo2-dev libncurses-dev prometheus-cpp-dev
                opencl-headers libvulkan-dev python3)
# libze: the loader and the headers of Level Zero, for its backend on a simulated driver. pocl-opencl-icd: an OpenCL that runs on CPUs. The rest: the terminal of weir top's tests, a
# second look at the ABI, the reference, what formats man pages, Python's package installer for headers and a formatter that no release
# has, the second compiler that weir.hpp must please, which also checks the use of mutexes, what lays out pictures of topologies, with a
# font to measure texts by, and what runs the scripts of a page without a browser. libvulkan, mesa-vulkan: the headers and the loader
# of Vulkan, a driver that runs on the CPU, and the layers that check how it is used. glslang, libpng: what compiles the shaders of its
# examples, and writes the picture of one.
TEST_PACKAGES=(tmux libze-dev libze1 libvulkan1 mesa-vulkan-drivers vulkan-validationlayers ocl-icd-libopencl1 pocl-opencl-icd glslang-tools
               libpng-dev abigail-tools doxygen groff-base mandoc python3-pip python3-venv clang clang-tidy graphviz
               fonts-dejavu-core nodejs)
# Whose archives and headers a portable library has in it (WEIR_PORTABLE): their licences go with it.
PACKED_PACKAGES=(liblz4-dev libzstd-dev libhwloc-dev liburing-dev libssl-dev libxxhash-dev nlohmann-json3-dev libcli11-dev)
# What programs that were built here need in the root of another Debian, where drivers are that this one has not.
DRIVER_PACKAGES=(libhwloc15 liblz4-1 libzstd1 liburing2 libssl3t64 libcmocka0 libstdc++6)
# What makes the site of the documentation; without them there is the reference alone.
SITE_PACKAGES=(mkdocs mkdocs-material)
# What makes and tries packages.
PACKAGE_PACKAGES=(dpkg-dev file debootstrap)
# What shows pictures as a reader sees them.
PICTURE_PACKAGES=(chromium graphviz fonts-dejavu-core python3)
# What compiles and runs the codec for AArch64 elsewhere, and what it and its tests are linked with there.
NEON_PACKAGES=(g++-aarch64-linux-gnu qemu-user)
NEON_LIBRARIES=(libxxhash-dev liblz4-dev liblz4-1 libzstd-dev libzstd1 libcmocka-dev libcmocka0)

JOBS="${WEIR_JOBS:-$(nproc 2>/dev/null || echo 2)}"

say() { printf '== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo "$@"
  else
    fail "not root and no sudo; as root, run: $*"
  fi
}

# Prints those of the given packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      echo "$package"
  done
}

# Installs what is missing of the given packages.
need_packages() {
  if ! command -v dpkg-query >/dev/null 2>&1; then
    say "no dpkg on this system; needed are: $*"
    return 0
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -eq 0 ] && return 0
  say "installing: ${missing[*]}"
  # An update that fails may leave lists that are good enough: the install below decides.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq || say "apt-get update failed"
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
    fail "could not install: ${missing[*]}"
}

# Where ccache is, a folder that is configured for the first time compiles through it; nobody's own choice is changed.
if command -v ccache >/dev/null 2>&1; then
  export CMAKE_C_COMPILER_LAUNCHER="${CMAKE_C_COMPILER_LAUNCHER-ccache}"
  export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
  # A checkout elsewhere is the same one, and precompiled headers are no reason not to try.
  export CCACHE_BASEDIR="${CCACHE_BASEDIR-$PWD}" CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS-pch_defines,time_macros}"
fi

# Before what is to be packed is configured in TREE: NVTX's header, with which it has ranges for NVIDIA's profilers. Where it can't be
# fetched they are left out, which is said; what is packed then answers WEIR_NVTX=1 by a warning.
with_nvtx() { # TREE
  (scripts/vendor-headers --nvtx >&2) ||
    [ -f build/headers/nvtx/nvtx3/nvToolsExt.h ] ||
    say "without ranges for NVIDIA's profilers (WEIR_NVTX): NVTX's header is not here, and could not be fetched"
  # A tree that has looked for it in vain looks again.
  if [ -f "$1/build.ninja" ] && grep -q '^WEIR_NVTX_HEADERS:.*-NOTFOUND' "$1/CMakeCache.txt" && [ -d build/headers/nvtx ]; then
    cmake "$1" >&2
  fi
}

# Sees to it that build/release is configured. What scripts/test has made there stays as it is: to switch warnings from
# errors to warnings would build everything again.
configure_release() {
  [ -f build/release/build.ninja ] || cmake --preset release
}

# Configures and builds one preset as continuous integration does: warnings are errors.
build_preset() {
  cmake --preset "ci-$1" && cmake --build --preset "$1" -j "$JOBS"
}
