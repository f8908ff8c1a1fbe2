// SPDX-License-Identifier: Apache-2.0
//
// The functions, made from the backend's lists: each counts, blocks or fails as told, and goes through otherwise. Objects
// are counted by the calls that make and end them.

#include "tests/drivers/vulkan_shim/shim.hpp"

#include <cstring>
#include <tuple>
#include <type_traits>

namespace weir::vulkan_shim {
namespace {

constexpr Object made_by(Call call) {
  switch (call) {
    case call_CreateInstance:
      return instances;
    case call_CreateDevice:
      return devices;
    case call_CreateBuffer:
      return buffers;
    case call_AllocateMemory:
      return memories;
    case call_CreateSemaphore:
      return semaphores;
    case call_CreateCommandPool:
      return pools;
    default:
      return no_object;
  }
}

constexpr Object ended_by(Call call) {
  switch (call) {
    case call_DestroyInstance:
      return instances;
    case call_DestroyDevice:
      return devices;
    case call_DestroyBuffer:
      return buffers;
    case call_FreeMemory:
      return memories;
    case call_DestroySemaphore:
      return semaphores;
    case call_DestroyCommandPool:
      return pools;
    default:
      return no_object;
  }
}

template <class Handle>
uint64_t number_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) return reinterpret_cast<uintptr_t>(handle);
  return 0;
}

/// A queue is used from here to the end of the call.
template <class First>
struct Use {
  explicit Use(First) {}
};
template <>
struct Use<VkQueue> {
  explicit Use(VkQueue queue) : queue_(queue) { Shim::get().begin_use(queue_); }
  ~Use() { Shim::get().end_use(queue_); }
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;

 private:
  const VkQueue queue_;
};

template <Call call, class Act, class Function>
struct Wrapper;
template <Call call, class Act, class Result, class First, class... Rest>
struct Wrapper<call, Act, Result(VKAPI_PTR *)(First, Rest...)> {
  static VKAPI_ATTR Result VKAPI_CALL run(First first, Rest... rest) {
    const std::tuple<First, Rest...> arguments(first, rest...);
    constexpr size_t count = 1 + sizeof...(Rest);
    Shim &shim = Shim::get();
    [[maybe_unused]] const Use<First> use(first);
    VkResult code = VK_SUCCESS;
    constexpr bool can_fail = std::is_same_v<Result, VkResult>;
    const bool goes_on = shim.enter(call, can_fail ? &code : nullptr);
    if constexpr (can_fail) {
      // A command buffer that could not be ended is none that is being recorded.
      if (!goes_on && call == call_EndCommandBuffer) (void)Act{}(first, rest...);
      if (!goes_on) return code;
      const VkResult result = Act{}(first, rest...);
      if constexpr (made_by(call) != no_object) {
        if (result == VK_SUCCESS) {
          constexpr bool owned = made_by(call) != instances && made_by(call) != devices;
          shim.made(made_by(call), number_of(*std::get<count - 1>(arguments)),
                    owned ? number_of(first) : 0);
        }
      }
      return result;
    } else {
      // Before it is ended, as its handle may be another object's at once.
      if constexpr (ended_by(call) != no_object && std::is_same_v<First, VkDevice>)
        shim.finish(first);
      if constexpr (ended_by(call) != no_object)
        shim.ended(ended_by(call), number_of(std::get < count == 3 ? 1 : 0 > (arguments)));
      return Act{}(first, rest...);
    }
  }
};
template <Call call, class Act>
struct Wrapper<call, Act, PFN_vkEnumerateInstanceVersion> {
  static VKAPI_ATTR VkResult VKAPI_CALL run(uint32_t *version) {
    VkResult code = VK_SUCCESS;
    return Shim::get().enter(call, &code) ? Act{}(version) : code;
  }
};

#define WEIR_SHIM_ACT(name)                         \
  struct Act_##name {                               \
    template <class... Arguments>                   \
    auto operator()(Arguments... arguments) const { \
      return Pretended::name(arguments...);         \
    }                                               \
  };
WEIR_SHIM_CALLS(WEIR_SHIM_ACT)
#undef WEIR_SHIM_ACT

}  // namespace

PFN_vkVoidFunction wrapper_of(const char *name) {
#define WEIR_SHIM_NAMED(each)                    \
  if (std::strcmp(name, "vk" #each) == 0)        \
    return reinterpret_cast<PFN_vkVoidFunction>( \
        Wrapper<call_##each, Act_##each, PFN_vk##each>::run);
  WEIR_SHIM_CALLS(WEIR_SHIM_NAMED)
#undef WEIR_SHIM_NAMED
  return nullptr;
}

namespace {

/// The shim's own in the place of what there is.
PFN_vkVoidFunction instead_of(PFN_vkVoidFunction real, const char *name) {
  if (real == nullptr || Shim::get().pretence().missing == name) return nullptr;
  const PFN_vkVoidFunction own = wrapper_of(name);
  return own != nullptr ? own : real;
}

}  // namespace

PFN_vkVoidFunction Pretended::GetDeviceProcAddr(VkDevice device, const char *name) {
  return instead_of(Shim::get().real().GetDeviceProcAddr.load()(device, name), name);
}

}  // namespace weir::vulkan_shim

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name) {
  using weir::vulkan_shim::Shim;
  if (std::strcmp(name, "vkGetInstanceProcAddr") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(vkGetInstanceProcAddr);
  return weir::vulkan_shim::instead_of(Shim::get().real().get(instance, name), name);
}
