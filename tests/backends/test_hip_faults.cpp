// SPDX-License-Identifier: Apache-2.0
//
// The HIP backend when the driver below fails: every one of its calls once, in a walk through all entries, with nothing
// lost and nothing left; and a device that is lost for good.

#include "tests/backends/hip_fixture.hpp"

#include "backends/cuda/abi.hpp"
#include "tests/support/stride.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace weir::test;

constexpr uint32_t devices = 2;

/// A walk through every entry that calls the runtime. It goes on after failures with what it has, ends what it made
/// (again, if an end fails), and expects only results that are answers to a failing runtime.
class Walk {
 public:
  explicit Walk(const Backend &backend) : t(*backend.t), s(backend.state) {}

  void run() {
    virtual_memory();
    plain_and_host();
    streams();
    questions();
  }
  int failures() const { return failures_; }

 private:
  bool ok(weir_result result) {
    if (result == WEIR_SUCCESS) return true;
    ++failures_;
    if (result != WEIR_ERROR_BACKEND && result != WEIR_ERROR_DEVICE_OOM &&
        result != WEIR_ERROR_OUT_OF_HOST_MEMORY) {
      fail_msg("result %d: %s", result, t.error_text(s, t.last_error_code(s)));
    }
    return false;
  }
  /// An end that fails changed nothing: the same call ends it the next time.
  template <class End>
  void end(End call) {
    if (!ok(call())) assert_int_equal(call(), WEIR_SUCCESS);
  }

  void virtual_memory() {
    weir_be_granule granule = 0, imported = 0;
    uint64_t range = 0;
    int32_t fd = -1;
    const uint32_t peer = 1;
    const bool made = ok(t.granule_create(s, 0, unit, WEIR_BE_GRANULE_EXPORT_FD, &granule));
    const bool reserved = ok(t.range_reserve(s, 0, 4 * unit, unit, &range));
    if (made && ok(t.granule_export(s, 0, granule, &fd))) {
      if (ok(t.granule_import(s, 0, fd, unit, &imported))) {
        end([&] { return t.granule_destroy(s, 0, imported); });
      }
      close(fd);
    }
    if (made && reserved && ok(t.map(s, 0, range, unit, granule, 0, &peer, 1))) {
      end([&] { return t.unmap(s, 0, range, unit); });
    }
    if (reserved) end([&] { return t.range_free(s, 0, range, 4 * unit); });
    if (made) end([&] { return t.granule_destroy(s, 0, granule); });
  }

  void plain_and_host() {
    uint64_t plain = 0;
    void *memory = nullptr;
    if (ok(t.plain_allocate(s, 1, 3 * mib, unit, &plain))) {
      end([&] { return t.plain_free(s, 1, plain, 3 * mib); });
    }
    if (ok(t.host_allocate(s, mib, &memory))) {
      end([&] { return t.host_free(s, memory, mib); });
    }
    void *own = mmap(nullptr, mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ok(t.host_register(s, own, mib))) {
      end([&] { return t.host_unregister(s, own, mib); });
    }
    munmap(own, mib);
  }

  void streams() {
    weir_be_stream stream = nullptr, null = nullptr;
    weir_be_fence fence = 0;
    uint64_t plain = 0;
    if (!ok(t.stream_create(s, 0, 0, &stream))) return;
    const bool allocated = ok(t.plain_allocate(s, 0, mib, 256, &plain));
    if (allocated) {
      ok(t.fill_async(s, stream, plain, 3, mib / 2));
      const weir_be_copy copy{plain + mib / 2, plain, mib / 2};
      ok(t.copy_async(s, stream, &copy));
      ok(t.copy_batch_async(s, stream, &copy, 1));
    }
    ok(t.stream_host_call(
        s, stream, [](void *) {}, nullptr));
    if (ok(t.fence_record(s, stream, &fence))) {
      ok(t.stream_wait(s, stream, fence));
      if (const weir_result polled = t.fence_poll(s, fence); polled != WEIR_NOT_READY) ok(polled);
      end([&] { return t.fence_wait(s, fence, UINT64_MAX); });
      ASSERT_OK(t.fence_destroy(s, fence));
    }
    ok(t.stream_check(s, stream));
    if (const weir_result asked = t.stream_query(s, stream); asked != WEIR_NOT_READY) ok(asked);
    end([&] { return t.stream_synchronize(s, stream); });
    if (ok(t.stream_wrap(s, 1, nullptr, &null))) {
      if (ok(t.fence_record(s, null, &fence))) ASSERT_OK(t.fence_destroy(s, fence));
      ASSERT_OK(t.stream_destroy(s, null));
    }
    if (allocated) end([&] { return t.plain_free(s, 0, plain, mib); });
    ASSERT_OK(t.stream_destroy(s, stream));
  }

  void questions() {
    uint64_t free_bytes = 0, total = 0;
    weir_be_link link{};
    link.struct_size = sizeof link;
    ok(t.device_memory(s, 1, &free_bytes, &total));
    ok(t.link_describe(s, 0, 1, &link));
    ok(t.peer_enable(s, 0, 1));
  }

  const weir_backend_table &t;
  weir_be_state *s;
  int failures_ = 0;
};

void sweep(int64_t code) {
  const Setting version("WEIR_HIP_LOOKALIKE_VERSION", "70125424");
  uint64_t calls = 0;
  {
    const Machine machine(devices);
    const Backend backend("batch_copy=1");
    const uint64_t before = libraries().calls(nullptr);
    Walk walk(backend);
    walk.run();
    assert_int_equal(walk.failures(), 0);
    calls = libraries().calls(nullptr) - before;
  }
  assert_true(calls > 60);
  uint64_t met = 0;
  const auto step = static_cast<uint64_t>(stride());
  for (uint64_t nth = 1; nth <= calls; nth += step) {
    const Machine machine(devices);
    {
      const Backend backend("batch_copy=1");
      libraries().fail_call(nullptr, nth, code);
      Walk walk(backend);
      walk.run();
      met += walk.failures() != 0 ? 1 : 0;
      // The same walk again, and whole, on what the failure left.
      libraries().fail_call(nullptr, 0, 0);
      Walk again(backend);
      again.run();
      assert_int_equal(again.failures(), 0);
    }
    machine.census();
  }
  // Many calls matter to the entry that makes them; others only ask, once more, or end what is ended all the same.
  assert_true(met > 50 / step);
}

void test_every_call_unknown(void **) { sweep(weir::cuda::abi::result::unknown); }
void test_every_call_memory(void **) { sweep(weir::cuda::abi::result::out_of_memory); }

/// Every call while the runtime starts: it does not start and says why, or starts, perhaps with less.
void test_every_call_of_start(void **) {
  uint64_t calls = 0;
  {
    const Machine machine(devices);
    const uint64_t before = libraries().calls(nullptr);
    const Backend backend("batch_copy=1");
    calls = libraries().calls(nullptr) - before;
  }
  const auto step = static_cast<uint64_t>(stride());
  for (uint64_t nth = 1; nth <= calls; nth += step) {
    const Machine machine(devices);
    libraries().fail_call(nullptr, nth, weir::cuda::abi::result::unknown);
    weir_be_start desc{};
    desc.struct_size = sizeof desc;
    desc.options = "";
    weir_be_state *state = nullptr;
    const char *reason = nullptr;
    const weir_result result = libraries().table->start(&desc, &state, &reason);
    if (result == WEIR_SUCCESS) {
      libraries().table->stop(state);
    } else {
      assert_null(state);
      assert_true(reason != nullptr && std::strlen(reason) > 10);
    }
    machine.census();
  }
}

/// Every call while a state that has everything ends: the rest ends all the same.
void test_every_call_of_stop(void **) {
  const auto step = static_cast<uint64_t>(stride());
  for (uint64_t nth = 1; nth <= 60; nth += step) {
    const Machine machine(devices);
    {
      Backend backend;
      const weir_backend_table &t = *backend.t;
      weir_be_granule granule = 0;
      uint64_t range = 0, plain = 0;
      void *memory = nullptr;
      weir_be_stream stream = nullptr;
      weir_be_fence fence = 0;
      ASSERT_OK(t.granule_create(backend.state, 0, unit, 0, &granule));
      ASSERT_OK(t.range_reserve(backend.state, 0, 4 * unit, unit, &range));
      ASSERT_OK(t.map(backend.state, 0, range, unit, granule, 0, nullptr, 0));
      ASSERT_OK(t.plain_allocate(backend.state, 1, mib, 256, &plain));
      ASSERT_OK(t.host_allocate(backend.state, mib, &memory));
      ASSERT_OK(t.stream_create(backend.state, 1, 0, &stream));
      ASSERT_OK(t.fill_async(backend.state, stream, plain, 1, mib));
      ASSERT_OK(t.fence_record(backend.state, stream, &fence));
      libraries().fail_call(nullptr, nth, weir::cuda::abi::result::unknown);
      backend.stop();
    }
    machine.census();
  }
}

void test_lost_device(void **) {
  const Machine machine(devices);
  {
    const Backend backend("batch_copy=1");
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_stream stream = nullptr, other = nullptr;
    weir_be_fence before = 0, fence = 0;
    weir_be_granule granule = 0;
    uint64_t plain = 0, elsewhere = 0, range = 0;
    ASSERT_OK(t.stream_create(s, 0, 0, &stream));
    ASSERT_OK(t.stream_create(s, 1, 0, &other));
    ASSERT_OK(t.plain_allocate(s, 0, mib, 256, &plain));
    ASSERT_OK(t.plain_allocate(s, 1, mib, 256, &elsewhere));
    ASSERT_OK(t.granule_create(s, 0, unit, 0, &granule));
    ASSERT_OK(t.range_reserve(s, 0, unit, unit, &range));
    ASSERT_OK(t.map(s, 0, range, unit, granule, 0, nullptr, 0));
    ASSERT_OK(t.fence_record(s, stream, &before));
    libraries().lose_device(0);
    assert_int_equal(t.fill_async(s, stream, plain, 1, mib), WEIR_ERROR_DEVICE_LOST);
    assert_int_equal(t.fence_record(s, stream, &fence), WEIR_ERROR_DEVICE_LOST);
    assert_int_equal(t.fence_wait(s, before, UINT64_MAX), WEIR_ERROR_DEVICE_LOST);
    assert_int_equal(t.stream_synchronize(s, stream), WEIR_ERROR_DEVICE_LOST);
    weir_be_granule more = 0;
    assert_int_equal(t.granule_create(s, 0, unit, 0, &more), WEIR_ERROR_DEVICE_LOST);
    assert_int_equal(t.plain_allocate(s, 0, mib, 256, &plain), WEIR_ERROR_DEVICE_LOST);
    ASSERT_OK(t.fence_destroy(s, before));
    ASSERT_OK(t.stream_destroy(s, stream));
    // The other device goes on.
    ASSERT_OK(t.fill_async(s, other, elsewhere, 1, mib));
    ASSERT_OK(t.stream_synchronize(s, other));
  }
  // Nothing of a lost device can be ended, so there is no census; that stop() came back is what counts.
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_every_call_unknown),  cmocka_unit_test(test_every_call_memory),
      cmocka_unit_test(test_every_call_of_start), cmocka_unit_test(test_every_call_of_stop),
      cmocka_unit_test(test_lost_device),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
