// SPDX-License-Identifier: Apache-2.0
//
// The backend that bench_device is about: its plugin loaded by path, for contexts of the C ABI and for yardsticks that
// go through its table. Yardsticks have a state of their own, so that nothing of Weir stands between them and the runtime.
// A call that fails ends the program: a benchmark has nothing to say then.
#pragma once

#include "bench/common.hpp"

#include <weir/backend.h>

#include <string>

namespace weir::bench {

/// What the command line asked for.
struct Settings {
  std::string backend = "host";
  std::string only;  ///< one part, or "" for all
  std::string json;  ///< also write one document there
  uint64_t bytes = 1024 * mib;
  uint64_t page = 32 * mib;
  uint64_t run = 1;     ///< pages in one buffer: neighbours
  std::string options;  ///< for the backend, without its name: "batch_copy=0"
  uint64_t allocation_max = 64 * mib;
  int allocation_pairs = 20000;
  int repetitions = 7;
  bool optional = false;  ///< a backend that can't start is told, and ends the program with 77

  bool wants(const char *part) const { return only.empty() || only == part; }
  uint64_t pages() const { return bytes / page; }
  uint64_t buffers() const { return pages() / run; }
};

class Backend {
 public:
  explicit Backend(const Settings &settings);
  ~Backend();
  Backend(const Backend &) = delete;
  Backend &operator=(const Backend &) = delete;

  const weir_backend_table &table() const { return *table_; }
  weir_be_state *state() const { return state_; }
  const weir_be_device &device() const { return device_; }
  const char *version() const { return table_->runtime_version(state_); }
  bool has(uint64_t capability) const { return (device_.capabilities & capability) != 0; }
  /// The vendors' libraries and their stand-ins that this process has loaded, by name, joined by spaces.
  const std::string &libraries() const { return libraries_; }
  /// A device of silicon: only there do times mean anything.
  bool real() const { return real_; }
  /// A context of the C ABI over this backend alone. The descriptor points into this object.
  weir_context_desc context() const;
  void must(weir_result result, const char *call) const;

 private:
  std::string options(const std::string &prefix) const;

  const Settings &settings_;
  void *library_ = nullptr;
  weir_backend_query_fn query_ = nullptr;
  const weir_backend_table *table_ = nullptr;
  weir_be_state *state_ = nullptr;
  weir_be_device device_{};
  std::string libraries_;
  std::string options_;
  bool real_ = false;
};

/// Pinned host memory of the backend, touched once.
class Pinned {
 public:
  Pinned(const Backend &backend, uint64_t bytes);
  ~Pinned();
  Pinned(const Pinned &) = delete;
  Pinned &operator=(const Pinned &) = delete;
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }

 private:
  const Backend &backend_;
  const uint64_t bytes_;
  void *memory_ = nullptr;
};

/// Plain memory of the device.
class Plain {
 public:
  Plain(const Backend &backend, uint64_t bytes);
  ~Plain();
  Plain(const Plain &) = delete;
  Plain &operator=(const Plain &) = delete;
  uint64_t address() const { return address_; }

 private:
  const Backend &backend_;
  const uint64_t bytes_;
  uint64_t address_ = 0;
};

/// A stream of the backend.
class Queue {
 public:
  explicit Queue(const Backend &backend);
  ~Queue();
  Queue(const Queue &) = delete;
  Queue &operator=(const Queue &) = delete;
  weir_be_stream handle() const { return stream_; }
  void *native() const;
  void copy(uint64_t to, uint64_t from, uint64_t bytes) const;
  void wait() const;

 private:
  const Backend &backend_;
  weir_be_stream stream_ = nullptr;
};

}  // namespace weir::bench
