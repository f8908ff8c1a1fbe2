// SPDX-License-Identifier: Apache-2.0
//
// One table of the vendors; names of files and packages follow from it by the rules of cmake/WeirLibrary.cmake and WeirPackages.cmake.
#include "backend_packages.hpp"

#include "choices.hpp"

#include <weir/backend.h>
#include <weir/weir.h>

#include <dlfcn.h>

#include <algorithm>

namespace weir::tool {
namespace {

constexpr struct {
  const char *name;
  const char *devices;
} vendors[] = {
    {"cuda", "CUDA (NVIDIA)"},
    {"hip", "HIP (AMD)"},
    {"level_zero", "Level Zero (Intel)"},
    {"vulkan", "Vulkan (any vendor)"},
    {"opencl", "OpenCL (any vendor)"},
};

const std::string abi = std::to_string(WEIR_BACKEND_ABI_MAJOR);

std::string package_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "weir-backend" + abi + "-" + name;
}

}  // namespace

std::vector<MissingBackend> missing_backends(const std::vector<std::string> &found,
                                             std::string_view folder) {
  std::vector<MissingBackend> missing;
  for (const auto &vendor : vendors) {
    const std::string name = vendor.name;
    if (std::find(found.begin(), found.end(), name) != found.end()) continue;
    const std::string file = "libweir_backend_" + name + ".so";
    missing.push_back({name, vendor.devices,
                       folder.empty() ? file : std::string(folder) + "/" + file, package_of(name)});
  }
  return missing;
}

std::string plugin_folder() {
  // The library's own, where it is one; what this program has of a function's address may be a jump to it.
  const void *inside = dlsym(RTLD_DEFAULT, "weir_version_string");
  if (inside == nullptr) inside = reinterpret_cast<const void *>(&weir_version_string);
  Dl_info about{};
  if (dladdr(inside, &about) == 0 || about.dli_fname == nullptr) return "";
  const std::string file = about.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash) + "/weir/" + abi;
}

Choices backend_choices() {
  Choices names = {"host"};
  for (const auto &vendor : vendors) names.emplace_back(vendor.name);
  return names;
}

}  // namespace weir::tool
