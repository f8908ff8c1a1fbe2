// SPDX-License-Identifier: Apache-2.0
//
// The simulated Level Zero driver behind the real loader: reservations, physical memory and mappings, allocations, whose
// memory it is, and calls that fail because a test says so.
#include "tests/backends/level_zero_rig.hpp"

namespace {

using namespace weir::test;

constexpr size_t K = 1024, M = 1024 * K;

void pages_depend_on_the_size(void **) {
  Rig rig;
  size_t page = 0;
  assert_ok(ze.zeVirtualMemQueryPageSize(rig.context, rig.devices[0], 1, &page));
  assert_int_equal(page, 64 * K);
  assert_ok(ze.zeVirtualMemQueryPageSize(rig.context, rig.devices[0], 5 * M, &page));
  assert_int_equal(page, 2 * M);
  // Sizes are held to their own page.
  void *address = nullptr;
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
            ze.zeVirtualMemReserve(rig.context, nullptr, 2 * M + 64 * K, &address));
  rig.expect_misuse("zeVirtualMemReserve");
  ze_physical_mem_handle_t physical = nullptr;
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, rig.physical(3 * M, &physical));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, rig.physical(4 * K, &physical));
  rig.expect_misuse();
}

void a_driver_with_small_pages_everywhere(void **) {
  Rig rig("memory=32M;granule=64K", "large_page=64K");
  size_t page = 0;
  assert_ok(ze.zeVirtualMemQueryPageSize(rig.context, rig.devices[0], 5 * M, &page));
  assert_int_equal(page, 64 * K);
  const size_t bytes = 2 * M + 64 * K;
  char *range = rig.reserve(bytes);
  const auto physical = rig.physical(bytes);
  assert_ok(rig.map(range, bytes, physical));
  assert_ok(ze.zeVirtualMemUnmap(rig.context, range, bytes));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, physical));
  assert_ok(ze.zeVirtualMemFree(rig.context, range, bytes));
}

void mapping_keeps_to_the_rules(void **) {
  Rig rig;
  char *range = rig.reserve(4 * M);
  assert_int_equal(reinterpret_cast<uintptr_t>(range) % (2 * M), 0);
  const auto a = rig.physical(128 * K), b = rig.physical(64 * K);
  assert_ok(rig.map(range, 64 * K, a, 64 * K));
  // One address for one object, even for another part of it.
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, rig.map(range + 64 * K, 64 * K, a));
  rig.expect_misuse("has an address already");
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, rig.map(range, 64 * K, b));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, rig.map(range + 4 * K, 64 * K, b));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, rig.map(range + 4 * M, 64 * K, b));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, rig.map(range + 64 * K, 128 * K, b));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, ze.zePhysicalMemDestroy(rig.context, a));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, ze.zeVirtualMemUnmap(rig.context, range, 128 * K));
  rig.expect_misuse();
  assert_ok(ze.zeVirtualMemUnmap(rig.context, range, 64 * K));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, a));
  // Freeing a reservation ends its mappings: the API says so.
  assert_ok(rig.map(range, 64 * K, b));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, ze.zeVirtualMemFree(rig.context, range, 2 * M));
  rig.expect_misuse();
  assert_ok(ze.zeVirtualMemFree(rig.context, range, 4 * M));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, b));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, ze.zePhysicalMemDestroy(rig.context, b));
  rig.expect_misuse();
}

void several_addresses_are_an_option(void **) {
  Rig rig("memory=32M;granule=64K", "multi_map=1");
  char *range = rig.reserve(128 * K);
  const auto memory = rig.physical(64 * K);
  assert_ok(rig.map(range, 64 * K, memory));
  assert_ok(rig.map(range + 64 * K, 64 * K, memory));
  range[5] = 42;
  assert_int_equal(range[64 * K + 5], 42);
  assert_ok(ze.zeVirtualMemUnmap(rig.context, range, 64 * K));
  assert_ze(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, ze.zePhysicalMemDestroy(rig.context, memory));
  rig.expect_misuse("is mapped");
  assert_ok(ze.zeVirtualMemUnmap(rig.context, range + 64 * K, 64 * K));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, memory));
  assert_ok(ze.zeVirtualMemFree(rig.context, range, 128 * K));
}

void access_can_be_taken_away(void **) {
  Rig rig("devices=1;memory=32M;granule=64K;mode=strict");
  char *range = rig.reserve(64 * K);
  const auto memory = rig.physical(64 * K);
  assert_ok(rig.map(range, 64 * K, memory));
  char *host = rig.host(4 * K);
  const auto list = rig.list(0, 0, 0, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  const auto copy = [&](void *to, const void *from) {
    return ze.zeCommandListAppendMemoryCopy(list, to, from, 4 * K, nullptr, 0, nullptr);
  };
  assert_ok(copy(range, host));
  assert_ok(ze.zeVirtualMemSetAccessAttribute(rig.context, range, 64 * K,
                                              ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY));
  ze_memory_access_attribute_t access{};
  size_t reach = 0;
  assert_ok(ze.zeVirtualMemGetAccessAttribute(rig.context, range, 64 * K, &access, &reach));
  assert_int_equal(access, ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY);
  assert_int_equal(reach, 64 * K);
  assert_ok(copy(host, range));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, copy(range, host));
  rig.expect_misuse("zeCommandListAppendMemoryCopy");
  assert_ok(ze.zeVirtualMemSetAccessAttribute(rig.context, range, 64 * K,
                                              ZE_MEMORY_ACCESS_ATTRIBUTE_NONE));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, copy(host, range));
  rig.expect_misuse();
  assert_ok(ze.zeVirtualMemUnmap(rig.context, range, 64 * K));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, copy(host, range));
  rig.expect_misuse();
  assert_ok(ze.zeVirtualMemFree(rig.context, range, 64 * K));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, copy(host, range));
  rig.expect_misuse();
  assert_ok(ze.zePhysicalMemDestroy(rig.context, memory));
  assert_ok(ze.zeCommandListDestroy(list));
  rig.free(host);
}

void no_virtual_memory_is_an_answer(void **) {
  Rig rig("memory=32M;vmm=0");
  size_t page = 0;
  void *address = nullptr;
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
            ze.zeVirtualMemQueryPageSize(rig.context, rig.devices[0], 1, &page));
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
            ze.zeVirtualMemReserve(rig.context, nullptr, 2 * M, &address));
}

void allocations_have_limits(void **) {
  Rig rig("memory=32M;granule=64K", "max_alloc=4M");
  void *memory = nullptr;
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, rig.plain(8 * M, &memory));  // no misuse
  const ze_relaxed_allocation_limits_exp_desc_t relaxed{
      ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC, nullptr,
      ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE};
  assert_ok(rig.plain(8 * M, &memory, 0, &relaxed));
  void *more = nullptr;
  assert_ze(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, rig.plain(32 * M, &more, 0, &relaxed));
  ze_physical_mem_handle_t physical = nullptr;
  assert_ze(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, rig.physical(26 * M, &physical));
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, rig.plain(0, &more));
  rig.expect_misuse("size 0");
  const ze_device_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
            ze.zeMemAllocDevice(rig.context, &desc, 64, 3, rig.devices[0], &more));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT,
            ze.zeMemFree(rig.context, static_cast<char *>(memory) + 64));
  rig.expect_misuse();
  rig.free(memory);
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, ze.zeMemFree(rig.context, memory));
  rig.expect_misuse();
  // Shared memory is not there, and the loader says it.
  const ze_host_mem_alloc_desc_t host{ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
  assert_ze(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
            ze.zeMemAllocShared(rig.context, &desc, &host, 64, 0, rig.devices[0], &more));
}

void memory_can_be_asked_about(void **) {
  Rig rig("devices=2;memory=32M;granule=64K");
  char *plain = rig.plain(64 * K, 1), *host = rig.host(4 * K), *range = rig.reserve(64 * K);
  const auto physical = rig.physical(64 * K, 1);
  const auto type = [&](const void *memory, ze_device_handle_t *device) {
    ze_memory_allocation_properties_t properties{};
    properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
    *device = nullptr;
    assert_ok(ze.zeMemGetAllocProperties(rig.context, memory, &properties, device));
    return properties.type;
  };
  ze_device_handle_t device = nullptr;
  assert_int_equal(type(plain + 100, &device), ZE_MEMORY_TYPE_DEVICE);
  assert_ptr_equal(device, rig.devices[1]);
  assert_int_equal(type(host, &device), ZE_MEMORY_TYPE_HOST);
  assert_int_equal(type(&rig, &device), ZE_MEMORY_TYPE_UNKNOWN);
  assert_int_equal(type(range, &device), ZE_MEMORY_TYPE_UNKNOWN);
  assert_ok(rig.map(range, 64 * K, physical));
  assert_int_equal(type(range, &device), ZE_MEMORY_TYPE_DEVICE);
  assert_ptr_equal(device, rig.devices[1]);
  void *base = nullptr;
  size_t size = 0;
  assert_ok(ze.zeMemGetAddressRange(rig.context, plain + 100, &base, &size));
  assert_ptr_equal(base, plain);
  assert_int_equal(size, 64 * K);
  assert_ok(ze.zeVirtualMemFree(rig.context, range, 64 * K));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, physical));
  rig.free(plain);
  rig.free(host);
}

void memory_belongs_to_its_context(void **) {
  Rig rig;
  const auto other = rig.make_context();
  char *memory = rig.plain(64 * K), *range = rig.reserve(64 * K);
  const auto physical = rig.physical(64 * K);
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, ze.zeMemFree(other, memory));
  rig.expect_misuse("of the context");
  assert_ze(
      ZE_RESULT_ERROR_INVALID_ARGUMENT,
      ze.zeVirtualMemMap(other, range, 64 * K, physical, 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
  rig.expect_misuse();
  ze_command_list_handle_t list = nullptr;
  const ze_command_queue_desc_t desc{
      ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 0, 0, 0, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
      ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
  assert_ok(ze.zeCommandListCreateImmediate(other, rig.devices[0], &desc, &list));
  const char zero = 0;
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT,
            ze.zeCommandListAppendMemoryFill(list, memory, &zero, 1, 64, nullptr, 0, nullptr));
  rig.expect_misuse();
  Events events(rig, 1);
  assert_ze(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
            ze.zeCommandListAppendSignalEvent(list, events[0]));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, ze.zeContextDestroy(other));
  rig.expect_misuse();
  assert_ok(ze.zeCommandListDestroy(list));
  assert_ok(ze.zeContextDestroy(other));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, ze.zeContextGetStatus(other));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, ze.zeContextGetStatus(nullptr));
  rig.expect_misuse();
  assert_ok(ze.zePhysicalMemDestroy(rig.context, physical));
  assert_ok(ze.zeVirtualMemFree(rig.context, range, 64 * K));
  rig.free(memory);
}

void host_memory_is_imported_by_extension(void **) {
  using Import = ze_result_t(ze_driver_handle_t, void *, size_t);
  using Release = ze_result_t(ze_driver_handle_t, void *);
  void *found = nullptr;
  {
    Rig rig("memory=32M", "import=0");
    assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT,
              ze.zeDriverGetExtensionFunctionAddress(rig.driver, "zexDriverImportExternalPointer",
                                                     &found));
  }
  Rig rig;
  assert_ok(
      ze.zeDriverGetExtensionFunctionAddress(rig.driver, "zexDriverImportExternalPointer", &found));
  auto *import = reinterpret_cast<Import *>(found);
  assert_ok(ze.zeDriverGetExtensionFunctionAddress(rig.driver, "zexDriverReleaseImportedPointer",
                                                   &found));
  auto *release = reinterpret_cast<Release *>(found);
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT,
            ze.zeDriverGetExtensionFunctionAddress(rig.driver, "zexNone", &found));

  std::vector<char> own(8 * K, 'x');
  char *memory = rig.plain(64 * K);
  const auto list = rig.list(0, 0, 0, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  const auto copy = [&](size_t at, size_t bytes) {
    return ze.zeCommandListAppendMemoryCopy(list, memory, own.data() + at, bytes, nullptr, 0,
                                            nullptr);
  };
  assert_ok(copy(0, 4 * K));  // legal, and counted
  assert_int_equal(ze.weir_sim_level_zero_unregistered(), 1);
  assert_ok(import(rig.driver, own.data(), 4 * K));
  assert_ok(copy(0, 4 * K));
  assert_int_equal(ze.weir_sim_level_zero_unregistered(), 1);
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, import(rig.driver, own.data() + K, 4 * K));
  rig.expect_misuse("zexDriverImportExternalPointer");
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, copy(0, 8 * K));
  rig.expect_misuse();
  assert_ok(release(rig.driver, own.data()));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, release(rig.driver, own.data()));
  rig.expect_misuse();
  assert_ok(ze.zeCommandListDestroy(list));
  rig.free(memory);
}

void calls_fail_as_told(void **) {
  Rig rig;
  char *range = rig.reserve(64 * K);
  const auto memory = rig.physical(64 * K);
  ze.weir_sim_fail("zeVirtualMemMap", 2, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
  const uint64_t before = ze.weir_sim_calls("zeVirtualMemMap");
  assert_ok(rig.map(range, 64 * K, memory));
  assert_ok(ze.zeVirtualMemUnmap(rig.context, range, 64 * K));
  assert_ze(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, rig.map(range, 64 * K, memory));
  assert_ok(rig.map(range, 64 * K, memory));
  assert_int_equal(ze.weir_sim_calls("zeVirtualMemMap"), before + 3);
  const char *text = nullptr;
  assert_int_equal(ze.weir_sim_alive(&text), 4);  // a context, a reservation, a granule, a mapping
  assert_non_null(std::strstr(text, "mapping"));
  assert_ok(ze.zeVirtualMemFree(rig.context, range, 64 * K));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, memory));
}

int group() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(pages_depend_on_the_size),
      cmocka_unit_test(a_driver_with_small_pages_everywhere),
      cmocka_unit_test(mapping_keeps_to_the_rules),
      cmocka_unit_test(several_addresses_are_an_option),
      cmocka_unit_test(access_can_be_taken_away),
      cmocka_unit_test(no_virtual_memory_is_an_answer),
      cmocka_unit_test(allocations_have_limits),
      cmocka_unit_test(memory_can_be_asked_about),
      cmocka_unit_test(memory_belongs_to_its_context),
      cmocka_unit_test(host_memory_is_imported_by_extension),
      cmocka_unit_test(calls_fail_as_told),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

}  // namespace

int main() { return weir::test::run("test_sim_level_zero_memory", group); }
