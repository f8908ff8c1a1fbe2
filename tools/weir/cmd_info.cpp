// SPDX-License-Identifier: Apache-2.0
//
// `weir info`: version, build, interface versions, the system's limits that matter to Weir, options
// in force. It starts no backend, so that it works where nothing else does.
#include "commands.hpp"
#include "error.hpp"
#include "text.hpp"

#include <weir/backend.h>
#include <weir/weir.h>

#include <nlohmann/json.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *environment[] = {
#define WEIR_ENVIRONMENT(name, meaning) #name,
#include "environment.def"
#undef WEIR_ENVIRONMENT
};

/// Null if the system does not tell.
Json max_map_count() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  uint64_t count = 0;
  return file >> count ? Json(count) : Json(nullptr);
}

/// Null means no limit.
Json limit(int resource) {
  rlimit value{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &value) != 0 ||
      value.rlim_cur == RLIM_INFINITY)
    return nullptr;
  return value.rlim_cur;
}

std::string compiler() {
#if defined(__clang__)
  return "Clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#else
  return "GCC " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
         std::to_string(__GNUC_PATCHLEVEL__);
#endif
}

std::string build_kind() {
  std::string kind;
#if defined(NDEBUG)
  kind = "release";
#else
  kind = "with assertions";
#endif
#if defined(__SANITIZE_ADDRESS__)
  kind += ", AddressSanitizer";
#endif
#if defined(__SANITIZE_THREAD__)
  kind += ", ThreadSanitizer";
#endif
  return kind;
}

Json info_json() {
  Json json;
  json["version"] = weir_version_string();
  json["build"] = {{"compiler", compiler()}, {"kind", build_kind()}};
  json["abi"] = {{"library", WEIR_VERSION_MAJOR}, {"backend", WEIR_BACKEND_ABI_MAJOR}};
  json["limits"] = {{"vm.max_map_count", max_map_count()},
                    {"memlock_bytes", limit(RLIMIT_MEMLOCK)},
                    {"address_space_bytes", limit(RLIMIT_AS)},
                    {"open_files", limit(RLIMIT_NOFILE)},
                    {"page_bytes", sysconf(_SC_PAGESIZE)},
                    {"memory_bytes", static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                         static_cast<uint64_t>(sysconf(_SC_PAGESIZE))}};
  Json options = Json::object();
  for (const char *name : environment) {
    const char *value = std::getenv(name);
    if (value != nullptr) options[name] = value;
  }
  json["options"] = options;
  return json;
}

std::string limit_text(const Json &value, bool bytes) {
  if (value.is_null()) return "no limit";
  return bytes ? format_bytes(value.get<uint64_t>()) : std::to_string(value.get<uint64_t>());
}

void print(const Json &json) {
  std::printf("weir %s, built with %s, %s\n", json["version"].get<std::string>().c_str(),
              json["build"]["compiler"].get<std::string>().c_str(),
              json["build"]["kind"].get<std::string>().c_str());
  std::printf("interfaces: library %d, backends %d\n", json["abi"]["library"].get<int>(),
              json["abi"]["backend"].get<int>());
  const Json &limits = json["limits"];
  std::printf(
      "limits: vm.max_map_count %s, locked memory %s, address space %s, open files %s, memory %s\n",
      limits["vm.max_map_count"].is_null() ? "unknown"
                                           : limit_text(limits["vm.max_map_count"], false).c_str(),
      limit_text(limits["memlock_bytes"], true).c_str(),
      limit_text(limits["address_space_bytes"], true).c_str(),
      limit_text(limits["open_files"], false).c_str(),
      format_bytes(limits["memory_bytes"]).c_str());
  if (json["options"].empty()) std::printf("options: none\n");
  for (const auto &[name, value] : json["options"].items())
    std::printf("options: %s=%s\n", name.c_str(), value.get<std::string>().c_str());
}

}  // namespace

int run_info(bool json) {
  const Json info = info_json();
  if (json)
    std::printf("%s\n", info.dump(2).c_str());
  else
    print(info);
  if (std::fflush(stdout) != 0) throw ToolError("cannot write to standard output");
  return 0;
}

}  // namespace weir::tool
