// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the simulated Level Zero driver stand on: the real loader with our driver behind it, and a rig with a
// machine, a context and short ways to make things. Everything goes through the loader's functions. A test that ends
// without having said how much misuse it made has made none, and has left nothing alive.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>

#include "tests/drivers/level_zero/control.h"
#include "tests/drivers/sim/control.h"
#include "tests/support/cmocka.hpp"

namespace weir::test {

// clang-format off
#define WEIR_TEST_ZE_FUNCTIONS(X) \
  X(zeInit) X(zeDriverGet) \
  X(zeDriverGetApiVersion) X(zeDriverGetExtensionProperties) \
  X(zeDriverGetExtensionFunctionAddress) X(zeDeviceGet) \
  X(zeDeviceGetProperties) X(zeDeviceGetMemoryProperties) \
  X(zeDeviceGetCommandQueueGroupProperties) X(zeDeviceGetP2PProperties) \
  X(zeDeviceCanAccessPeer) X(zeDevicePciGetPropertiesExt) \
  X(zeDeviceGetStatus) X(zeContextCreate) \
  X(zeContextDestroy) X(zeContextGetStatus) \
  X(zeVirtualMemQueryPageSize) X(zeVirtualMemReserve) \
  X(zeVirtualMemFree) X(zeVirtualMemMap) \
  X(zeVirtualMemUnmap) X(zeVirtualMemSetAccessAttribute) \
  X(zeVirtualMemGetAccessAttribute) X(zePhysicalMemCreate) \
  X(zePhysicalMemDestroy) X(zeMemAllocDevice) \
  X(zeMemAllocHost) X(zeMemAllocShared) \
  X(zeMemFree) X(zeMemGetAllocProperties) \
  X(zeMemGetAddressRange) X(zeCommandListCreateImmediate) \
  X(zeCommandListDestroy) X(zeCommandListAppendMemoryCopy) \
  X(zeCommandListAppendMemoryFill) X(zeCommandListAppendBarrier) \
  X(zeCommandListAppendWaitOnEvents) X(zeCommandListAppendSignalEvent) \
  X(zeCommandListAppendEventReset) X(zeEventPoolCreate) \
  X(zeEventPoolDestroy) X(zeEventCreate) \
  X(zeEventDestroy) X(zeEventHostSignal) \
  X(zeEventHostReset) X(zeEventQueryStatus) \
  X(zeEventHostSynchronize) X(zesDevicePciGetProperties) \
  X(zesDeviceEnumMemoryModules) X(zesMemoryGetState) \
  X(zesDeviceEnumFabricPorts) X(zesFabricPortGetProperties) \
  X(zesFabricPortGetState)
// clang-format on

#define WEIR_TEST_SIM_FUNCTIONS(X) \
  X(weir_sim_configure)            \
  X(weir_sim_complaint)            \
  X(weir_sim_fail)                 \
  X(weir_sim_calls)                \
  X(weir_sim_misuse)               \
  X(weir_sim_lose_device)          \
  X(weir_sim_alive)                \
  X(weir_sim_resume) X(weir_sim_level_zero_unregistered) X(weir_sim_level_zero_busy_lists)

/// The driver of the same build as the test.
inline std::string driver_path() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib/drivers/libweir_sim_level_zero.so";
}

/// The loader's functions and the driver's control, found once for the program.
struct Ze {
#define WEIR_TEST_MEMBER(name) decltype(&::name) name = nullptr;
  WEIR_TEST_ZE_FUNCTIONS(WEIR_TEST_MEMBER)
  WEIR_TEST_SIM_FUNCTIONS(WEIR_TEST_MEMBER)
#undef WEIR_TEST_MEMBER

  /// "" or why the tests can't run. The loader reads the environment when it is opened.
  std::string open() {
    const std::string path = driver_path();
    setenv("ZE_ENABLE_ALT_DRIVERS", path.c_str(), 1);
    setenv("ZES_ENABLE_SYSMAN", "1", 1);
    unsetenv("ZE_ENABLE_LOADER_INTERCEPT");
    unsetenv("WEIR_SIM");
    unsetenv("WEIR_SIM_ZE");
    void *loader = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
    if (loader == nullptr) return dlerror();
    void *driver = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(1);
    }
    std::string missing;
#define WEIR_TEST_FIND(name) find(loader, #name, &name, &missing);
    WEIR_TEST_ZE_FUNCTIONS(WEIR_TEST_FIND)
#undef WEIR_TEST_FIND
#define WEIR_TEST_FIND(name) find(driver, #name, &name, &missing);
    WEIR_TEST_SIM_FUNCTIONS(WEIR_TEST_FIND)
#undef WEIR_TEST_FIND
    return missing;
  }

 private:
  template <class Function>
  static void find(void *library, const char *name, Function *function, std::string *missing) {
    void *found = dlsym(library, name);
    std::memcpy(function, &found, sizeof found);
    if (found == nullptr) *missing = std::string("no function ") + name;
  }
};

inline Ze ze;

/// How much misuse there was; *first tells of the first.
inline uint64_t misuses(std::string *first) {
  const char *text = nullptr;
  const uint64_t count = ze.weir_sim_misuse(&text);
  *first = text != nullptr ? text : "";
  return count;
}

inline void check(ze_result_t result, ze_result_t expected, const char *what, const char *file,
                  int line) {
  if (result == expected) return;
  std::string text;
  misuses(&text);
  print_error("%s: %#x, expected %#x (first misuse: %s)\n", what, static_cast<unsigned>(result),
              static_cast<unsigned>(expected), text.c_str());
  _fail(file, line);
}
#define assert_ze(expected, call) weir::test::check((call), (expected), #call, __FILE__, __LINE__)
#define assert_ok(call) assert_ze(ZE_RESULT_SUCCESS, call)

class Rig {
 public:
  /// A machine of these options, and the driver's own.
  explicit Rig(const char *options = "memory=32M;granule=64K", const char *own = "") {
    setenv("WEIR_SIM_ZE", own, 1);
    if (ze.weir_sim_configure(options) != 0) fail_msg("%s", ze.weir_sim_complaint());
    assert_ok(ze.zeInit(ZE_INIT_FLAG_GPU_ONLY));
    uint32_t count = 1;
    assert_ok(ze.zeDriverGet(&count, &driver));
    count = 0;
    assert_ok(ze.zeDeviceGet(driver, &count, nullptr));
    devices.resize(count);
    assert_ok(ze.zeDeviceGet(driver, &count, devices.data()));
    context = make_context();
  }
  ~Rig() {
    if (left_) return;
    assert_ok(ze.zeContextDestroy(context));
    std::string text;
    if (misuses(&text) != misuse_) fail_msg("misuse that was not expected: %s", text.c_str());
    const char *alive = nullptr;
    if (ze.weir_sim_alive(&alive) != 0) {
      text = alive != nullptr ? alive : "";
      fail_msg("left alive: %s", text.c_str());
    }
  }
  Rig(const Rig &) = delete;
  Rig &operator=(const Rig &) = delete;

  /// One more misuse has been counted; the first of all is about `word`.
  void expect_misuse(const char *word = "") {
    std::string text;
    assert_int_equal(misuses(&text), ++misuse_);
    if (text.find(word) == std::string::npos) {
      fail_msg("\"%s\" does not tell of %s", text.c_str(), word);
    }
  }

  /// The test ends in the middle of things.
  void leave_it_so() { left_ = true; }

  ze_context_handle_t make_context() {
    const ze_context_desc_t desc{ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
    ze_context_handle_t made = nullptr;
    assert_ok(ze.zeContextCreate(driver, &desc, &made));
    return made;
  }
  ze_result_t plain(size_t bytes, void **memory, uint32_t device = 0, const void *next = nullptr) {
    const ze_device_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, next, 0, 0};
    return ze.zeMemAllocDevice(context, &desc, bytes, 0, devices[device], memory);
  }
  char *plain(size_t bytes, uint32_t device = 0) {
    void *memory = nullptr;
    assert_ok(plain(bytes, &memory, device));
    return static_cast<char *>(memory);
  }
  char *host(size_t bytes) {
    const ze_host_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
    void *memory = nullptr;
    assert_ok(ze.zeMemAllocHost(context, &desc, bytes, 0, &memory));
    return static_cast<char *>(memory);
  }
  void free(void *memory) { assert_ok(ze.zeMemFree(context, memory)); }

  ze_result_t physical(size_t bytes, ze_physical_mem_handle_t *made, uint32_t device = 0) {
    ze_physical_mem_desc_t desc{ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, nullptr, 0, bytes};
    return ze.zePhysicalMemCreate(context, devices[device], &desc, made);
  }
  ze_physical_mem_handle_t physical(size_t bytes, uint32_t device = 0) {
    ze_physical_mem_handle_t made = nullptr;
    assert_ok(physical(bytes, &made, device));
    return made;
  }
  char *reserve(size_t bytes) {
    void *memory = nullptr;
    assert_ok(ze.zeVirtualMemReserve(context, nullptr, bytes, &memory));
    return static_cast<char *>(memory);
  }
  ze_result_t map(void *address, size_t bytes, ze_physical_mem_handle_t memory, size_t offset = 0) {
    return ze.zeVirtualMemMap(context, address, bytes, memory, offset,
                              ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE);
  }

  ze_result_t list(const ze_command_queue_desc_t &desc, ze_command_list_handle_t *made,
                   uint32_t device = 0) {
    return ze.zeCommandListCreateImmediate(context, devices[device], &desc, made);
  }
  ze_command_list_handle_t list(uint32_t device = 0, uint32_t group = 0, uint32_t flags = 0,
                                ze_command_queue_mode_t mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS) {
    ze_command_list_handle_t made = nullptr;
    assert_ok(list({ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, group, 0, flags, mode,
                    ZE_COMMAND_QUEUE_PRIORITY_NORMAL},
                   &made, device));
    return made;
  }
  ze_event_pool_handle_t pool(uint32_t count, uint32_t flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE) {
    const ze_event_pool_desc_t desc{ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr, flags, count};
    ze_event_pool_handle_t made = nullptr;
    assert_ok(ze.zeEventPoolCreate(context, &desc, 0, nullptr, &made));
    return made;
  }
  ze_result_t event(ze_event_pool_handle_t pool, uint32_t index, ze_event_handle_t *made) {
    const ze_event_desc_t desc{ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, index,
                               ZE_EVENT_SCOPE_FLAG_HOST, ZE_EVENT_SCOPE_FLAG_HOST};
    return ze.zeEventCreate(pool, &desc, made);
  }
  ze_event_handle_t event(ze_event_pool_handle_t pool, uint32_t index) {
    ze_event_handle_t made = nullptr;
    assert_ok(event(pool, index, &made));
    return made;
  }

  ze_driver_handle_t driver = nullptr;
  std::vector<ze_device_handle_t> devices;
  ze_context_handle_t context = nullptr;

 private:
  uint64_t misuse_ = 0;
  bool left_ = false;
};

/// A pool of events for the length of a test.
class Events {
 public:
  Events(Rig &rig, uint32_t count) : pool_(rig.pool(count)) {
    for (uint32_t i = 0; i < count; ++i) events_.push_back(rig.event(pool_, i));
  }
  ~Events() {
    for (const ze_event_handle_t each : events_) assert_ok(ze.zeEventDestroy(each));
    assert_ok(ze.zeEventPoolDestroy(pool_));
  }
  Events(const Events &) = delete;
  Events &operator=(const Events &) = delete;
  ze_event_handle_t operator[](size_t i) const { return events_[i]; }

 private:
  ze_event_pool_handle_t pool_;
  std::vector<ze_event_handle_t> events_;
};

/// Runs the tests, or says why not (77).
inline int run(const char *name, int (*group)()) {
  const std::string why = ze.open();
  if (why.empty()) return group();
  std::fprintf(stderr, "skipped: %s: Level Zero's loader cannot be used here: %s\n", name,
               why.c_str());
  return 77;
}

}  // namespace weir::test
