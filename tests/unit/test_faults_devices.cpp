// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of devices that come and go: one joins a pool of another, takes pages of its own, sharded ones and such as are
// lent to it, leaves with all of them, comes back, and takes in what the first one leaves, and the n-th fallible backend call or
// allocation of that fails. Whatever failed, the states hold at once, a second try succeeds, every byte is right, and
// nothing is left in the end.

#include "tests/unit/fault_sweep_emptied.hpp"
#include "tests/unit/neighbours.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t device_pages = 8;

struct Scenario : Emptied {
  weir_stream streams[2] = {nullptr, nullptr};
  weir_client client = nullptr;
  bool vmm = true;

  /// A pool of the first device, with buffers on it.
  void open(Balance *balance, const char *options) {
    faults.armed.store(false);
    vmm = std::strstr(options, "host.vmm=0") == nullptr;
    const std::string links = std::strstr(fast_peer, ";host.devices=");
    open_context(balance, (options + links).c_str());
    const weir_pool_device device = with_pages(0, device_pages);
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 48 * page_bytes;
    desc.page_size = desc.large_page_size = page_bytes;
    open_pool(desc);
    streams[0] = stream;
    ok(weir_stream_create(context, 1, 0, &streams[1]));
    const weir_client_desc tenant = WEIR_CLIENT_DESC_INIT;
    ok(weir_client_create(pool, &tenant, &client));
    for (const uint64_t size : {3 * page_bytes, page_bytes + 100, uint64_t{700}}) {
      add(size, 0, client);
      fill(static_cast<uint32_t>(contents.size()) - 1, 1);
    }
    faults.armed.store(true);
  }

  weir_pool_stats stats() {
    weir_pool_stats now = WEIR_POOL_STATS_INIT;
    ok(weir_pool_stats_get(pool, &now));
    return now;
  }
  /// As twice(), and after the failure too the states hold, with the devices that there were.
  template <typename Call>
  bool firmly(const char *what, Call call) {
    return twice(what, [&] {
      const uint64_t before = stats().generation;
      const weir_result result = call();
      assert_int_equal(stats().generation, before + (result == WEIR_SUCCESS ? 1 : 0));
      validate();
      return result;
    });
  }
  bool join(weir_device device, uint64_t pages) {
    const weir_pool_device entry = with_pages(device, pages);
    return firmly("weir_pool_add_device", [&] { return weir_pool_add_device(pool, &entry); });
  }
  bool leave(weir_device device) {
    return firmly("weir_pool_remove_device",
                  [&] { return weir_pool_remove_device(pool, device, WEIR_INFINITE); });
  }
  void on(uint32_t device) { stream = streams[device]; }
  void add_with(uint64_t size, weir_device home, const weir_shard_desc *shards) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = size;
    desc.home = home;
    desc.client = client;
    desc.shards = shards;
    Content content{nullptr, size, 0};
    twice("weir_buffer_create", [&] { return weir_buffer_create(pool, &desc, &content.buffer); });
    contents.push_back(content);
  }
  /// Over both, the last of the buffers.
  void add_sharded() {
    if (!vmm) return;
    const weir_device both[] = {1, 0};
    weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
    shards.policy = WEIR_SHARD_STRIPED;
    shards.devices = both;
    shards.device_count = 2;
    add_with(4 * page_bytes, WEIR_DEVICE_DEFAULT, &shards);
  }
  void destroy_sharded() {
    if (!vmm) return;
    ok(weir_buffer_destroy(pool, contents.back().buffer));
    contents.pop_back();
  }
  /// By streams of both; then some of what is at home on device 0 goes to its neighbour's idle memory, if they have virtual memory.
  void write_all(uint32_t seed) {
    for (uint32_t i = 0; i < contents.size(); ++i) {
      on(i % 2);
      fill(i, seed + i);
    }
    on(0);
    for (uint32_t i = 0; i < 2; ++i) check(i, "written");
    twice("weir_pool_trim",
          [&] { return weir_pool_trim(pool, 0, WEIR_TRIM_SELECTIVE, 3 * page_bytes, nullptr); });
    validate();
  }
  void read_all(const char *when, uint32_t device) {
    on(device);
    for (uint32_t i = 0; i < contents.size(); ++i) check(i, when);
    validate();
  }

  void work() {
    if (!join(1, device_pages)) return;
    add_with(2 * page_bytes, 1, nullptr);
    add_with(900, 1, nullptr);
    add_sharded();
    write_all(10);
    const bool left = leave(1);
    read_all("after the second has left", 0);
    // It has its pages where it was left, and would keep that device from leaving.
    destroy_sharded();
    if (left && !join(1, device_pages + 2)) return;
    add_sharded();
    write_all(20);
    const bool gone = leave(0);
    read_all("after the first has left", 1);
    if (gone && !join(0, device_pages)) return;
    // What lies on the other since before then is closed to it, and can be copied.
    for (uint32_t i = 0; i < contents.size(); ++i) check_read(i);
    destroy_sharded();
    read_all("after the first has come back", 0);
  }

  void end() {
    destroy_buffers();
    faults.armed.store(false);
    assert_true(!vmm || faults.struck() || stats().lent_bytes > 2 * page_bytes);
    (void)weir_pool_trim(pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr);
    trim_to_nothing();
    weir_client_stats charged = WEIR_CLIENT_STATS_INIT;
    ok(weir_client_stats_get(client, &charged));
    assert_int_equal(charged.buffers, 0);
    assert_int_equal(charged.device_bytes, 0);
    assert_int_equal(charged.host_bytes, 0);
    ok(weir_client_destroy(client));
    on(0);
    ok(weir_stream_close(streams[1]));
    close();
  }
};

void memory_is_refused_once(void **) { sweep_with<Scenario>(Kind::device_oom, with_vmm); }
void memory_is_refused_once_without_vmm(void **) {
  sweep_with<Scenario>(Kind::device_oom, without_vmm);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_refused_once),
      cmocka_unit_test(memory_is_refused_once_without_vmm),
  };
  const int failed = cmocka_run_group_tests(tests, nullptr, nullptr);
  return failed + Sweeps<Scenario>::run();
}
