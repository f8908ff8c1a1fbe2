// SPDX-License-Identifier: Apache-2.0
//
// A pool on the CUDA backend, whose every call of the driver fails once, with each code that leaves a doubt about the device.
// Where the device answers when it is asked again, it stays in the pool, and what failed works the second time. Where it does
// not answer it is lost, once and told: what lies elsewhere is read, what lay there only is told as lost, never read wrong.
#include "tests/abi/pool_fixture.hpp"
#include "tests/support/stride.hpp"

#include <dlfcn.h>

#include <atomic>
#include <map>

namespace weir::test {
namespace {

constexpr uint64_t size = 128 << 10;
constexpr uint32_t count = 4;
constexpr int64_t unavailable = 46, external_device = 911, unknown = 999;

std::string in_library(const char *path) {
  return std::string(std::getenv("WEIR_LIB_DIR")) + "/" + path;
}

template <typename Function>
Function *control(const char *name) {
  static void *library = dlopen(in_library("drivers/libweir_sim_cuda.so").c_str(), RTLD_NOW);
  assert_non_null(library);
  void *symbol = dlsym(library, name);
  assert_non_null(symbol);
  Function *function = nullptr;
  std::memcpy(&function, &symbol, sizeof symbol);
  return function;
}

/// How often each function of the driver was called.
using Calls = std::map<std::string, uint64_t>;
Calls calls() {
  static auto *const count_calls = control<uint64_t(const char *)>("weir_sim_calls");
  static auto *const name_call = control<const char *(uint64_t)>("weir_sim_call_name");
  Calls all;
  for (uint64_t i = 0; name_call(i) != nullptr; ++i) all[name_call(i)] = count_calls(name_call(i));
  return all;
}

struct Failure {
  std::string function;
  uint64_t nth = 0;  ///< call of it after the pool is there; 0: none
  int64_t code = 0;
  bool stays = false;
};

/// Four buffers on room for two, so that pages leave the device and come back.
class Run {
 public:
  explicit Run(const Failure &failure) : failure_(failure) {
    assert_int_equal(
        control<int(const char *)>("weir_sim_configure")("memory=4M;granule=64K;mode=strict"), 0);
    setenv("WEIR_CUDA_LIBRARY", in_library("drivers/libweir_sim_cuda.so").c_str(), 1);
    const std::string backend = in_library("weir/1/libweir_backend_cuda.so");
    const char *paths[] = {backend.c_str(), nullptr};
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_NO_HOST_BACKEND;
    desc.backend_paths = paths;
    ok(weir_context_create(&desc, &context_));
    weir_pool_device place{0, 0, 2 * size, {0, 0}};
    weir_pool_desc pool = WEIR_POOL_DESC_INIT;
    pool.flags = WEIR_POOL_NO_BACKGROUND;
    pool.devices = &place;
    pool.device_count = 1;
    pool.host_budget = 4 << 20;
    pool.page_size = pool.large_page_size = 64 << 10;
    ok(weir_pool_create(context_, &pool, &pool_));
    ok(weir_pool_set_loss_callback(pool_, tell, this));
    ok(weir_stream_create(context_, 0, 0, &stream_));
  }

  /// Returns the calls of the driver's functions.
  Calls all() {
    const Calls before = calls();
    auto *const fail_call = control<void(const char *, uint64_t, int64_t)>("weir_sim_fail");
    if (failure_.nth != 0) fail_call(failure_.function.c_str(), failure_.nth, failure_.code);
    if (failure_.stays) control<void()>("weir_sim_sticky")();
    for (uint32_t i = 0; i < count; ++i) {
      weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
      desc.size = size;
      attempt([&] { return weir_buffer_create(pool_, &desc, &buffers_[i]); });
      write(i, i);
    }
    for (uint32_t i = 0; i < count; ++i) use(i);
    for (uint32_t i = count; i-- > 0;) use(i);
    Calls made = calls();
    for (const auto &[function, calls_of] : before) made[function] -= calls_of;
    if (failure_.nth != 0) fail_call(failure_.function.c_str(), 0, 0);
    return made;
  }

  void nothing_is_lost() {
    for (uint32_t i = 0; i < count; ++i) check(i, i);
    assert_int_equal(state(), WEIR_POOL_DEVICE_PRESENT);
    assert_int_equal(told_, 0);
    assert_false(lost_);
  }

  void the_device_is_lost() {
    for (uint32_t i = 0; i < count && !lost_; ++i) use(i);
    if (!lost_) {
      fail_msg("%s %llu failing with %lld for good: no call tells of a loss",
               failure_.function.c_str(), static_cast<unsigned long long>(failure_.nth),
               static_cast<long long>(failure_.code));
    }
    assert_int_equal(state(), WEIR_POOL_DEVICE_LOST);
    // What is read is right, or said to be lost. Written anew it is there again, where there is host memory for it: more of
    // that is made in the context that is gone.
    for (uint32_t i = 0; i < count; ++i) {
      if (buffers_[i] == 0) continue;
      check(i, i);
      write(i, i + count);
      check(i, i + count);
    }
    while (told_ == 0) std::this_thread::yield();
    assert_int_equal(told_, 1);
  }

  void close() {
    // The context ends what a lost device did not.
    const weir_result closed = weir_stream_close(stream_);
    if (!lost_ || closed != WEIR_ERROR_DEVICE_LOST) ok(closed);
    for (const weir_buffer each : buffers_) {
      if (each != 0) ok(weir_buffer_destroy(pool_, each));
    }
    ok(weir_pool_destroy(pool_));
    ok(weir_context_destroy(context_));
  }

 private:
  static void tell(void *user, const weir_device_loss *) { ++static_cast<Run *>(user)->told_; }

  static std::vector<unsigned char> pattern_of(uint32_t which) {
    std::vector<unsigned char> bytes(size);
    for (uint64_t at = 0; at < size; ++at) bytes[at] = pattern(which, at);
    return bytes;
  }

  /// A call that may fail once: the second time it works, or the device is lost. Whether it worked.
  template <class Call>
  bool attempt(Call call) {
    weir_result result = WEIR_SUCCESS;
    for (int i = 0; i < 2; ++i) {
      result = call();
      if (result == WEIR_SUCCESS) return true;
      lost_ = lost_ || result == WEIR_ERROR_DEVICE_LOST;
    }
    if (!lost_) {
      fail_msg("%s %llu failing with %lld: %s", failure_.function.c_str(),
               static_cast<unsigned long long>(failure_.nth), static_cast<long long>(failure_.code),
               weir_last_error());
    }
    return false;
  }

  void write(uint32_t i, uint32_t which) {
    if (buffers_[i] == 0) return;
    const std::vector<unsigned char> bytes = pattern_of(which);
    written_[i] =
        attempt([&] { return weir_buffer_write(pool_, buffers_[i], 0, size, bytes.data()); });
  }

  void use(uint32_t i) {
    if (buffers_[i] == 0) return;
    weir_use use = WEIR_USE(buffers_[i], WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    if (attempt([&] { return weir_acquire(pool_, stream_, &use, 1, nullptr, &lease); }))
      attempt([&] { return weir_release(lease, stream_); });
  }

  void check(uint32_t i, uint32_t which) {
    if (!written_[i]) return;
    std::vector<unsigned char> back(size);
    if (!attempt([&] { return weir_buffer_read(pool_, buffers_[i], 0, size, back.data()); }))
      return;
    if (back != pattern_of(which)) {
      fail_msg("%s %llu failing with %lld: buffer %u has other bytes", failure_.function.c_str(),
               static_cast<unsigned long long>(failure_.nth), static_cast<long long>(failure_.code),
               i);
    }
  }

  uint32_t state() const {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(pool_, 0, &stats));
    return stats.state;
  }

  const Failure failure_;
  weir_context context_ = nullptr;
  weir_pool pool_ = nullptr;
  weir_stream stream_ = nullptr;
  weir_buffer buffers_[count] = {};
  bool written_[count] = {};
  bool lost_ = false;
  std::atomic<int> told_{0};
};

/// Every function of the driver, at its first calls and ever more seldom after them: a fence is asked for as often as the machine
/// is slow.
template <class Judge>
void each_call(int64_t code, bool stays, Judge judge) {
  Run whole({});
  const Calls all = whole.all();
  whole.nothing_is_lost();
  whole.close();
  uint64_t functions = 0;
  for (const auto &[function, calls_of] : all) {
    functions += calls_of != 0 ? 1 : 0;
    for (uint64_t n = 1; n <= calls_of; n += n / 2 + static_cast<uint64_t>(stride())) {
      Run run({function, n, code, stays});
      // The last calls may not come this time.
      if (run.all()[function] >= n) judge(run);
      run.close();
    }
  }
  assert_true(functions > 10);
}

void a_device_that_answers_again_stays_in_the_pool(void **) {
  const auto judge = [](Run &run) { run.nothing_is_lost(); };
  for (const int64_t code : {unknown, external_device, unavailable}) each_call(code, false, judge);
}

void a_device_that_does_not_answer_is_lost(void **) {
  const auto judge = [](Run &run) { run.the_device_is_lost(); };
  for (const int64_t code : {unknown, external_device}) each_call(code, true, judge);
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_device_that_answers_again_stays_in_the_pool),
      cmocka_unit_test(a_device_that_does_not_answer_is_lost),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
