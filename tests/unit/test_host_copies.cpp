// SPDX-License-Identifier: Apache-2.0
//
// The host backend's copies, simulated links, host memory, and each capability switched off, through the
// backend table. Times are only bounded from below: a loaded machine may be slow, never too fast.
#include <atomic>
#include <cstring>
#include <thread>

#include "backends/host/link.hpp"
#include "tests/unit/host_streams.hpp"

namespace {

using namespace weir::test;
using weir::host::LinkMeter;
using weir::host::now_ns;

uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }
unsigned char *bytes_at(uint64_t address) {
  return reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(address));
}

std::vector<unsigned char> pattern(uint64_t bytes, unsigned seed) {
  std::vector<unsigned char> data(bytes);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<unsigned char>(i * 7 + (i >> 8) + seed);
  return data;
}

void bytes_go_all_the_way_round(void **) {
  HostBackend backend("devices=2");
  const weir_be_stream stream = backend.stream();
  const uint64_t bytes = 100'001;
  const auto data = pattern(bytes, 3);
  std::vector<unsigned char> back(bytes);
  const uint64_t first = backend.plain(bytes), second = backend.plain(bytes, 1);
  for (const weir_be_copy copy :
       {weir_be_copy{first, address_of(data.data()), bytes}, weir_be_copy{second, first, bytes},
        weir_be_copy{address_of(back.data()), second, bytes}}) {
    backend.check(backend->copy_async(backend.state(), stream, &copy));
  }
  backend.check(backend->stream_synchronize(backend.state(), stream));
  assert_true(back == data);
  backend.check(backend->fill_async(backend.state(), stream, first + 10, 0xab, 100));
  backend.check(backend->stream_synchronize(backend.state(), stream));
  assert_int_equal(bytes_at(first)[9], data[9]);
  assert_int_equal(bytes_at(first)[10], 0xab);
  assert_int_equal(bytes_at(first)[109], 0xab);
  assert_int_equal(bytes_at(first)[110], data[110]);
}

void peers_are_others_and_each_is_named_once(void **) {
  HostBackend backend("devices=3;memory=64M;granule=64K;granule_large=0");
  const uint64_t bytes = 65536;
  weir_be_granule granule = 0;
  uint64_t address = 0;
  backend.check(backend->granule_create(backend.state(), 1, bytes, 0, &granule));
  backend.check(backend->range_reserve(backend.state(), 1, bytes, bytes, &address));
  const uint32_t itself[] = {0, 1}, twice[] = {2, 0, 2}, good[] = {2, 0};
  const auto map = [&](const uint32_t *peers, uint32_t count) {
    return backend->map(backend.state(), 1, address, bytes, granule, 0, peers, count);
  };
  assert_int_equal(map(itself, 2), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(map(twice, 3), WEIR_ERROR_INVALID_ARGUMENT);
  backend.check(map(good, 2));
  assert_int_equal(backend->access_add(backend.state(), 1, address, bytes, itself, 2),
                   WEIR_ERROR_INVALID_ARGUMENT);
  backend.check(backend->access_add(backend.state(), 1, address, bytes, good, 2));
  backend.check(backend->unmap(backend.state(), 1, address, bytes));
  backend.check(backend->range_free(backend.state(), 1, address, bytes));
  backend.check(backend->granule_destroy(backend.state(), 1, granule));
}

/// Devices of far more memory than there is: copies take their time, and nothing else.
void without_contents_nothing_moves(void **) {
  HostBackend backend("contents=0;memory=512G;granule=1G;granule_large=0;link_bandwidth=1G");
  weir_be_device about{};
  about.struct_size = sizeof about;
  backend.check(backend->device_describe(backend.state(), 0, &about));
  assert_int_equal(about.memory_total, uint64_t{512} << 30U);
  assert_int_equal(about.capabilities & (WEIR_CAP_HOST_ACCESS | WEIR_CAP_EXPORT_FD), 0);
  const weir_be_stream stream = backend.stream();
  const uint64_t bytes = uint64_t{300} << 30U, little = 10'000'000;
  weir_be_granule granule = 0;
  uint64_t address = 0;
  backend.check(backend->granule_create(backend.state(), 0, bytes, 0, &granule));
  backend.check(backend->range_reserve(backend.state(), 0, bytes, uint64_t{1} << 30U, &address));
  backend.check(backend->map(backend.state(), 0, address, bytes, granule, 0, nullptr, 0));
  backend.check(backend->fill_async(backend.state(), stream, address, 7, bytes));
  std::vector<unsigned char> back(little, 0xEE);
  const weir_be_copy copy{address_of(back.data()), address, little};
  const uint64_t start = now_ns();
  backend.check(backend->copy_async(backend.state(), stream, &copy));
  backend.check(backend->stream_synchronize(backend.state(), stream));
  assert_true(now_ns() - start >= 10'000'000);  // 10 MB at 1 GB/s
  assert_true(back == std::vector<unsigned char>(little, 0xEE));
  int32_t fd = -1;
  assert_int_equal(backend->granule_export(backend.state(), 0, granule, &fd),
                   WEIR_ERROR_NOT_SUPPORTED);
  backend.check(backend->unmap(backend.state(), 0, address, bytes));
  backend.check(backend->range_free(backend.state(), 0, address, bytes));
  backend.check(backend->granule_destroy(backend.state(), 0, granule));
}

void a_batch_is_all_or_nothing(void **) {
  HostBackend backend;
  const weir_be_stream stream = backend.stream();
  const uint64_t bytes = 4096;
  const auto data = pattern(3 * bytes, 9);
  const uint64_t to = backend.plain(3 * bytes);
  std::vector<weir_be_copy> copies;
  for (uint64_t i = 0; i < 3; ++i)
    copies.push_back({to + i * bytes, address_of(data.data()) + i * bytes, bytes});
  std::vector<weir_be_copy> bad = copies;
  bad[2].destination = to + 2 * bytes + 1;  // reaches over the end
  const weir_be_fence before = backend.record(stream);
  assert_int_equal(backend->copy_batch_async(backend.state(), stream, bad.data(), 3),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->copy_batch_async(backend.state(), stream, nullptr, 3),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend.record(stream), before);
  backend.check(backend->copy_batch_async(backend.state(), stream, copies.data(), 3));
  backend.check(backend->copy_batch_async(backend.state(), stream, nullptr, 0));
  backend.check(backend->stream_synchronize(backend.state(), stream));
  assert_memory_equal(bytes_at(to), data.data(), 3 * bytes);
}

void bad_copies_are_refused_when_enqueued(void **) {
  HostBackend backend;
  const weir_be_stream stream = backend.stream();
  std::vector<unsigned char> host(8192);
  const uint64_t there = backend.plain(8192), here = address_of(host.data());
  uint64_t range = 0;
  backend.check(backend->range_reserve(backend.state(), 0, 64 * 1024, 64 * 1024, &range));
  const weir_be_copy bad[] = {
      {there, here, 0},          {0, here, 16},      {there, 0, 16},
      {there + 8000, here, 200}, {range, here, 16},  {here, range, 16},
      {there, there + 100, 200}, {there, there, 16}, {there, here, UINT64_MAX},
  };
  const weir_be_fence before = backend.record(stream);
  for (const weir_be_copy &copy : bad) {
    assert_int_equal(backend->copy_async(backend.state(), stream, &copy),
                     WEIR_ERROR_INVALID_ARGUMENT);
  }
  assert_int_equal(backend->fill_async(backend.state(), stream, range, 1, 16),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->fill_async(backend.state(), stream, here, 1, 16),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->fill_async(backend.state(), stream, there, 1, 0),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->copy_async(backend.state(), stream, nullptr),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend.record(stream), before);
}

void a_refusal_names_the_value(void **) {
  HostBackend backend;
  uint64_t address = 0;
  assert_int_equal(backend->plain_allocate(backend.state(), 7, 4096, 4096, &address),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_non_null(std::strstr(backend.refusal().c_str(), "device 7"));
  assert_int_equal(address, 0);
  assert_int_not_equal(backend->last_error_code(backend.state()), 0);
  assert_true(std::strlen(backend->runtime_version(backend.state())) > 0);
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = "devices=2;granul=4K";
  weir_be_state *state = nullptr;
  const char *reason = "";
  assert_int_equal(backend->start(&desc, &state, &reason), WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(state);
  assert_non_null(std::strstr(reason, "granul"));
}

void a_meter_shares_its_bandwidth(void **) {
  LinkMeter meter;
  meter.configure(1'000'000'000, 500);  // a byte a nanosecond
  assert_in_range(meter.book(1000, 10'000, true), 11'500, 11'510);
  // The next one starts when the link is free, the latency does not keep it busy.
  assert_in_range(meter.book(1000, 10'000, false), 12'000, 12'010);
  assert_in_range(meter.book(3'000'000'000, 20'000, true), 3'000'020'500, 3'000'020'510);
  LinkMeter latency_only;
  latency_only.configure(0, 700);
  assert_int_equal(latency_only.book(1 << 30, 5, true), 705);
  assert_int_equal(latency_only.book(1 << 30, 5, false), 5);
}

void links_can_be_told_and_not_kept(void **) {
  weir::host::Links links(2, 0, 0, 0);
  weir::host::PathFacts facts;
  facts.kind = WEIR_LINK_NVLINK;
  facts.bandwidth = 1000;
  facts.latency_ns = 70;
  links.set(0, 1, facts, 0);
  assert_null(links.path(0, 1));
  assert_int_equal(links.facts(1, 0).bandwidth, 1000);
  links.set(0, WEIR_DEVICE_HOST, facts, 4);
  for (LinkMeter *meter : {links.path(0, WEIR_DEVICE_HOST), links.path(WEIR_DEVICE_HOST, 0)}) {
    assert_non_null(meter);
    assert_int_equal(meter->bandwidth(), 250);
    assert_int_equal(meter->latency_ns(), 280);
  }
  assert_false(links.facts(1, WEIR_DEVICE_HOST).given);
  facts.latency_ns = UINT64_MAX / 2;
  links.set(0, 1, facts,
            5000);  // neither 0, which would be no limit, nor beyond the end of numbers
  assert_int_equal(links.path(1, 0)->bandwidth(), 1);
  assert_int_equal(links.path(1, 0)->latency_ns(), UINT64_MAX / 4);
}

/// Devices 0 to 2 are of one card, 3 and 4 of another, 5 by itself.
void partitions_share_what_leads_from_their_card(void **) {
  weir::host::Links links(6, 1'000'000'000, 1'000'000'000, 0);  // a byte a nanosecond
  links.share({0, 0, 0, 3, 3, 5});
  constexpr uint32_t host = WEIR_DEVICE_HOST;
  uint64_t start = 0;
  // Whether the second copy waits for the first; each time from a point where all links are idle.
  const auto together = [&](uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    start += 1'000'000;
    const uint64_t first = links.path(a, b)->book(1000, start, false);
    assert_in_range(first, start + 1000, start + 1010);
    return links.path(c, d)->book(1000, start, false) > first;
  };
  assert_true(together(1, host, 2, host));
  assert_true(together(0, host, 2, host));
  assert_true(together(host, 2, host, 0));
  assert_true(together(3, host, 4, host));
  assert_true(together(0, 3, 1, 4));
  assert_true(together(4, 2, 3, 1));
  assert_true(together(1, 5, 2, 5));
  assert_true(together(5, 1, 5, 2));
  assert_false(together(1, host, host, 1));  // each way its own
  assert_false(together(0, host, 3, host));
  assert_false(together(0, host, 5, host));
  assert_false(together(0, 3, 0, 5));
  assert_false(together(0, 1, 0, 2));  // within the card
  assert_false(together(1, 0, 2, 0));
  assert_false(together(0, 1, 1, 0));
  // Each with what it was told of its own path.
  weir::host::PathFacts facts;
  facts.bandwidth = 500'000'000;
  links.set(1, host, facts, 1);
  start += 1'000'000;
  assert_in_range(links.path(1, host)->book(1000, start, false), start + 2000, start + 2010);
  assert_in_range(links.path(2, host)->book(1000, start, false), start + 3000, start + 3020);
}

void partitions_of_the_backend_share_their_link(void **) {
  HostBackend backend("devices=2;link_bandwidth=100M;pci=0000:17:00.0,0000:17:00.0");
  const uint64_t bytes = 1 << 20;  // 10.5 ms
  std::vector<unsigned char> data(bytes);
  const weir_be_stream streams[] = {backend.stream(0), backend.stream(1)};
  const uint64_t to[] = {backend.plain(bytes, 0), backend.plain(bytes, 1)};
  const uint64_t start = now_ns();
  for (int i = 0; i < 2; ++i) {
    const weir_be_copy copy{to[i], address_of(data.data()), bytes};
    backend.check(backend->copy_async(backend.state(), streams[i], &copy));
  }
  for (const weir_be_stream stream : streams)
    backend.check(backend->stream_synchronize(backend.state(), stream));
  assert_true(now_ns() - start >= 20'900'000);
}

void a_told_link_is_described(void **) {
  HostBackend backend(
      "devices=2;numa=1,-;pci=0000:17:00.0,;names=,Second;links=0-1:xe:5G:2:9,h-1:c2c:7G");
  weir_be_link link{};
  link.struct_size = sizeof link;
  backend.check(backend->link_describe(backend.state(), 1, 0, &link));
  assert_int_equal(link.kind, WEIR_LINK_XE);
  assert_int_equal(link.bandwidth, UINT64_C(5000000000));
  assert_int_equal(link.hops, 2);
  assert_int_equal(link.latency_ns, 9);
  assert_int_equal(link.direct, 1);
  backend.check(backend->link_describe(backend.state(), WEIR_DEVICE_HOST, 1, &link));
  assert_int_equal(link.kind, WEIR_LINK_C2C);
  backend.check(backend->link_describe(backend.state(), WEIR_DEVICE_HOST, 0, &link));
  assert_int_equal(link.kind, WEIR_LINK_MEMORY);
  weir_be_device device{};
  device.struct_size = sizeof device;
  backend.check(backend->device_describe(backend.state(), 0, &device));
  assert_string_equal(device.name, "host memory 0");
  assert_string_equal(device.pci_address, "0000:17:00.0");
  assert_int_equal(device.numa_node, 1);
  backend.check(backend->device_describe(backend.state(), 1, &device));
  assert_string_equal(device.name, "Second");
  assert_string_equal(device.pci_address, "");
  assert_int_equal(device.numa_node, UINT32_MAX);
}

void a_throttled_link_is_never_too_fast(void **) {
  HostBackend backend("devices=2;link_bandwidth=200M;peer_bandwidth=400M;link_latency_ns=1000000");
  const weir_be_stream first = backend.stream(), second = backend.stream();
  const auto data = pattern(mib, 1);
  const uint64_t a = backend.plain(mib), b = backend.plain(mib), c = backend.plain(mib, 1);
  const auto timed = [&](const weir_be_copy &one, const weir_be_copy *two) {
    const uint64_t start = now_ns();
    backend.check(backend->copy_async(backend.state(), first, &one));
    if (two != nullptr) backend.check(backend->copy_async(backend.state(), second, two));
    backend.check(backend->stream_synchronize(backend.state(), first));
    backend.check(backend->stream_synchronize(backend.state(), second));
    return now_ns() - start;
  };
  const uint64_t host_ns = mib * 5, peer_ns = mib * 5 / 2, latency = 1'000'000;
  const weir_be_copy in_a{a, address_of(data.data()), mib}, in_b{b, address_of(data.data()), mib};
  const weir_be_copy peer{c, a, mib}, within{b, a, mib};
  assert_true(timed(in_a, nullptr) >= host_ns + latency);
  assert_true(timed(in_a, &in_b) >= 2 * host_ns + latency);  // two streams, one link
  assert_true(timed(peer, nullptr) >= peer_ns + latency);
  weir_be_link link{};
  link.struct_size = sizeof link;
  backend.check(backend->link_describe(backend.state(), WEIR_DEVICE_HOST, 0, &link));
  assert_int_equal(link.bandwidth, 200'000'000);
  assert_int_equal(link.latency_ns, latency);
  assert_int_equal(link.kind, WEIR_LINK_MEMORY);
  backend.check(backend->link_describe(backend.state(), 0, 1, &link));
  assert_int_equal(link.bandwidth, 400'000'000);
  backend.check(backend->link_describe(backend.state(), 1, 1, &link));
  assert_int_equal(link.kind, WEIR_LINK_SAME);
  assert_int_equal(link.bandwidth, 0);
  timed(within, nullptr);
  assert_memory_equal(bytes_at(b), data.data(), mib);
  assert_memory_equal(bytes_at(c), data.data(), mib);
}

void host_memory_is_checked(void **) {
  HostBackend backend;
  void *memory = nullptr;
  assert_int_equal(backend->host_allocate(backend.state(), 0, &memory),
                   WEIR_ERROR_INVALID_ARGUMENT);
  backend.check(backend->host_allocate(backend.state(), 10'000, &memory));
  assert_int_equal(address_of(memory) % 4096, 0);
  std::memset(memory, 1, 10'000);
  assert_int_equal(backend->host_register(backend.state(), memory, 4096),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->host_free(backend.state(), memory, 9'999), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->host_unregister(backend.state(), memory, 10'000),
                   WEIR_ERROR_INVALID_ARGUMENT);
  backend.check(backend->host_free(backend.state(), memory, 10'000));
  assert_int_equal(backend->host_free(backend.state(), memory, 10'000),
                   WEIR_ERROR_INVALID_ARGUMENT);

  alignas(4096) static unsigned char own[16384];
  assert_int_equal(backend->host_register(backend.state(), own + 1, 4096),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->host_register(backend.state(), nullptr, 4096),
                   WEIR_ERROR_INVALID_ARGUMENT);
  backend.check(backend->host_register(backend.state(), own + 4096, 4096));
  assert_int_equal(backend->host_register(backend.state(), own + 4096, 4096),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->host_register(backend.state(), own, 8192), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->host_free(backend.state(), own + 4096, 4096),
                   WEIR_ERROR_INVALID_ARGUMENT);
  backend.check(backend->host_register(backend.state(), own, 4096));
  backend.check(backend->host_register(backend.state(), own + 8192, 8192));
  backend.check(backend->host_unregister(backend.state(), own + 4096, 4096));
  backend.check(backend->host_register(backend.state(), own + 4096, 4096));
}

uint64_t capabilities(const HostBackend &backend) {
  weir_be_device device{};
  device.struct_size = sizeof device;
  backend.check(backend->device_describe(backend.state(), 0, &device));
  return device.capabilities;
}

void calls_and_batches_can_be_off(void **) {
  HostBackend backend("host_call=0;batch_copy=0;register=0");
  assert_int_equal(
      capabilities(backend) & (WEIR_CAP_HOST_CALL | WEIR_CAP_BATCH_COPY | WEIR_CAP_HOST_REGISTER),
      0);
  const weir_be_stream stream = backend.stream();
  assert_int_equal(backend->stream_host_call(backend.state(), stream, Record::note, nullptr),
                   WEIR_ERROR_NOT_SUPPORTED);
  const uint64_t to = backend.plain(4096);
  std::vector<unsigned char> data(16);
  const weir_be_copy copy{to, address_of(data.data()), 16};
  assert_int_equal(backend->copy_batch_async(backend.state(), stream, &copy, 1),
                   WEIR_ERROR_NOT_SUPPORTED);
  backend.check(backend->copy_async(backend.state(), stream, &copy));
  backend.check(backend->stream_synchronize(backend.state(), stream));
  alignas(4096) static unsigned char own[4096];
  assert_int_equal(backend->host_register(backend.state(), own, 4096), WEIR_ERROR_NOT_SUPPORTED);
  assert_int_equal(backend->host_unregister(backend.state(), own, 4096), WEIR_ERROR_NOT_SUPPORTED);
}

void peers_can_be_off(void **) {
  HostBackend backend("devices=2;peer=0");
  assert_int_equal(capabilities(backend) & WEIR_CAP_PEER, 0);
  const weir_be_stream stream = backend.stream();
  const weir_be_copy copy{backend.plain(4096, 1), backend.plain(4096, 0), 4096};
  assert_int_equal(backend->copy_async(backend.state(), stream, &copy), WEIR_ERROR_NOT_SUPPORTED);
  assert_int_equal(backend->peer_enable(backend.state(), 0, 1), WEIR_ERROR_NOT_SUPPORTED);
  weir_be_link link{};
  link.struct_size = sizeof link;
  backend.check(backend->link_describe(backend.state(), 0, 1, &link));
  assert_int_equal(link.direct, 0);
  assert_int_equal(link.kind, WEIR_LINK_NONE);
  HostBackend with("devices=2");
  with.check(with->peer_enable(with.state(), 0, 1));
  assert_int_equal(with->peer_enable(with.state(), 0, 2), WEIR_ERROR_INVALID_ARGUMENT);
}

void a_dead_granule_is_not_the_next_one(void **) {
  HostBackend backend;
  weir_be_granule old = 0, next = 0;
  backend.check(backend->granule_create(backend.state(), 0, 64 * 1024, 0, &old));
  backend.check(backend->granule_destroy(backend.state(), 0, old));
  backend.check(backend->granule_create(backend.state(), 0, 64 * 1024, 0, &next));
  assert_int_not_equal(old, next);
  assert_int_equal(backend->granule_destroy(backend.state(), 0, old), WEIR_ERROR_INVALID_ARGUMENT);
  backend.check(backend->granule_destroy(backend.state(), 0, next));
}

struct SlowWork {
  std::atomic<bool> done{false};
  static void run(void *user) {
    const uint64_t end = now_ns() + 5'000'000;
    while (now_ns() < end) std::this_thread::yield();
    static_cast<SlowWork *>(user)->done.store(true);
  }
};

void mapping_can_wait_for_running_work(void **) {
  HostBackend backend("map_may_block=1");
  assert_true((capabilities(backend) & WEIR_CAP_MAP_MAY_BLOCK_DEVICE) != 0);
  const weir_be_stream stream = backend.stream();
  const uint64_t unit = 64 * 1024;
  uint64_t range = 0;
  weir_be_granule granule = 0;
  backend.check(backend->range_reserve(backend.state(), 0, unit, unit, &range));
  backend.check(backend->granule_create(backend.state(), 0, unit, 0, &granule));
  SlowWork first, second;
  backend.check(backend->stream_host_call(backend.state(), stream, SlowWork::run, &first));
  backend.check(backend->map(backend.state(), 0, range, unit, granule, 0, nullptr, 0));
  assert_true(first.done.load());
  backend.check(backend->stream_host_call(backend.state(), stream, SlowWork::run, &second));
  backend.check(backend->unmap(backend.state(), 0, range, unit));
  assert_true(second.done.load());
}

struct Lines {
  std::vector<std::string> lines;
  static void add(void *user, int32_t level, const char *text) {
    if (level == WEIR_LOG_DEBUG) static_cast<Lines *>(user)->lines.emplace_back(text);
  }
};

void refusals_are_logged(void **) {
  const weir_backend_table *table = weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR);
  assert_null(weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR + 1));
  Lines log;
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = "memory=4M";
  desc.log = Lines::add;
  desc.log_user = &log;
  weir_be_state *state = nullptr;
  const char *reason = "";
  assert_int_equal(table->start(&desc, &state, &reason), WEIR_SUCCESS);
  weir_be_granule granule = 0;
  assert_int_equal(table->granule_create(state, 0, 12345, 0, &granule),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(log.lines.size(), 1);
  assert_non_null(std::strstr(log.lines[0].c_str(), "granule_create"));
  assert_non_null(std::strstr(log.lines[0].c_str(), "0x3039"));
  table->stop(state);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(bytes_go_all_the_way_round),
      cmocka_unit_test(peers_are_others_and_each_is_named_once),
      cmocka_unit_test(without_contents_nothing_moves),
      cmocka_unit_test(a_batch_is_all_or_nothing),
      cmocka_unit_test(bad_copies_are_refused_when_enqueued),
      cmocka_unit_test(a_refusal_names_the_value),
      cmocka_unit_test(a_meter_shares_its_bandwidth),
      cmocka_unit_test(links_can_be_told_and_not_kept),
      cmocka_unit_test(partitions_share_what_leads_from_their_card),
      cmocka_unit_test(partitions_of_the_backend_share_their_link),
      cmocka_unit_test(a_told_link_is_described),
      cmocka_unit_test(a_throttled_link_is_never_too_fast),
      cmocka_unit_test(host_memory_is_checked),
      cmocka_unit_test(calls_and_batches_can_be_off),
      cmocka_unit_test(peers_can_be_off),
      cmocka_unit_test(a_dead_granule_is_not_the_next_one),
      cmocka_unit_test(mapping_can_wait_for_running_work),
      cmocka_unit_test(refusals_are_logged),
  };
  return cmocka_run_group_tests_name("host copies", tests, nullptr, nullptr);
}
