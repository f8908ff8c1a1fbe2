// SPDX-License-Identifier: Apache-2.0
//
// RangeLog: what a profiler's library was told, thread by thread, in order; and what is wrong with it: a range that ends where none has
// begun, one that has not ended. The fakes of NVTX's and roctx's libraries keep one each, which tests get by weir_test_range_log().
//
// What must hold: it is never destroyed where the process tells ranges to its end. It answers what it saw and corrects nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace weir::test {

struct RangeEvent {
  uint32_t thread = 0;
  bool begins = false;
  std::string text, domain;
  uint32_t category = 0;
};

class RangeLog {
 public:
  void push(const std::string &domain, const char *text, uint32_t category = 0) {
    const uint32_t thread = thread_number();
    const std::lock_guard hold(mutex_);
    open_[{thread, domain}].push_back(text);
    events_.push_back({thread, true, text, domain, category});
    ++pushes_;
  }
  void pop(const std::string &domain) {
    const uint32_t thread = thread_number();
    const std::lock_guard hold(mutex_);
    ++pops_;
    std::vector<std::string> &open = open_[{thread, domain}];
    if (open.empty()) {
      fault("thread " + std::to_string(thread) + " ends a range, and none has begun");
      return;
    }
    events_.push_back({thread, false, open.back(), domain, 0});
    open.pop_back();
  }
  void fault(const std::string &what) {
    if (fault_.empty()) fault_ = what;
  }
  /// What was told since the last clear().
  std::vector<RangeEvent> events() const {
    const std::lock_guard hold(mutex_);
    return events_;
  }
  void clear() {
    const std::lock_guard hold(mutex_);
    events_.clear();
  }
  uint64_t pushes() const { return pushes_; }
  uint64_t pops() const { return pops_; }
  /// "" or what is wrong, when no thread is within a range any more.
  std::string wrong() const {
    const std::lock_guard hold(mutex_);
    if (!fault_.empty()) return fault_;
    for (const auto &[where, open] : open_)
      if (!open.empty())
        return "thread " + std::to_string(where.first) + " has not ended '" + open.back() + "'";
    return "";
  }
  /// The same into a file, for who looks after the process has ended.
  void report(const char *path) const {
    std::FILE *const file = std::fopen(path, "w");
    if (file == nullptr) return;
    std::fprintf(file, "pushes %llu pops %llu wrong '%s'\n",
                 static_cast<unsigned long long>(pushes_), static_cast<unsigned long long>(pops_),
                 wrong().c_str());
    (void)std::fclose(file);
  }

 private:
  static uint32_t thread_number() {
    static std::atomic<uint32_t> given{0};
    static thread_local const uint32_t number = ++given;
    return number;
  }

  mutable std::mutex mutex_;
  std::vector<RangeEvent> events_;
  std::map<std::pair<uint32_t, std::string>, std::vector<std::string>> open_;
  std::string fault_;
  std::atomic<uint64_t> pushes_{0}, pops_{0};
};

}  // namespace weir::test
