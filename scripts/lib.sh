# SPDX-License-Identifier: Apache-2.0
#
# Shared by the scripts of this folder: sourced, never run. It puts the caller into the repository's root,
# installs what a bare Debian 12 or Ubuntu 24.04 lacks, and names the number of parallel jobs. It must not
# touch the network when nothing is missing.

set -euo pipefail
CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.."

BUILD_PACKAGES=(g++ cmake ninja-build pkg-config libxxhash-dev libcmocka-dev liblz4-dev libzstd-dev
                liburing-dev libssl-dev libhwloc-dev nlohmann-json3-dev libcli11-dev libcairo2-dev python3)
# libze: the loader and the headers of Level Zero, for its backend on a simulated driver.
TEST_PACKAGES=(clang-format-14 python3-pip libze-dev libze1)
# What makes and tries packages.
PACKAGE_PACKAGES=(dpkg-dev file debootstrap)

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

# Configures and builds one preset.
build_preset() {
  cmake --preset "$1" && cmake --build --preset "$1" -j "$JOBS"
}
