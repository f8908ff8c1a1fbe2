# SPDX-License-Identifier: Apache-2.0
#
# What the scripts share that run a backend on drivers of others in another Debian's root (test-opencl, test-vulkan): which of the tests that run on
# vendors' backends these are, and the build for AddressSanitizer. Sourced after lib.sh and roots.sh.

# Lines of the release build's list, NAME LABEL MODE PROGRAM ARGUMENT..., and their programs. The weir command is not among them, nor
# what needs devices that reach each other.
read_vendor_tests() {
  [ -e "$1/vendor-tests.txt" ] || cmake --preset release
  mapfile -t vendor_tests < <(awk '$2 != "tool" && $1 != "test_remote"' "$1/vendor-tests.txt")
  mapfile -t programs < <(awk '$2 != "tool" && $1 != "test_remote" { print $4 }' "$1/vendor-tests.txt" | sort -u)
}

# build_for_asan FOLDER BACKEND: the conformance suite and the plugin. The sanitizer's runtime is in the program, where the plugin finds it; the
# other Debian's own is another. So a plugin is made by CMake's own rule, and behind everything that no runtime is to be linked.
build_for_asan() {
  local rule="<CMAKE_CXX_COMPILER> <LANGUAGE_COMPILE_FLAGS> <CMAKE_SHARED_MODULE_CXX_FLAGS> <LINK_FLAGS> <CMAKE_SHARED_MODULE_CREATE_CXX_FLAGS>"
  rule+=" -o <TARGET> <OBJECTS> <LINK_LIBRARIES> -fno-sanitize=all"
  say "$2: building for AddressSanitizer"
  { cmake -G Ninja -B "$1" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DWEIR_BATCH=8 -DWEIR_SANITIZE=address -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_TOOLS=OFF -DWEIR_BUILD_BENCH=OFF \
      -DWEIR_BUILD_EXAMPLES=OFF "-DCMAKE_EXE_LINKER_FLAGS=-static-libasan -rdynamic" "-DCMAKE_CXX_CREATE_SHARED_MODULE=$rule" &&
    cmake --build "$1" -j "$JOBS" --target weir_conformance "weir_backend_$2"; } >"build/test-$2-build.log" 2>&1 ||
    { tail -n 30 "build/test-$2-build.log" >&2; fail "could not build for AddressSanitizer"; }
}
