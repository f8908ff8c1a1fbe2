// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of compaction: slabs with holes, and without VMM a segment with holes, are compacted, by a call and by a
// request that needs it, and the n-th fallible backend call or allocation of that fails. Whatever failed, every byte is
// right, and nothing is left in the end.

#include "tests/unit/fault_sweep_emptied.hpp"

namespace {

using namespace weir::test;

const uint64_t small_bytes = page_bytes / 2;

struct Scenario : Emptied {
  void open(Balance *balance, const char *options) {
    faults.armed.store(false);  // what is not compaction has sweeps of its own
    open_context(balance, options);
    const weir_pool_device device{0, 0, 12 * page_bytes, {0, 0}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.flags = WEIR_POOL_NO_BACKGROUND | WEIR_POOL_CHECKSUM_HOST;
    desc.host_budget = 48 * page_bytes;
    desc.page_size = desc.large_page_size = page_bytes;
    open_pool(desc);
    for (uint32_t i = 0; i < 20; ++i) {
      add(i % 5 == 4 ? page_bytes : small_bytes);
      fill(i, i + 1);
    }
    std::vector<Content> left;
    for (uint32_t i = 0; i < contents.size(); ++i) {
      if (i % 2 == 0 || i % 3 == 0) {
        left.push_back(contents[i]);
      } else {
        ok(weir_buffer_destroy(pool, contents[i].buffer));
      }
    }
    contents = left;
    faults.armed.store(true);
  }

  void defragment(uint64_t flags) {
    weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    desc.flags = flags;
    twice("weir_pool_defragment", [&] { return weir_pool_defragment(pool, &desc, nullptr); });
  }

  void work() {
    defragment(0);
    for (uint32_t i = 0; i < contents.size(); ++i) check(i, "first look");
    defragment(WEIR_DEFRAGMENT_WAIT | WEIR_DEFRAGMENT_EVICT);
    for (uint32_t i = 0; i < contents.size(); ++i) check(i, "second look");
    ok(weir_buffer_destroy(pool, contents[3].buffer));
    contents.erase(contents.begin() + 3);
    add(4 * page_bytes);
    fill(static_cast<uint32_t>(contents.size() - 1), 77);  // in one piece
    for (uint32_t i = 0; i < contents.size(); ++i) check(i, "third look");
    for (uint32_t i = 0; i < contents.size(); ++i) check_read(i);
  }

  void end() {
    destroy_buffers();
    trim_to_nothing();
    close();
  }
};

}  // namespace

int main() { return Sweeps<Scenario>::run(); }
