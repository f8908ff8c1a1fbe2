// SPDX-License-Identifier: Apache-2.0
//
// libweir_watched_vulkan.so: stands before a Vulkan loader, counts the calls that the backend makes and notes each while it lasts
// (tests/drivers/watch/notes.hpp), so that scripts/gpu-check can name the call in which a process is stuck, and bench_vulkan can tell
// how many there were. Named by WEIR_VULKAN_LIBRARY; the loader behind it is WEIR_WATCHED_VULKAN_LIBRARY, else libvulkan.so.1. It has the
// loader's look-up function; what is in the backend's lists (backends/vulkan/api.hpp) is watched, all else is the loader's own.

#include "backends/vulkan/api.hpp"
#include "tests/drivers/watch/notes.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace weir::watch {
namespace {

#define WEIR_WATCH_ALL(X) \
  WEIR_VULKAN_GLOBAL(X) WEIR_VULKAN_INSTANCE(X) WEIR_VULKAN_DEVICE(X) WEIR_VULKAN_OPTIONAL(X)

#define WEIR_WATCH_NUMBER(name) number_##name,
enum Number : uint32_t { WEIR_WATCH_ALL(WEIR_WATCH_NUMBER) number_load, number_of_names };
#undef WEIR_WATCH_NUMBER

#define WEIR_WATCH_NAME(name) "vk" #name,
constexpr const char *names[] = {WEIR_WATCH_ALL(WEIR_WATCH_NAME) "dlopen of the loader"};
#undef WEIR_WATCH_NAME

std::atomic<uint64_t> calls[number_of_names];

/// The functions behind are the loader's, found by an instance: they serve every instance and every device.
template <uint32_t Name, class Function>
struct Watched;
template <uint32_t Name, class Answer, class... Arguments>
struct Watched<Name, Answer (*)(Arguments...)> {
  static inline std::atomic<Answer (*)(Arguments...)> real{nullptr};
  static Answer call(Arguments... arguments) {
    const Inside inside(Name);
    calls[Name].fetch_add(1, std::memory_order_relaxed);
    return real.load(std::memory_order_relaxed)(arguments...);
  }
  static PFN_vkVoidFunction stand_before(PFN_vkVoidFunction found) noexcept {
    real.store(reinterpret_cast<Answer (*)(Arguments...)>(found), std::memory_order_relaxed);
    return reinterpret_cast<PFN_vkVoidFunction>(&call);
  }
};

/// What the look-up found, or our function that calls it.
PFN_vkVoidFunction watched(const char *name, PFN_vkVoidFunction found) noexcept {
#define WEIR_WATCH_ENTRY(entry)            \
  if (std::strcmp(name, "vk" #entry) == 0) \
    return Watched<number_##entry, PFN_vk##entry>::stand_before(found);
  WEIR_WATCH_ALL(WEIR_WATCH_ENTRY)
#undef WEIR_WATCH_ENTRY
  return found;
}

struct Behind {
  PFN_vkGetInstanceProcAddr get = nullptr;
  std::atomic<VkInstance> instance{VK_NULL_HANDLE};  ///< the last that was asked by
  Behind() {
    (void)open_notes(names, number_of_names);
    const Inside inside(number_load);
    const char *named = secure_getenv("WEIR_WATCHED_VULKAN_LIBRARY");
    void *library = dlopen(named != nullptr && *named != '\0' ? named : "libvulkan.so.1",
                           RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    void *found = dlsym(library, "vkGetInstanceProcAddr");
    std::memcpy(&get, &found, sizeof get);
  }
};

Behind &behind() {
  static Behind one;
  return one;
}

/// A device has what its driver has; what it has is called by way of the loader.
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL find_of_device(VkDevice device, const char *name) {
  Behind &loader = behind();
  const PFN_vkVoidFunction own =
      Watched<number_GetDeviceProcAddr, PFN_vkGetDeviceProcAddr>::call(device, name);
  if (own == nullptr) return nullptr;
  const PFN_vkVoidFunction found = loader.get(loader.instance.load(), name);
  return found != nullptr ? watched(name, found) : own;
}

}  // namespace
}  // namespace weir::watch

#pragma GCC visibility push(default)
extern "C" {
PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name);
/// Calls of that name since the process began; UINT64_MAX for a name that is not watched.
uint64_t weir_watched_vulkan_calls(const char *name);
}
#pragma GCC visibility pop

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name) {
  using namespace weir::watch;
  Behind &loader = behind();
  if (loader.get == nullptr) return nullptr;
  const PFN_vkVoidFunction found = loader.get(instance, name);
  if (instance != VK_NULL_HANDLE) loader.instance.store(instance);
  if (found == nullptr) return nullptr;
  if (std::strcmp(name, "vkGetInstanceProcAddr") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(&vkGetInstanceProcAddr);
  const PFN_vkVoidFunction mine = watched(name, found);
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(&find_of_device);
  return mine;
}

uint64_t weir_watched_vulkan_calls(const char *name) {
  using namespace weir::watch;
  for (uint32_t i = 0; i < number_of_names; ++i)
    if (std::strcmp(name, names[i]) == 0) return calls[i].load(std::memory_order_relaxed);
  return UINT64_MAX;
}
