// SPDX-License-Identifier: Apache-2.0
//
// Finding functions by their names.

#include "backends/vulkan/api.hpp"

namespace weir::vulkan {
namespace {

template <class Get, class Owner, class Function>
bool find_one(Get get, Owner owner, const char *name, Function *function, const char **missing) {
  *function = reinterpret_cast<Function>(get(owner, name));
  if (*function == nullptr) *missing = name;
  return *function != nullptr;
}

}  // namespace

bool Loader::open(const std::string &path, std::string *reason) {
  std::string why;
  const char *name = path.empty() ? "libvulkan.so.1" : path.c_str();
  if (!library.open("WEIR_VULKAN_LIBRARY", {name}, &why)) {
    *reason = "the Vulkan loader is not here: " + why;
    return false;
  }
  if (!library.find("vkGetInstanceProcAddr", &get)) {
    *reason = library.name() + " has no vkGetInstanceProcAddr: it is no Vulkan loader";
    return false;
  }
  bool complete = true;
  const char *missing = nullptr;
#define FIND(name) complete = complete && find_one(get, VkInstance{}, "vk" #name, &name, &missing);
  WEIR_VULKAN_GLOBAL(FIND)
#undef FIND
  if (!complete)
    *reason = library.name() + " has no " + missing + ": a loader of Vulkan 1.2 is needed";
  return complete;
}

bool InstanceApi::find(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char **missing) {
  bool complete = true;
#define FIND(name) complete = complete && find_one(get, instance, "vk" #name, &name, missing);
  WEIR_VULKAN_INSTANCE(FIND)
#undef FIND
  return complete;
}

bool DeviceApi::find(PFN_vkGetDeviceProcAddr get, VkDevice device, const char **missing) {
  bool complete = true;
#define FIND(name) complete = complete && find_one(get, device, "vk" #name, &name, missing);
  WEIR_VULKAN_DEVICE(FIND)
#undef FIND
  const char *absent = nullptr;
#define FIND(name) (void)find_one(get, device, "vk" #name, &name, &absent);
  WEIR_VULKAN_OPTIONAL(FIND)
#undef FIND
  return complete;
}

}  // namespace weir::vulkan
