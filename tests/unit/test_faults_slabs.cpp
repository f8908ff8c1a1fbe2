// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of small memory: memory of weir_malloc and small buffers of two clients come and go, pages run empty, are
// used again and change hands, and the n-th fallible backend call or allocation of that fails. Whatever failed, a second try
// succeeds, every byte is right, the slabs' records agree, and nothing is left in the end.

#include "tests/unit/fault_sweep_emptied.hpp"

namespace {

using namespace weir::test;

struct Scenario : Emptied {
  weir_client client = nullptr;
  std::vector<uint64_t> blocks;

  void open(Balance *balance, const char *options) {
    open_pages(balance, options, 10);
    const weir_client_desc own = WEIR_CLIENT_DESC_INIT;
    ok(weir_client_create(pool, &own, &client));
    faults.armed.store(true);
  }

  void take(uint64_t size) {
    uint64_t address = 0;
    if (twice("weir_malloc", [&] { return weir_malloc(pool, 0, stream, size, &address); }))
      blocks.push_back(address);
    validate();
  }
  void give(size_t i) {
    // A release that can't be marked is told, and the memory is free all the same.
    sensible(weir_free(pool, stream, blocks[i]), "weir_free");
    blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(i));
  }

  void work() {
    for (uint64_t i = 0; i < 5; ++i) take(page_bytes / 2 + 256 * i);
    take(256);
    for (size_t i = 0; i < 3; ++i) give(i);
    for (int i = 0; i < 2; ++i) take(page_bytes / 2);
    for (uint32_t i = 0; i < 6; ++i) {
      add(page_bytes / 3, 0, i % 2 == 0 ? client : nullptr);
      fill(i, i + 1);
    }
    while (!blocks.empty()) give(0);  // pages run empty
    for (uint32_t i = 0; i < 3; ++i) {
      ok(weir_buffer_destroy(pool, contents[i].buffer));
      contents.erase(contents.begin() + i);
    }
    validate();
    take(1000);
    add(7 * page_bytes, 0, client);  // empty pages are another's now
    fill(static_cast<uint32_t>(contents.size() - 1), 77);
    for (uint32_t i = 0; i < contents.size(); ++i) check(i, "last look");
  }

  void end() {
    destroy_buffers();
    faults.armed.store(false);
    for (const uint64_t address : blocks) ok(weir_free(pool, nullptr, address));
    trim_to_nothing();
    ok(weir_client_destroy(client));
    close();
  }
};

}  // namespace

int main() { return Sweeps<Scenario>::run(); }
