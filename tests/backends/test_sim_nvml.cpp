// SPDX-License-Identifier: Apache-2.0
//
// The simulated NVML: what it says of links follows WEIR_SIM.

#include "tests/support/cmocka.hpp"

#include "backends/cuda/abi.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

namespace nvml = weir::cuda::nvml;

struct Library {
  Library() {
    const char *folder = std::getenv("WEIR_LIB_DIR");
    const std::string path =
        std::string(folder != nullptr ? folder : "lib") + "/drivers/libweir_sim_nvml.so";
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) fail_msg("%s", dlerror());
#define WEIR_LOAD(function)                          \
  {                                                  \
    void *found = dlsym(handle, #function);          \
    assert_non_null(found);                          \
    std::memcpy(&function, &found, sizeof function); \
  }
    WEIR_NVML_ENTRIES(WEIR_LOAD)
#undef WEIR_LOAD
  }
#define WEIR_MEMBER(function) nvml::fn::function *function = nullptr;
  WEIR_NVML_ENTRIES(WEIR_MEMBER)
#undef WEIR_MEMBER

  nvml::Device device(const char *address) const {
    nvml::Device found = nullptr;
    assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(address, &found), nvml::success);
    return found;
  }
};

void test_ring(void **) {
  const Library ml;
  assert_int_equal(setenv("WEIR_SIM", "devices=4;memory=4M;links=ring", 1), 0);
  nvml::Device device = nullptr;
  assert_int_equal(ml.nvmlDeviceGetHandleByPciBusId_v2("0000:10:00.0", &device),
                   nvml::uninitialized);
  assert_int_equal(ml.nvmlInit_v2(), nvml::success);
  assert_int_equal(ml.nvmlDeviceGetHandleByPciBusId_v2("0000:14:00.0", &device), nvml::not_found);
  device = ml.device("00000000:11:00.0");
  unsigned links = 0;
  bool to_first = false;
  bool to_third = false;
  for (int active = 0; ml.nvmlDeviceGetNvLinkState(device, links, &active) == nvml::success;
       ++links) {
    assert_int_equal(active, nvml::feature_enabled);
    nvml::PciInfo remote{};
    assert_int_equal(ml.nvmlDeviceGetNvLinkRemotePciInfo_v2(device, links, &remote), nvml::success);
    to_first = to_first || std::strcmp(remote.id, "00000000:10:00.0") == 0;
    to_third = to_third || remote.bus == 0x12;
    assert_int_not_equal(remote.bus, 0x13);  // the one opposite
  }
  assert_int_equal(links, 4);
  assert_true(to_first && to_third);
  nvml::FieldValue speed{};
  speed.field = nvml::field_nvlink_speed;
  assert_int_equal(ml.nvmlDeviceGetFieldValues(device, 1, &speed), nvml::success);
  assert_int_equal(speed.result, nvml::success);
  assert_true(speed.value.as_uint > 0);
  assert_int_equal(ml.nvmlShutdown(), nvml::success);
  assert_int_equal(ml.nvmlShutdown(), nvml::uninitialized);
}

void test_no_links(void **) {
  const Library ml;
  assert_int_equal(setenv("WEIR_SIM", "devices=2", 1), 0);
  assert_int_equal(ml.nvmlInit_v2(), nvml::success);
  int active = 0;
  assert_int_equal(ml.nvmlDeviceGetNvLinkState(ml.device("0000:10:00.0"), 0, &active),
                   nvml::not_supported);
  unsigned width = 0;
  assert_int_equal(ml.nvmlDeviceGetMaxPcieLinkWidth(ml.device("0000:10:00.0"), &width),
                   nvml::success);
  assert_int_equal(width, 16);
  assert_int_equal(ml.nvmlShutdown(), nvml::success);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(test_ring), cmocka_unit_test(test_no_links)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
