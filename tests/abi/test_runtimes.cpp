// SPDX-License-Identifier: Apache-2.0
//
// Several vendors' runtimes in one context, as a program meets them: each is found, or told with its reason; each
// device takes a pool; a runtime that hangs costs only itself; the default stream and streams that record graphs are
// what CUDA's documentation makes of them. The runtimes are simulated drivers.
#include "tests/abi/vendor_fixture.hpp"

#include <weir/backend.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace weir::test {
namespace {

/// Four buffers on room for two: bytes leave the device and come back.
void use_device(weir_context context, weir_device device) {
  constexpr uint64_t size = 4 << 20;
  weir_pool_device place{device, 0, 2 * size, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &place;
  desc.device_count = 1;
  desc.host_budget = 64 << 20;
  desc.page_size = desc.large_page_size = 2 << 20;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  std::vector<unsigned char> bytes(size), back(size);
  weir_buffer buffers[4] = {};
  for (int i = 0; i < 4; ++i) {
    weir_buffer_desc buffer = WEIR_BUFFER_DESC_INIT;
    buffer.size = size;
    ok(weir_buffer_create(pool, &buffer, &buffers[i]));
    for (uint64_t at = 0; at < size; ++at) bytes[at] = pattern(static_cast<uint32_t>(i), at);
    ok(weir_buffer_write(pool, buffers[i], 0, size, bytes.data()));
    weir_stream stream = nullptr;
    ok(weir_stream_create(context, device, 0, &stream));
    weir_use use = WEIR_USE(buffers[i], WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
    ok(weir_release(lease, stream));
    ok(weir_stream_close(stream));
  }
  for (int i = 0; i < 4; ++i) {
    ok(weir_buffer_read(pool, buffers[i], 0, size, back.data()));
    for (uint64_t at = 0; at < size; ++at) {
      if (back[at] != pattern(static_cast<uint32_t>(i), at))
        fail_msg("buffer %d, byte %llu on device %u", i, static_cast<unsigned long long>(at),
                 device);
    }
    ok(weir_buffer_destroy(pool, buffers[i]));
  }
  ok(weir_pool_destroy(pool));
}

void every_vendor_in_one_context(void **) {
  configure("devices=2;memory=64M;mode=strict");
  setenv("WEIR_SIM", "devices=2;memory=64M;mode=strict", 1);
  const bool intel = exists(in_library("drivers/libweir_sim_level_zero.so"));
  if (!intel) print_message("no simulated Level Zero driver here: without it\n");
  weir_context context =
      intel ? open({"cuda", "hip", "level_zero"}, small_host) : open({"cuda", "hip"}, small_host);
  for (const char *name : {"cuda", "hip", "level_zero"}) {
    if (!intel && std::strcmp(name, "level_zero") == 0) continue;
    const weir_backend_info info = info_of(context, name);
    if (info.available == 0) fail_msg("%s is not available: %s", name, info.reason);
    assert_int_equal(info.device_count, 2);
    assert_string_equal(info.reason, "");
    assert_true(info.version[0] != '\0');
    for (uint32_t i = 0; i < info.device_count; ++i) use_device(context, info.first_device + i);
  }
  ok(weir_context_destroy(context));
}

void a_runtime_that_is_missing_says_so(void **) {
  const std::string before = std::getenv("WEIR_CUDA_LIBRARY");
  setenv("WEIR_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
  weir_context context = open({"cuda"}, small_host);
  const weir_backend_info info = info_of(context, "cuda");
  assert_int_equal(info.available, 0);
  assert_non_null(std::strstr(info.reason, "/nowhere/libcuda.so.1"));
  assert_int_equal(info_of(context, "host").available, 1);
  ok(weir_context_destroy(context));
  setenv("WEIR_CUDA_LIBRARY", before.c_str(), 1);
}

/// Drivers that do less than theirs should: a pool works on each of them.
void odd_drivers_take_pools(void **) {
  for (const char *machine : {"devices=2;memory=64M;mode=strict;vmm_context=1;export_fabric=1",
                              "devices=2;memory=64M;mode=strict;reserve_alignment=2M",
                              "devices=2;memory=64M;mode=strict;version=13010",
                              "devices=2;memory=64M;mode=strict;rdma=0"}) {
    configure(machine);
    weir_context context = open({"cuda"}, small_host);
    const weir_backend_info info = info_of(context, "cuda");
    assert_int_equal(info.available, 1);
    for (uint32_t i = 0; i < info.device_count; ++i) use_device(context, info.first_device + i);
    ok(weir_context_destroy(context));
    const char *text = "";
    if (driver<uint64_t(const char **)>("weir_sim_misuse")(&text) != 0) fail_msg("%s", text);
    if (driver<uint64_t(const char **)>("weir_sim_alive")(&text) != 0) fail_msg("%s", text);
  }
}

/// A device whose granularity the driver does not tell has segments of plain memory, beside one that has pages.
void a_device_without_a_granularity_takes_a_pool(void **) {
  configure("devices=2;memory=64M;mode=strict;links=nvlink");
  driver<void(const char *, uint64_t, int64_t)>("weir_sim_fail")("cuMemGetAllocationGranularity", 1,
                                                                 1);
  weir_context context = open({"cuda"}, small_host);
  const weir_backend_info info = info_of(context, "cuda");
  assert_int_equal(info.available, 1);
  weir_device_info device = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(context, info.first_device, &device));
  assert_int_equal(device.capabilities & WEIR_CAP_VMM, 0);
  ok(weir_device_info_get(context, info.first_device + 1, &device));
  assert_int_equal(device.capabilities & WEIR_CAP_VMM, WEIR_CAP_VMM);
  for (uint32_t i = 0; i < info.device_count; ++i) use_device(context, info.first_device + i);
  ok(weir_context_destroy(context));
}

void an_old_driver_is_named(void **) {
  configure("version=11080");
  weir_context context = open({"cuda"}, small_host);
  assert_non_null(
      std::strstr(info_of(context, "cuda").reason, "CUDA driver 11.8 found, 12.0 needed"));
  ok(weir_context_destroy(context));
}

/// The CUDA backend, which says when it has been stopped.
struct Told {
  const weir_backend_table *real = nullptr;
  weir_backend_table table{};
  std::atomic<bool> stopped{false};
  static const weir_backend_table *query(uint32_t) { return &instance.table; }
  static void stop(weir_be_state *state) {
    instance.real->stop(state);
    instance.stopped.store(true);
    instance.stopped.notify_all();
  }
  void load() {
    void *library = dlopen(in_library("weir/1/libweir_backend_cuda.so").c_str(), RTLD_NOW);
    assert_non_null(library);
    void *symbol = dlsym(library, WEIR_BACKEND_QUERY_SYMBOL);
    weir_backend_query_fn entry = nullptr;
    std::memcpy(&entry, &symbol, sizeof symbol);
    real = entry(WEIR_BACKEND_ABI_MAJOR);
    table = *real;
    table.stop = stop;
  }
  static Told instance;
};
Told Told::instance;

void a_driver_that_hangs_costs_only_itself(void **) {
  configure("hang=cuInit");
  Told::instance.load();
  static const weir_backend_query_fn backends[] = {Told::query};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.backends = backends;
  desc.backend_count = 1;
  desc.options = small_host;
  desc.start_timeout_ns = 20'000'000;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  const weir_backend_info info = info_of(context, "cuda");
  assert_int_equal(info.available, 0);
  assert_non_null(std::strstr(info.reason, "0.02 seconds"));
  uint32_t devices = 0;
  ok(weir_device_count(context, &devices));
  assert_int_equal(devices, 1);
  ok(weir_context_destroy(context));
  // It is let go, starts after all, and is ended by itself. The next machine is made when nothing uses the old one.
  driver<void()>("weir_sim_resume")();
  Told::instance.stopped.wait(false);
  assert_int_equal(driver<uint64_t(const char **)>("weir_sim_alive")(nullptr), 0);
}

void the_default_stream_and_captures(void **) {
  configure("devices=1;memory=64M");
  weir_context context = open({"cuda"}, small_host);
  const weir_device device = info_of(context, "cuda").first_device;
  weir_pool_device place{device, 0, 16 << 20, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &place;
  desc.device_count = 1;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
  buffer_desc.size = 2 << 20;
  weir_buffer buffer = nullptr;
  ok(weir_buffer_create(pool, &buffer_desc, &buffer));
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  weir_lease lease = nullptr;

  // NULL is the legacy default stream; 2 the default stream of each thread, which is the wrapping one's here.
  weir_stream legacy = nullptr, own = nullptr;
  ok(weir_stream_wrap(context, device, nullptr, 0, &legacy));
  ok(weir_acquire(pool, legacy, &use, 1, nullptr, &lease));
  ok(weir_release(lease, legacy));
  ok(weir_stream_wrap(context, device, reinterpret_cast<void *>(uintptr_t{2}), 0, &own));
  ok(weir_acquire(pool, own, &use, 1, nullptr, &lease));
  ok(weir_release(lease, own));
  weir_result elsewhere = WEIR_SUCCESS;
  std::thread([&] { elsewhere = weir_stream_query(own); }).join();
  assert_int_equal(elsewhere, WEIR_ERROR_INVALID_ARGUMENT);
  ok(weir_stream_close(own));
  ok(weir_stream_close(legacy));

  weir_stream stream = nullptr;
  void *native = nullptr, *graph = nullptr;
  ok(weir_stream_create(context, device, 0, &stream));
  ok(weir_stream_native(stream, &native));
  constexpr int relaxed = 2;
  assert_int_equal(driver<int(void *, int)>("cuStreamBeginCapture_v2")(native, relaxed), 0);
  expect_result(WEIR_ERROR_STREAM_CAPTURING, weir_acquire(pool, stream, &use, 1, nullptr, &lease));
  assert_int_equal(driver<int(void *, void **)>("cuStreamEndCapture")(native, &graph), 0);
  ok(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
  ok(weir_release(lease, stream));
  ok(weir_stream_close(stream));
  ok(weir_buffer_destroy(pool, buffer));
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(context));
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  if (!use_simulated_drivers()) {
    std::fprintf(stderr, "skipped: no simulated CUDA driver\n");
    return 77;
  }
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_runtime_that_is_missing_says_so),
      cmocka_unit_test(odd_drivers_take_pools),
      cmocka_unit_test(a_device_without_a_granularity_takes_a_pool),
      cmocka_unit_test(an_old_driver_is_named),
      cmocka_unit_test(a_driver_that_hangs_costs_only_itself),
      cmocka_unit_test(the_default_stream_and_captures),
      cmocka_unit_test(every_vendor_in_one_context),
  };
  return cmocka_run_group_tests_name("runtimes", tests, nullptr, nullptr);
}
