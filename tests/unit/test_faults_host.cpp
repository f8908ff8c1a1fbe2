// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of leases on the CPU: sets of a whole buffer and a part of another are written and read in place, while their bytes
// come from the device and go there, and the n-th fallible backend call or allocation of that fails. Whatever failed, a second try
// succeeds, every byte is right, no claim is left behind, and nothing is left in the end.

#include "tests/unit/fault_sweep_emptied.hpp"

#include <cstring>

namespace {

using namespace weir::test;

struct Scenario : Emptied {
  weir_stream cpu = nullptr;

  void open(Balance *balance, const char *options) {
    open_pages(balance, options, 6);
    ok(weir_stream_create(context, WEIR_DEVICE_HOST, 0, &cpu));
    for (uint32_t i = 0; i < 2; ++i) {
      add(2 * page_bytes);
      fill(i, i + 1);
    }
    faults.armed.store(true);
  }

  /// Whole buffers, or of the second its latter page alone.
  void on_the_cpu(uint32_t mode, bool part, uint8_t value) {
    weir_use uses[2] = {WEIR_USE(contents[0].buffer, mode), WEIR_USE(contents[1].buffer, mode)};
    if (part) uses[1].offset = uses[1].length = page_bytes;
    weir_lease lease = nullptr;
    bool refused = false;
    const auto acquire = [&] {
      const weir_result result = weir_acquire(pool, cpu, uses, 2, nullptr, &lease);
      // The backend refused to register the host memory once: no leases on the CPU for good, and the caller knows.
      refused =
          result == WEIR_ERROR_NOT_SUPPORTED && std::strcmp(faults.what(), "host_register") == 0;
      return refused ? WEIR_SUCCESS : result;
    };
    if (!twice("weir_acquire", acquire) || refused) return;
    for (const weir_use &use : uses) {
      const uint64_t bytes = use.length == WEIR_WHOLE ? 2 * page_bytes : use.length;
      auto *at = reinterpret_cast<uint8_t *>(use.address);
      if (mode == WEIR_READ_WRITE) std::memset(at, value, bytes);
      assert_int_equal(at[0], value);
      assert_int_equal(at[bytes - 1], value);
    }
    sensible(weir_release(lease, cpu), "weir_release");
    ok(weir_stream_synchronize(cpu));
    validate();
  }

  void work() {
    check(1, "before");
    on_the_cpu(WEIR_READ_WRITE, true, 3);
    on_the_cpu(WEIR_READ_WRITE, false, 4);
    on_the_cpu(WEIR_READ, true, 4);
    for (uint32_t i = 0; i < 2; ++i) fill(i, 5 + i);
    for (uint32_t i = 0; i < 2; ++i) check(i, "last look");
  }

  void end() {
    destroy_buffers();
    trim_to_nothing();
    ok(weir_stream_close(cpu));
    close();
  }
};

}  // namespace

int main() { return Sweeps<Scenario>::run(); }
