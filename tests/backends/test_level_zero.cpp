// SPDX-License-Identifier: Apache-2.0
//
// The Level Zero backend over the real loader and the simulated driver: why it is not available, and what it tells of devices. Memory,
// and streams with their fences, have programs of their own. What only a new process can show runs in one: this program again,
// with --child.

#include "tests/backends/level_zero_fixture.hpp"

#include <sys/wait.h>

#include <array>

using namespace level_zero_test;

namespace {

// ---- in processes of their own

/// Starts a state and prints what came of it and how many calls the driver has seen besides zeInit.
int child_start(bool fail_init) {
  if (fail_init) sim().fail("zeInit", 1, abi::error_uninitialized);
  weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr, nullptr};
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  const weir_result result = table().start(&desc, &state, &reason);
  std::printf("result %d: %s", result, reason != nullptr ? reason : "(no reason)");
  if (fail_init) {
    std::printf(" [%llu other calls]",
                static_cast<unsigned long long>(sim().calls(nullptr) - sim().calls("zeInit")));
  }
  return 0;
}

/// Starts twice, as a program with two contexts does; the first state, if there is one, has ended.
int child_twice() {
  for (int i = 0; i < 2; ++i) {
    weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr, nullptr};
    weir_be_state *state = nullptr;
    const char *reason = nullptr;
    const weir_result result = table().start(&desc, &state, &reason);
    std::printf("%d;", result);
    if (result == WEIR_SUCCESS) table().stop(state);
  }
  return 0;
}

/// Reserves where the loader itself checks arguments.
int child_validated() {
  Backend backend;
  uint64_t address = 0;
  const weir_result result = backend->range_reserve(backend.state, 0, 4 * MiB, 2 * MiB, &address);
  std::printf("result %d at %s", result, address != 0 ? "an address" : "nothing");
  return backend->range_free(backend.state, 0, address, 4 * MiB);
}

/// What system management adds.
int child_sysman() {
  Backend backend;
  weir_be_link link{};
  link.struct_size = sizeof link;
  (void)backend->link_describe(backend.state, 0, 1, &link);
  uint64_t available = 0, total = 0;
  (void)backend->device_memory(backend.state, 0, &available, &total);
  std::printf("kind %u, %llu of %llu", link.kind, static_cast<unsigned long long>(available / MiB),
              static_cast<unsigned long long>(total / MiB));
  return 0;
}

int run_child(const std::string &what) {
  if (what == "start") return child_start(false);
  if (what == "fail") return child_start(true);
  if (what == "twice") return child_twice();
  if (what == "validated") return child_validated();
  return child_sysman();
}

std::string child(const std::string &environment, const std::string &what) {
  std::array<char, 4096> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) <= 0) std::abort();
  const std::string command = environment + " '" + self.data() + "' --child " + what;
  FILE *output = popen(command.c_str(), "r");
  if (output == nullptr) std::abort();
  std::array<char, 1024> text{};
  const size_t length = fread(text.data(), 1, text.size() - 1, output);
  const int status = pclose(output);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fail_msg("the child '%s' ended with %d: %s", what.c_str(), status, text.data());
  }
  return {text.data(), length};
}

void no_loader(void **) {
  const std::string said = child("WEIR_LEVEL_ZERO_LIBRARY=/nowhere/libze.so", "start");
  assert_says(said, "result -3: the Level Zero loader is not here: WEIR_LEVEL_ZERO_LIBRARY: ");
  assert_says(said, "/nowhere/libze.so");
}

void no_such_library(void **) {
  assert_says(child("WEIR_LEVEL_ZERO_LIBRARY=libc.so.6", "start"), "libc.so.6 has no zeInit");
}

void no_driver(void **) {
  const std::string said = child("ZE_ENABLE_ALT_DRIVERS=/nowhere/libze_gpu.so", "start");
  assert_says(said, "result -3: ");
  assert_says(said, "driver");
}

void failed_init_is_the_last_call(void **) {
  const std::string said = child("", "fail");
  assert_says(said, "result -3: zeInit failed with ZE_RESULT_ERROR_UNINITIALIZED (0x78000001)");
  assert_says(said, "[0 other calls]");
}

/// Loader 1.20 crashed there, where there is no driver, and lost the one that there is.
void started_again(void **) {
  assert_string_equal(child("ZE_ENABLE_ALT_DRIVERS=/nowhere/libze_gpu.so", "twice").c_str(),
                      "-3;-3;");
  assert_string_equal(child("", "twice").c_str(), "0;0;");
}

void loader_that_checks(void **) {
  assert_string_equal(
      child("ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1", "validated").c_str(),
      "result 0 at an address");
}

void with_sysman(void **) {
  assert_string_equal(
      child("ZES_ENABLE_SYSMAN=1 WEIR_SIM_ZE=tiles=2 WEIR_SIM='devices=2;memory=64M;links=nvlink'",
            "sysman")
          .c_str(),
      "kind 5, 64 of 64");
  assert_says(child("WEIR_SIM_ZE=tiles=2 WEIR_SIM='devices=2;memory=64M;links=pcie'", "sysman"),
              "kind 2,");
}

// ---- devices

void integrated_devices_say_so(void **) {
  machine("integrated=1");
  const Backend backend;
  assert_int_not_equal(describe(backend, 0).capabilities & WEIR_CAP_INTEGRATED, 0);
}

void devices(void **) {
  machine("devices=2;memory=64M;links=nvlink;link_bandwidth=20G;peer_bandwidth=50G");
  {
    Backend backend("peer_cards=1");
    uint32_t count = 0;
    assert_ok(backend, backend->device_count(backend.state, &count));
    assert_int_equal(count, 2);
    const weir_be_device found = describe(backend, 1);
    assert_string_equal(found.name, "Simulated Level Zero device 1");
    assert_string_equal(found.pci_address, "0000:19:00.0");
    assert_int_equal(found.uuid[15], 2);
    assert_int_equal(found.memory_total, 64 * MiB);
    assert_int_equal(found.granule, 2 * MiB);
    assert_int_equal(found.granule_large, 32 * MiB);
    assert_int_equal(found.capabilities, WEIR_CAP_VMM | WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE |
                                             WEIR_CAP_HOST_REGISTER | WEIR_CAP_HOST_CALL |
                                             WEIR_CAP_MAP_RUN | WEIR_CAP_ACCESS_LATER |
                                             WEIR_CAP_TRANSFER_STREAM);
    assert_string_equal(backend->runtime_version(backend.state), "1.4, driver 0x01030000");
    assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "device 2 of 2",
                   backend->device_describe(backend.state, 2, nullptr));

    weir_be_link link{};
    link.struct_size = sizeof link;
    assert_ok(backend, backend->link_describe(backend.state, 0, WEIR_DEVICE_HOST, &link));
    assert_int_equal(link.kind, WEIR_LINK_PCIE);
    assert_int_equal(link.bandwidth, 20'000'000'000);
    assert_ok(backend, backend->link_describe(backend.state, 0, 1, &link));
    assert_int_equal(link.kind, WEIR_LINK_XE);
    assert_int_equal(link.bandwidth, 50'000'000'000);
    assert_int_equal(link.direct, 1);
    assert_ok(backend, backend->link_describe(backend.state, 1, 1, &link));
    assert_int_equal(link.kind, WEIR_LINK_SAME);
    assert_ok(backend, backend->peer_enable(backend.state, 0, 1));
  }
  assert_clean();
}

void bandwidth_in_clocks(void **) {
  machine("devices=2;links=nvlink;peer_bandwidth=48G", "units=clock;tiles=2");
  {
    Backend backend;
    weir_be_link link{};
    link.struct_size = sizeof link;
    assert_ok(backend, backend->link_describe(backend.state, 0, 1, &link));
    assert_int_equal(link.bandwidth, 48'000'000'000);
  }
  assert_clean();
}

void options(void **) {
  machine("devices=2;memory=64M");
  {
    Backend backend("vmm=0;peer=0;register=0;transfer_stream=0");
    const weir_be_device found = describe(backend, 0);
    assert_int_equal(found.capabilities, WEIR_CAP_HOST_CALL);
    assert_int_equal(found.granule, 0);
    uint64_t number = 0;
    weir_be_link link{};
    link.struct_size = sizeof link;
    assert_ok(backend, backend->link_describe(backend.state, 0, 1, &link));
    assert_int_equal(link.kind, WEIR_LINK_NONE);
    assert_int_equal(link.direct, 0);
    assert_refused(backend, WEIR_ERROR_NOT_SUPPORTED, "vmm=0",
                   backend->granule_create(backend.state, 0, 2 * MiB, 0, &number));
    assert_refused(backend, WEIR_ERROR_NOT_SUPPORTED, "peer=0",
                   backend->peer_enable(backend.state, 0, 1));
    assert_refused(backend, WEIR_ERROR_NOT_SUPPORTED, "register=0",
                   backend->host_register(backend.state, &number, 4096));
  }
  {
    Backend backend("granule_large=4M");
    assert_int_equal(describe(backend, 0).granule_large, 4 * MiB);
  }
  {
    Backend backend("granule_large=3M");
    assert_int_equal(describe(backend, 0).granule_large, 0);
  }
  const struct {
    const char *text, *reason;
  } bad[] = {{"colour=red", "unknown option \"colour\" (known: vmm, "},
             {"vmm=2", "option vmm=\"2\": 0 or 1 is needed"},
             {"context=zero", "option context=\"zero\""},
             {"context=0", "option context=\"0\""},
             {"driver=7", "option driver=7: there are 1 drivers"}};
  for (const auto &each : bad) {
    weir_be_start desc{sizeof desc, 0, each.text, nullptr, nullptr, nullptr};
    weir_be_state *state = nullptr;
    const char *reason = nullptr;
    assert_int_equal(table().start(&desc, &state, &reason), WEIR_ERROR_INVALID_ARGUMENT);
    assert_says(reason, each.reason);
  }
  assert_clean();
}

void no_gpu_left(void **) {
  machine("devices=1");
  sim().fail("zeDeviceGet", 1, abi::error_device_lost);
  weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr, nullptr};
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  assert_int_equal(table().start(&desc, &state, &reason), WEIR_ERROR_NOT_SUPPORTED);
  assert_says(reason, "none of them has a GPU");
  assert_clean();
}

void driver_without_vmm(void **) {
  machine("devices=1;vmm=0");
  {
    Backend backend;
    assert_int_equal(describe(backend, 0).granule, 0);
    assert_int_equal(describe(backend, 0).capabilities & WEIR_CAP_VMM, 0);
  }
  assert_int_equal(sim().alive(nullptr), 0);
}

void small_pages(void **) {
  machine("devices=1;granule=64K");
  {
    Backend backend;
    assert_int_equal(describe(backend, 0).granule % (64 << 10), 0);
  }
  machine("devices=1;granule=4K");
  {
    Backend backend;
    assert_true(describe(backend, 0).granule >= 64 << 10);
  }
  assert_clean();
}

void states_are_apart(void **) {
  machine("devices=1;memory=64M");
  {
    Backend one, two;
    weir_be_granule granule = 0;
    assert_ok(one, one->granule_create(one.state, 0, 2 * MiB, 0, &granule));
    assert_int_equal(two->granule_destroy(two.state, 0, granule), WEIR_ERROR_INVALID_ARGUMENT);
    one.stop();
    assert_ok(two, two->granule_create(two.state, 0, 2 * MiB, 0, &granule));
  }
  assert_clean();
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return run_child(argv[2]);
  if (!prepare("test_level_zero")) return skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(no_loader),
      cmocka_unit_test(no_such_library),
      cmocka_unit_test(no_driver),
      cmocka_unit_test(failed_init_is_the_last_call),
      cmocka_unit_test(started_again),
      cmocka_unit_test(loader_that_checks),
      cmocka_unit_test(with_sysman),
      cmocka_unit_test(devices),
      cmocka_unit_test(integrated_devices_say_so),
      cmocka_unit_test(bandwidth_in_clocks),
      cmocka_unit_test(options),
      cmocka_unit_test(no_gpu_left),
      cmocka_unit_test(driver_without_vmm),
      cmocka_unit_test(small_pages),
      cmocka_unit_test(states_are_apart),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
