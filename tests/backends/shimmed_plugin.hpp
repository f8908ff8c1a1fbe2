// SPDX-License-Identifier: Apache-2.0
//
// What tests of a backend over a shim have in common: a plugin and a shim are loaded by path, what start() logged, and a host function that
// waits.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace shimmed {

inline constexpr int skipped = 77;
inline constexpr uint64_t KiB = uint64_t{1} << 10U, MiB = uint64_t{1} << 20U;

inline std::string in_build(const std::string &path) {
  const char *folder = std::getenv("WEIR_LIB_DIR");
  return std::string(folder != nullptr ? folder : "build/release/lib") + "/" + path;
}
inline void *open_library(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  return library;
}

template <class Function>
Function *function_of(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s\n", name);
    std::abort();
  }
  Function *function = nullptr;
  std::memcpy(&function, &found, sizeof found);
  return function;
}

/// A host function that waits until it is let go.
struct Gate {
  std::atomic<bool> reached{false}, open{false};
  static void run(void *self) {
    auto &gate = *static_cast<Gate *>(self);
    gate.reached = true;
    gate.reached.notify_all();
    gate.open.wait(false);
  }
  void release() {
    open = true;
    open.notify_all();
  }
};

/// What start() logged.
struct Log {
  std::vector<std::string> lines;
  static void take(void *self, int32_t, const char *line) {
    static_cast<Log *>(self)->lines.emplace_back(line);
  }
  bool has(const char *text) const {
    for (const std::string &line : lines)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }
};

}  // namespace shimmed
