// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/options.hpp - the C descriptors with defaults. All are aggregates: set members one by one in C++17, or name them
// in C++20 (pool_desc{.host_budget = 1 << 30}). A default is what the C macro *_INIT has, and the fields mean what the C
// header says; there are no struct_size and no reserved words to fill in.
//
// c_struct gives the C descriptor of one, for calls of the C ABI by hand. What it points to is the options' own: they must
// stay as they are for as long as it is used.
#ifndef WEIR_CPP_OPTIONS_HPP
#define WEIR_CPP_OPTIONS_HPP

#include <weir/cpp/config.hpp>

#include <cstdint>
#include <optional>
#include <vector>

WEIR_CPP_BEGIN

/// weir_context_desc: what a context is made with.
struct context_desc {
  const char *options = nullptr; /**< "host.memory=64M;..."; NULL reads WEIR_OPTIONS */
  uint64_t flags = 0;            /**< WEIR_CONTEXT_* */
  std::vector<weir_backend_query_fn> backends = {}; /**< linked into the program */
  /** Libraries to load by path. Empty and not NULL-terminated: the search folder's alone. */
  std::vector<const char *> backend_paths = {};
  weir_allocator allocator = {nullptr, nullptr, nullptr, {nullptr, nullptr, nullptr}};
  weir_log_callback log = nullptr;
  void *log_user = nullptr;
  uint64_t start_timeout_ns = 0; /**< 0: 60 s */
  std::vector<weir_native> natives = {}; /**< the program's own objects, for backends to use */
};

/// weir_pool_device: a device of a pool, and how much of its memory the pool may hold.
struct pool_device {
  weir_device device = 0;
  uint64_t budget = 0; /**< bytes */

  operator weir_pool_device() const noexcept { return {device, 0, budget, {0, 0}}; }
};

/// weir_pool_desc: what a pool is made with. `devices` must be given.
struct pool_desc {
  std::vector<pool_device> devices = {}; /**< the first is WEIR_DEVICE_DEFAULT */
  uint64_t flags = 0;                    /**< WEIR_POOL_* */
  uint64_t host_budget = 0; /**< 0: follows the machine; WEIR_NONE: none but for staging */
  uint64_t compressed_budget = 0; /**< 0: no such tier */
  uint64_t storage_budget = 0;    /**< 0: no such tier */
  std::vector<const char *> storage_paths = {}; /**< existing folders, for spill files */
  uint64_t page_size = 0;
  uint64_t large_page_size = 0;
  uint32_t watermark_low_permille = 0;
  uint32_t watermark_high_permille = 0;
  uint64_t evict_wait_ns = 0;
  const char *policy = nullptr;
  const char *name = nullptr;
  uint32_t compress_threads = 0;
  uint32_t compress_share_percent = 0;
  const char *codec = nullptr;
  uint64_t idle_grace_ns = 0;
  uint64_t segment_size = 0;
  uint64_t recompress_idle_ns = 0;
  uint64_t rebalance_bytes_per_second = 0;
  uint64_t record_budget = 0;
  uint64_t policy_memory = 0;      /**< bytes for what "auto" learns */
  uint32_t policy_cpu_percent = 0; /**< of one CPU, for "auto" to learn and plan */
};

/// weir_client_desc: a client, to which bytes are charged.
struct client_desc {
  const char *name = nullptr;
  int32_t priority = WEIR_PRIORITY_NORMAL;
  uint64_t device_quota = 0; /**< 0: the pool's budget; WEIR_NONE: nothing. So are the others. */
  uint64_t host_quota = 0;
  uint64_t compressed_quota = 0;
  uint64_t storage_quota = 0;

  operator weir_client_desc() const noexcept {
    weir_client_desc c = WEIR_CLIENT_DESC_INIT;
    c.priority = priority, c.name = name;
    c.device_quota = device_quota, c.host_quota = host_quota;
    c.compressed_quota = compressed_quota, c.storage_quota = storage_quota;
    return c;
  }
};

/// weir_shard_desc: how a buffer is dealt out to several devices.
struct shard_desc {
  uint32_t policy = WEIR_SHARD_STRIPED;
  std::vector<weir_device> devices = {};
  std::vector<uint32_t> weights = {}; /**< empty: all alike; else as many as devices */
  uint64_t stripe = 0;
};

/// weir_buffer_desc: what a buffer is made with. `size` must be given; its client is an argument of buffer::create.
struct buffer_desc {
  uint64_t size = 0;
  uint64_t flags = 0; /**< WEIR_BUFFER_* */
  uint64_t alignment = 0;
  int32_t priority = WEIR_PRIORITY_NORMAL;
  weir_device home = WEIR_DEVICE_DEFAULT;
  uint32_t element = WEIR_ELEMENT_ANY;
  uint64_t tag = 0;
  std::vector<weir_device> users = {};
  std::optional<shard_desc> shards = {};
  const char *name = nullptr; /**< what errors, reports and snapshots call it */
};

/// weir_acquire_options: how to acquire.
struct acquire_options {
  uint64_t flags = 0;              /**< WEIR_ACQUIRE_* */
  uint64_t timeout_ns = 0;         /**< 0: do not wait; WEIR_INFINITE needs SOLE_HOLDER */
  const char *operation = nullptr; /**< a name for the policy to learn from, looked up by each acquire */
  uint32_t operation_id = 0;       /**< its number, of pool::operation_id, which costs nothing; 0: none */

  operator weir_acquire_options() const noexcept {
    weir_acquire_options c = WEIR_ACQUIRE_OPTIONS_INIT;
    c.flags = flags, c.timeout_ns = timeout_ns, c.operation = operation;
    c.operation_id = operation_id;
    return c;
  }
};

/// weir_defragment_desc: bounds of one call. 0: no bound.
struct defragment_desc {
  weir_device device = WEIR_DEVICE_ALL;
  uint64_t flags = 0; /**< WEIR_DEFRAGMENT_* */
  uint64_t max_bytes = 0;
  uint64_t max_moves = 0;
  uint64_t max_ns = 0;
  uint32_t max_cost_permille = 0;
  weir_defragment_break should_stop = nullptr;
  void *user = nullptr;

  operator weir_defragment_desc() const noexcept {
    weir_defragment_desc c = WEIR_DEFRAGMENT_DESC_INIT;
    c.device = device, c.flags = flags;
    c.max_bytes = max_bytes, c.max_moves = max_moves, c.max_ns = max_ns;
    c.max_cost_permille = max_cost_permille, c.should_stop = should_stop, c.user = user;
    return c;
  }
};

/// weir_defragmentation_desc: defragmentation in the background; a threshold of 0 ends it.
struct defragmentation_desc {
  uint32_t threshold_permille = 0;
  uint64_t bytes_per_second = 0;
  uint32_t max_cost_permille = 0;

  operator weir_defragmentation_desc() const noexcept {
    weir_defragmentation_desc c = WEIR_DEFRAGMENTATION_DESC_INIT;
    c.threshold_permille = threshold_permille, c.bytes_per_second = bytes_per_second;
    c.max_cost_permille = max_cost_permille;
    return c;
  }
};

/// weir_calibrate_desc: how long, and with how much memory, to measure links.
struct calibrate_desc {
  uint64_t flags = 0; /**< WEIR_CALIBRATE_* */
  uint64_t max_ns = 0;
  uint64_t max_bytes = 0;

  operator weir_calibrate_desc() const noexcept {
    weir_calibrate_desc c = WEIR_CALIBRATE_DESC_INIT;
    c.flags = flags, c.max_ns = max_ns, c.max_bytes = max_bytes;
    return c;
  }
};

/// weir_trace_desc: what a trace is, and where it is written. `path` must be given.
struct trace_desc {
  uint32_t kind = WEIR_TRACE_TIMELINE; /**< WEIR_TRACE_* */
  const char *path = nullptr;          /**< of a file that is not there yet */
  uint64_t max_bytes = 0;              /**< 0: 1 GiB */

  operator weir_trace_desc() const noexcept {
    weir_trace_desc c = WEIR_TRACE_DESC_INIT;
    c.kind = kind, c.path = path, c.max_bytes = max_bytes;
    return c;
  }
};

/// The C descriptor of options that hold lists, with the lists as C has them. It is neither copied nor moved.
template <class Options>
class c_struct;

template <>
class c_struct<context_desc> {
 public:
  explicit c_struct(const context_desc &from) : paths_(from.backend_paths) {
    c_.options = from.options, c_.flags = from.flags, c_.allocator = from.allocator;
    c_.backend_count = static_cast<uint32_t>(from.backends.size());
    c_.backends = from.backends.data();
    if (!paths_.empty()) {
      paths_.push_back(nullptr);
      c_.backend_paths = paths_.data();
    }
    c_.log = from.log, c_.log_user = from.log_user;
    c_.start_timeout_ns = from.start_timeout_ns;
    c_.natives = from.natives.empty() ? nullptr : from.natives.data();
    c_.native_count = static_cast<uint32_t>(from.natives.size());
  }
  c_struct(const c_struct &) = delete;
  c_struct &operator=(const c_struct &) = delete;
  const weir_context_desc *get() const noexcept { return &c_; }

 private:
  std::vector<const char *> paths_;
  weir_context_desc c_ = WEIR_CONTEXT_DESC_INIT;
};

template <>
class c_struct<pool_desc> {
 public:
  explicit c_struct(const pool_desc &from) : devices_(from.devices.begin(), from.devices.end()) {
    c_.device_count = static_cast<uint32_t>(devices_.size()), c_.devices = devices_.data();
    c_.flags = from.flags, c_.policy = from.policy, c_.name = from.name, c_.codec = from.codec;
    c_.host_budget = from.host_budget, c_.compressed_budget = from.compressed_budget;
    c_.storage_budget = from.storage_budget, c_.record_budget = from.record_budget;
    c_.storage_paths = from.storage_paths.data();
    c_.storage_path_count = static_cast<uint32_t>(from.storage_paths.size());
    c_.page_size = from.page_size, c_.large_page_size = from.large_page_size;
    c_.watermark_low_permille = from.watermark_low_permille;
    c_.watermark_high_permille = from.watermark_high_permille;
    c_.evict_wait_ns = from.evict_wait_ns, c_.idle_grace_ns = from.idle_grace_ns;
    c_.compress_threads = from.compress_threads;
    c_.compress_share_percent = from.compress_share_percent;
    c_.segment_size = from.segment_size, c_.recompress_idle_ns = from.recompress_idle_ns;
    c_.rebalance_bytes_per_second = from.rebalance_bytes_per_second;
    c_.policy_memory = from.policy_memory, c_.policy_cpu_percent = from.policy_cpu_percent;
  }
  c_struct(const c_struct &) = delete;
  c_struct &operator=(const c_struct &) = delete;
  const weir_pool_desc *get() const noexcept { return &c_; }

 private:
  std::vector<weir_pool_device> devices_;
  weir_pool_desc c_ = WEIR_POOL_DESC_INIT;
};

template <>
class c_struct<buffer_desc> {
 public:
  explicit c_struct(const buffer_desc &from, weir_client client = nullptr) {
    c_.client = client, c_.size = from.size, c_.flags = from.flags;
    c_.alignment = from.alignment, c_.priority = from.priority, c_.home = from.home;
    c_.element = from.element, c_.tag = from.tag, c_.name = from.name;
    c_.users = from.users.empty() ? nullptr : from.users.data();
    c_.user_count = static_cast<uint32_t>(from.users.size());
    if (!from.shards) return;
    const shard_desc &shards = *from.shards;
    shards_.policy = shards.policy, shards_.stripe = shards.stripe;
    shards_.devices = shards.devices.data();
    shards_.device_count = static_cast<uint32_t>(shards.devices.size());
    shards_.weights = weights_of(shards);
    c_.shards = &shards_;
  }
  c_struct(const c_struct &) = delete;
  c_struct &operator=(const c_struct &) = delete;
  const weir_buffer_desc *get() const noexcept { return &c_; }

 private:
  /// The library reads as many weights as there are devices: of a shorter list it is shown a weight that it refuses.
  const uint32_t *weights_of(const shard_desc &shards) {
    if (shards.weights.empty() || shards.weights.size() == shards.devices.size()) {
      return shards.weights.empty() ? nullptr : shards.weights.data();
    }
    refused_.assign(shards.devices.size(), 0);
    return refused_.data();
  }

  std::vector<uint32_t> refused_;
  weir_shard_desc shards_ = WEIR_SHARD_DESC_INIT;
  weir_buffer_desc c_ = WEIR_BUFFER_DESC_INIT;
};

WEIR_CPP_END

#endif  // WEIR_CPP_OPTIONS_HPP
