// SPDX-License-Identifier: Apache-2.0
//
// Starting the Vulkan backend: which devices it takes and what it tells of them, and every way in which it can't start, each
// with a sentence that names the device and what it lacks.

#include "tests/backends/vulkan_fixture.hpp"

#include <initializer_list>

namespace {

using namespace vulkan_test;

/// The sentence has all of `words`.
void refused(const char *options, weir_result wanted, std::initializer_list<const char *> words) {
  const Backend backend(options);
  WANT(wanted, backend.result);
  for (const char *word : words) {
    if (backend.reason.find(word) == std::string::npos)
      fail_msg("\"%s\" is not in: %s", word, backend.reason.c_str());
  }
  nothing_is_left();
}

/// What the driver calls its first device.
std::string first_name() {
  const Backend backend;
  OK(backend.result);
  return backend.device().name;
}

uint32_t count_of(const Backend &backend) {
  uint32_t count = 0;
  OK(table().device_count(backend.state, &count));
  return count;
}

void no_loader(void **) {
  setenv("WEIR_VULKAN_LIBRARY", "/nowhere/libvulkan.so.1", 1);
  refused("", WEIR_ERROR_NOT_SUPPORTED,
          {"loader is not here", "WEIR_VULKAN_LIBRARY", "/nowhere/libvulkan.so.1"});
  setenv("WEIR_VULKAN_LIBRARY", "libm.so.6", 1);
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"libm.so.6 has no vkGetInstanceProcAddr"});
  setenv("WEIR_VULKAN_LIBRARY", shim_path().c_str(), 1);
}

/// The option names it as the environment does, which comes first.
void the_option_names_the_loader(void **) {
  unsetenv("WEIR_VULKAN_LIBRARY");
  refused("library=/nowhere/libvulkan.so.1", WEIR_ERROR_NOT_SUPPORTED,
          {"loader is not here", "/nowhere/libvulkan.so.1"});
  refused("library=/etc/passwd", WEIR_ERROR_NOT_SUPPORTED, {"loader is not here", "/etc/passwd"});
  refused("library=libm.so.6", WEIR_ERROR_NOT_SUPPORTED,
          {"libm.so.6 has no vkGetInstanceProcAddr", "no Vulkan loader"});
  refused("library=", WEIR_ERROR_INVALID_ARGUMENT, {"library=\"\"", "file of a Vulkan loader"});
  {
    const Backend backend(("memory=64M;library=" + shim_path()).c_str());
    OK(backend.result);
    assert_int_equal(shim().calls("vkCreateInstance"), 1);
  }
  nothing_is_left();
  setenv("WEIR_VULKAN_LIBRARY", shim_path().c_str(), 1);
  const Backend backend("memory=64M;library=/nowhere/libvulkan.so.1");
  OK(backend.result);
}

void an_old_loader(void **) {
  pretend("loader=1.1");
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"knows Vulkan 1.1", "1.2 is needed"});
  pretend("missing=vkCreateInstance");
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"has no vkCreateInstance"});
  pretend("missing=vkGetPhysicalDeviceFeatures2");
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"has no vkGetPhysicalDeviceFeatures2"});
}

void no_driver(void **) {
  shim().fail("vkCreateInstance", 1, VK_ERROR_INCOMPATIBLE_DRIVER);
  refused("", WEIR_ERROR_NOT_SUPPORTED,
          {"vkCreateInstance", "VK_ERROR_INCOMPATIBLE_DRIVER", "no driver", "icd.d"});
  pretend("devices=0");
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"no device"});
}

/// Each by its name, and by the device's.
void a_device_lacks_something(void **) {
  const std::string name = first_name();
  const struct {
    const char *kind, *word;
  } lacks[] = {
      {"version=1.1", "Vulkan 1.1, 1.2 is needed"},
      {"timeline=0", "timelineSemaphore"},
      {"address=0", "bufferDeviceAddress"},
      {"local=0", "device-local"},
      {"compute=0", "compute"},
      {"coherent=0", "coherent"},
      {"missing=vkMapMemory", "vkMapMemory"},
      {"missing=vkWaitSemaphores", "vkWaitSemaphores"},
  };
  for (const auto &each : lacks) {
    shim().reset();
    pretend(each.kind);
    refused("cpu=1", WEIR_ERROR_NOT_SUPPORTED, {each.word, name.c_str()});
  }
}

/// A code of vkCreateDevice is told with the device.
void a_device_can_not_be_made(void **) {
  const std::string name = first_name();
  shim().reset();
  shim().fail("vkCreateDevice", 1, VK_ERROR_INITIALIZATION_FAILED);
  refused("", WEIR_ERROR_BACKEND,
          {name.c_str(), "vkCreateDevice", "VK_ERROR_INITIALIZATION_FAILED"});
  shim().fail("vkCreateDevice", 1, VK_ERROR_DEVICE_LOST);
  refused("", WEIR_ERROR_DEVICE_LOST, {name.c_str(), "vkCreateDevice", "VK_ERROR_DEVICE_LOST"});
}

/// A device whose extensions can't be read is not one that has none: it is left out, with the call and its code.
void extensions_that_can_not_be_read(void **) {
  const std::string name = first_name();
  for (const uint64_t nth : {1, 2}) {
    shim().reset();
    shim().fail("vkEnumerateDeviceExtensionProperties", nth, VK_ERROR_OUT_OF_HOST_MEMORY);
    refused("", WEIR_ERROR_NOT_SUPPORTED,
            {name.c_str(), "vkEnumerateDeviceExtensionProperties failed with",
             "VK_ERROR_OUT_OF_HOST_MEMORY"});
  }
  shim().reset();
  pretend("devices=2");
  shim().fail("vkEnumerateDeviceExtensionProperties", 1, VK_ERROR_INITIALIZATION_FAILED);
  Backend backend;
  OK(backend.result);
  assert_int_equal(count_of(backend), 1);
  assert_true(
      backend.log.has("vkEnumerateDeviceExtensionProperties failed with "
                      "VK_ERROR_INITIALIZATION_FAILED"));
  assert_true((backend.device().capabilities & WEIR_CAP_HOST_REGISTER) != 0);
  backend.stop();
  // A list that grows while it is read is read again.
  shim().reset();
  shim().fail("vkEnumerateDeviceExtensionProperties", 2, VK_INCOMPLETE);
  const Backend again;
  OK(again.result);
  assert_true((again.device().capabilities & WEIR_CAP_HOST_REGISTER) != 0);
}

void bad_options(void **) {
  refused("colour=red", WEIR_ERROR_INVALID_ARGUMENT, {"colour", "known", "granule"});
  refused("cpu", WEIR_ERROR_INVALID_ARGUMENT, {"cpu", "'='"});
  refused("cpu=2", WEIR_ERROR_INVALID_ARGUMENT, {"cpu=\"2\"", "0 or 1"});
  refused("memory=much", WEIR_ERROR_INVALID_ARGUMENT, {"memory=\"much\""});
  refused("granule=3M", WEIR_ERROR_INVALID_ARGUMENT, {"granule=\"3M\"", "power of two"});
  refused("granule=0", WEIR_ERROR_INVALID_ARGUMENT, {"granule=\"0\""});
}

/// What an option turns off is off, and says so when it is asked for.
void options(void **) {
  pretend("sparse=1;transfer=1");
  const struct {
    const char *option;
    uint64_t capability;
  } flags[] = {
      {"vmm=0", WEIR_CAP_VMM},
      {"multi_map=0", WEIR_CAP_MULTI_MAP},
      {"map_run=0", WEIR_CAP_MAP_RUN},
      {"batch_copy=0", WEIR_CAP_BATCH_COPY},
      {"register=0", WEIR_CAP_HOST_REGISTER},
      {"transfer_stream=0", WEIR_CAP_TRANSFER_STREAM},
  };
  for (const auto &each : flags) {
    const Backend with("memory=48M"), without(each.option);
    const Backend &backend = without;
    OK(with.result);
    OK(without.result);
    if ((with.device().capabilities & each.capability) == 0) fail_msg("without %s", each.option);
    assert_int_equal(without.device().capabilities & each.capability, 0);
  }
  const Backend backend("memory=48M;granule=128K;granule_large=4M");
  OK(backend.result);
  assert_int_equal(backend.device().memory_total, 48 * MiB);
  assert_int_equal(backend.device().granule, 128 * KiB);
  assert_int_equal(backend.device().granule_large, 4 * MiB);
  // The driver's own is the least.
  const Backend small("granule=16K");
  assert_int_equal(small.device().granule, 64 * KiB);
}

/// A CPU stands behind a GPU, and is taken where it is asked for or where there is nothing else.
void cpus(void **) {
  pretend("devices=2");
  {
    const Backend backend;
    OK(backend.result);
    assert_int_equal(count_of(backend), 2);
    assert_true((backend.device().capabilities & WEIR_CAP_INTEGRATED) != 0);
  }
  pretend("devices=2;gpu=1");
  {
    const Backend backend;
    OK(backend.result);
    assert_int_equal(count_of(backend), 1);
    assert_true(backend.log.has("runs on the CPU"));
    assert_true(backend.log.has("vulkan.cpu=1"));
    assert_int_equal(backend.device().capabilities & WEIR_CAP_INTEGRATED, 0);
  }
  {
    const Backend backend("cpu=1;memory=64M");
    OK(backend.result);
    assert_int_equal(count_of(backend), 2);
  }
}

/// Several devices share host memory by importing it: without the extension one of them is taken, and the others are told.
void several_devices_that_can_not_import(void **) {
  pretend("devices=3;without=VK_EXT_external_memory_host");
  const Backend backend;
  OK(backend.result);
  assert_int_equal(count_of(backend), 1);
  assert_true(backend.log.has("VK_EXT_external_memory_host"));
  assert_int_equal(backend.device().capabilities & WEIR_CAP_HOST_REGISTER, 0);
  void *memory = nullptr;
  OK(table().host_allocate(backend.state, MiB, &memory));
  OK(table().host_free(backend.state, memory, MiB));
}

/// The second device can't be made: the first goes on, and why is told.
void one_of_two_does_not_start(void **) {
  pretend("devices=2");
  shim().fail("vkCreateDevice", 2, VK_ERROR_INITIALIZATION_FAILED);
  Backend backend;
  OK(backend.result);
  assert_int_equal(count_of(backend), 1);
  assert_true(backend.log.has("VK_ERROR_INITIALIZATION_FAILED"));
  backend.stop();
  nothing_is_left();
}

void what_a_device_says(void **) {
  pretend("devices=2;identity=1;gpu=1;transfer=2;sparse=1;space=8M;budget=10M;heap=256M");
  Backend backend("memory=128M;cpu=1");
  OK(backend.result);
  for (uint32_t i = 0; i < 2; ++i) {
    const weir_be_device told = backend.device(i);
    assert_true(told.name[0] != '\0');
    assert_string_equal(told.pci_address, i == 0 ? "00ab:10:02.3" : "00ab:11:02.3");
    for (const uint8_t byte : told.uuid) assert_int_equal(byte, i + 1);
    assert_int_equal(told.memory_total, 128 * MiB);
    assert_true((told.capabilities & WEIR_CAP_TRANSFER_STREAM) != 0);
    assert_true((told.capabilities & WEIR_CAP_VMM) != 0);
    assert_true(told.address_space != 0 && told.address_space <= 8 * MiB);
  }
  // The GPU's driver tells how much is free; one on the CPU tells of the machine's memory.
  uint64_t free_bytes = 0, total = 0;
  OK(table().device_memory(backend.state, 1, &free_bytes, &total));
  assert_int_equal(free_bytes, 10 * MiB);
  OK(table().device_memory(backend.state, 0, &free_bytes, &total));
  assert_int_equal(free_bytes, 128 * MiB);
  assert_non_null(std::strstr(table().runtime_version(backend.state), "Vulkan 1."));
  weir_be_link link{};
  link.struct_size = sizeof link;
  OK(table().link_describe(backend.state, 0, 1, &link));
  assert_int_equal(link.kind, WEIR_LINK_NONE);
  OK(table().link_describe(backend.state, WEIR_DEVICE_HOST, 1, &link));
  assert_int_equal(link.kind, WEIR_LINK_PCIE);
  weir_be_device wrong{};
  wrong.struct_size = sizeof wrong;
  WANT(WEIR_ERROR_INVALID_ARGUMENT, table().device_describe(backend.state, 2, &wrong));
  backend.stop();
  nothing_is_left();
}

/// Without sparse buffers there is no virtual memory, and who asks is told what is missing.
void without_sparse_buffers(void **) {
  pretend("sparse=0");
  Backend backend;
  OK(backend.result);
  assert_int_equal(backend.device().granule, 0);
  weir_be_granule granule = 0;
  WANT(WEIR_ERROR_NOT_SUPPORTED, table().granule_create(backend.state, 0, 64 * KiB, 0, &granule));
  assert_non_null(std::strstr(backend.error().c_str(), "sparseBinding"));
  pretend("sparse=1;aliased=0");
  const Backend single;
  assert_int_equal(single.device().capabilities & WEIR_CAP_MULTI_MAP, 0);
  assert_true((single.device().capabilities & WEIR_CAP_VMM) != 0);
}

}  // namespace

int main() {
  const int cannot = prepare();
  if (cannot != 0) return cannot;
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(no_loader, fresh),
      cmocka_unit_test_setup(the_option_names_the_loader, fresh),
      cmocka_unit_test_setup(an_old_loader, fresh),
      cmocka_unit_test_setup(no_driver, fresh),
      cmocka_unit_test_setup(a_device_lacks_something, fresh),
      cmocka_unit_test_setup(a_device_can_not_be_made, fresh),
      cmocka_unit_test_setup(extensions_that_can_not_be_read, fresh),
      cmocka_unit_test_setup(bad_options, fresh),
      cmocka_unit_test_setup(options, fresh),
      cmocka_unit_test_setup(cpus, fresh),
      cmocka_unit_test_setup(several_devices_that_can_not_import, fresh),
      cmocka_unit_test_setup(one_of_two_does_not_start, fresh),
      cmocka_unit_test_setup(what_a_device_says, fresh),
      cmocka_unit_test_setup(without_sparse_buffers, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
