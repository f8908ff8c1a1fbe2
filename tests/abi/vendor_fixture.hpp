// SPDX-License-Identifier: Apache-2.0
//
// Contexts as a program makes them on a machine with cards of several vendors: the built-in host backend and the backends'
// libraries by path, on simulated drivers (WEIR_LIB_DIR has them).
#pragma once

#include "tests/abi/pool_fixture.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <initializer_list>

namespace weir::test {

inline std::string in_library(const char *path) {
  return std::string(std::getenv("WEIR_LIB_DIR")) + "/" + path;
}
inline bool exists(const std::string &path) { return access(path.c_str(), R_OK) == 0; }

template <typename Function>
Function *driver(const char *name) {
  void *library = dlopen(in_library("drivers/libweir_sim_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  void *symbol = dlsym(library, name);
  assert_non_null(symbol);
  Function *function = nullptr;
  std::memcpy(&function, &symbol, sizeof symbol);
  return function;
}
inline void configure(const char *options) {
  assert_int_equal(driver<int(const char *)>("weir_sim_configure")(options), 0);
}

/// The backends find the simulated drivers from now on. False: there are none.
inline bool use_simulated_drivers() {
  const std::string cuda = in_library("drivers/libweir_sim_cuda.so");
  if (!exists(cuda)) return false;
  setenv("WEIR_CUDA_LIBRARY", cuda.c_str(), 1);
  setenv("WEIR_HIP_CUDA_LIBRARY", cuda.c_str(), 1);
  setenv("WEIR_HIP_LIBRARY", in_library("drivers/libweir_hip_over_cuda.so").c_str(), 1);
  setenv("ZE_ENABLE_ALT_DRIVERS", in_library("drivers/libweir_sim_level_zero.so").c_str(), 1);
  return true;
}

/// The context of the program's own making: the built-in host backend and these.
inline weir_context open(std::initializer_list<const char *> names, const char *options) {
  static std::vector<std::string> kept;
  kept.clear();
  for (const char *name : names)
    kept.push_back(in_library(("weir/1/libweir_backend_" + std::string(name) + ".so").c_str()));
  std::vector<const char *> paths;
  for (const std::string &path : kept) paths.push_back(path.c_str());
  paths.push_back(nullptr);
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.backend_paths = paths.data();
  desc.options = options;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  return context;
}

inline weir_backend_info info_of(weir_context context, const char *name) {
  uint32_t count = 0;
  ok(weir_backend_count(context, &count));
  for (uint32_t i = 0; i < count; ++i) {
    weir_backend_info info = WEIR_BACKEND_INFO_INIT;
    ok(weir_backend_info_get(context, i, &info));
    if (std::strcmp(info.name, name) == 0) return info;
  }
  fail_msg("no backend %s", name);
  return {};
}

}  // namespace weir::test
