// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks share: owners of the C handles, a clock, interleaved repetitions with a yardstick,
// and one line of JSON. Header only, over the public C API alone. A benchmark exits 1 only if a call fails;
// it must never judge a number: goals are printed beside what was measured, for a person to compare.
#pragma once

#include <weir/weir.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace weir::bench {

constexpr uint64_t kib = uint64_t{1} << 10;
constexpr uint64_t mib = uint64_t{1} << 20;

/// A number with K, M or G; 0 if it is none.
inline uint64_t size_of(const char *text) {
  char *end = nullptr;
  const uint64_t number = std::strtoull(text, &end, 10);
  const std::string_view suffix(end);
  if (suffix.empty()) return number;
  if (suffix == "K") return number * kib;
  if (suffix == "M") return number * mib;
  return suffix == "G" ? number * 1024 * mib : 0;
}

inline void check(weir_result result, const char *call) {
  if (result == WEIR_SUCCESS) return;
  std::fprintf(stderr, "%s: %s: %s\n", call, weir_result_string(result), weir_last_error());
  std::exit(1);
}
#define WEIR_BENCH_TRY(call) ::weir::bench::check((call), #call)

inline double now_ns() {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count());
}

/// The thread's own, for what never waits: a busy machine lengthens it little.
inline double cpu_ns() {
  timespec used{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// A timed part and its yardstick, in the unit the caller measured in.
struct Pair {
  double subject = 0;    ///< median
  double yardstick = 0;  ///< median
  double ratio = 0;      ///< median of the ratios of each repetition, not the ratio of the medians
  double ratio_low =
      0;  ///< smallest and largest of them: what the machine's other tenants do to it
  double ratio_high = 0;
};

/// Runs both `repetitions` times, alternating which goes first so that neither always finds the other's
/// caches. Each returns the time (or whatever) of its own run.
template <class Subject, class Yardstick>
Pair interleave(int repetitions, Subject &&subject, Yardstick &&yardstick) {
  std::vector<double> subjects;
  std::vector<double> yardsticks;
  std::vector<double> ratios;
  for (int i = 0; i < repetitions; ++i) {
    const bool subject_first = i % 2 == 0;
    double a = subject_first ? subject() : 0;
    const double b = yardstick();
    if (!subject_first) a = subject();
    subjects.push_back(a);
    yardsticks.push_back(b);
    ratios.push_back(a / b);
  }
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return {median(subjects), median(yardsticks), median(ratios), *low, *high};
}

/// A context with one pool on its first device, or its first several, and one stream on the first. Buffers of it die with
/// the pool.
class Rig {
 public:
  Rig(const std::string &options, const weir_pool_desc &desc, uint64_t device_budget,
      uint32_t device_count = 1)
      : Rig(with_options(options.c_str()), desc, device_budget, device_count) {}
  Rig(const weir_context_desc &context, weir_pool_desc desc, uint64_t device_budget,
      uint32_t device_count = 1) {
    WEIR_BENCH_TRY(weir_context_create(&context, &context_));
    std::vector<weir_pool_device> devices;
    for (uint32_t i = 0; i < device_count; ++i) devices.push_back({i, 0, device_budget, {0, 0}});
    desc.devices = devices.data();
    desc.device_count = device_count;
    WEIR_BENCH_TRY(weir_pool_create(context_, &desc, &pool_));
    stream_ = add_stream();
  }
  ~Rig() {
    for (weir_stream stream : streams_) WEIR_BENCH_TRY(weir_stream_synchronize(stream));
    WEIR_BENCH_TRY(weir_pool_destroy(pool_));
    for (weir_stream stream : streams_) WEIR_BENCH_TRY(weir_stream_close(stream));
    WEIR_BENCH_TRY(weir_context_destroy(context_));
  }
  Rig(const Rig &) = delete;
  Rig &operator=(const Rig &) = delete;

  weir_context context() const { return context_; }
  weir_pool pool() const { return pool_; }
  weir_stream stream() const { return stream_; }

  weir_stream add_stream(weir_device device = 0) {
    weir_stream stream = nullptr;
    WEIR_BENCH_TRY(weir_stream_create(context_, device, 0, &stream));
    streams_.push_back(stream);
    return stream;
  }
  weir_buffer add_buffer(uint64_t size, weir_device home = WEIR_DEVICE_DEFAULT) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = size;
    desc.home = home;
    weir_buffer buffer = nullptr;
    WEIR_BENCH_TRY(weir_buffer_create(pool_, &desc, &buffer));
    return buffer;
  }
  /// One acquire and its release; returns the address.
  uint64_t touch(weir_buffer buffer, uint32_t mode) { return touch(stream_, buffer, mode); }
  uint64_t touch(weir_stream stream, weir_buffer buffer, uint32_t mode) {
    weir_use use = WEIR_USE(buffer, mode);
    weir_lease lease = nullptr;
    check(weir_acquire(pool_, stream, &use, 1, nullptr, &lease), "weir_acquire");
    check(weir_release(lease, stream), "weir_release");
    return use.address;
  }
  void synchronize() { WEIR_BENCH_TRY(weir_stream_synchronize(stream_)); }

  weir_pool_stats stats() const {
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    WEIR_BENCH_TRY(weir_pool_stats_get(pool_, &stats));
    return stats;
  }

 private:
  static weir_context_desc with_options(const char *options) {
    weir_context_desc context = WEIR_CONTEXT_DESC_INIT;
    context.options = options;
    return context;
  }

  weir_context context_ = nullptr;
  weir_pool pool_ = nullptr;
  weir_stream stream_ = nullptr;
  std::vector<weir_stream> streams_;
};

/// One JSON object on one line, in the order the fields are added.
class Json {
 public:
  explicit Json(const char *benchmark)
      : text_(std::string("{\"benchmark\":\"") + benchmark + '"') {}
  Json &text(const char *name, const char *value) {
    text_ += std::string(",\"") + name + "\":\"";
    for (; *value != '\0'; ++value) {
      if (*value == '"' || *value == '\\') text_ += '\\';
      text_ += static_cast<unsigned char>(*value) < ' ' ? ' ' : *value;
    }
    text_ += '"';
    return *this;
  }
  Json &number(const char *name, double value) {
    char buffer[48];
    std::snprintf(buffer, sizeof buffer, "%.6g", value);
    text_ += std::string(",\"") + name + "\":" + buffer;
    return *this;
  }
  Json &count(const char *name, uint64_t value) {
    text_ += std::string(",\"") + name + "\":" + std::to_string(value);
    return *this;
  }
  Json &pair(const char *subject, const char *yardstick, const Pair &pair) {
    return number(subject, pair.subject)
        .number(yardstick, pair.yardstick)
        .number("ratio", pair.ratio)
        .number("ratio_low", pair.ratio_low)
        .number("ratio_high", pair.ratio_high);
  }
  std::string object() const { return text_ + '}'; }
  void print() {
    std::printf("%s\n", object().c_str());
    std::fflush(stdout);
  }

 private:
  std::string text_;
};

}  // namespace weir::bench
