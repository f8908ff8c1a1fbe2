// SPDX-License-Identifier: Apache-2.0
//
// VmtLines: the lines of a trace "#vmt 2" (docs/trace-format.md), made from what a call was given. It does no I/O, allocates nothing,
// looks nothing up and knows no handle: the recorder gives each thing a number, and writes the text where it belongs.
//
// What must hold: each call appends one whole line, or nothing and false where there is no room; memory of vmt_longest_line bytes
// that is empty has room for any. Names are cut to what the library keeps of them, so that this is true for any input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weir::record {

/// The most bytes of one line, with its line feed.
inline constexpr size_t vmt_longest_line = size_t{64} << 10;

/// Where a line says "-": no stream (weir_malloc, weir_free), no client. As a length: to the end of the buffer (WEIR_WHOLE).
inline constexpr uint64_t vmt_none = UINT64_MAX;

/// The operation of a call: the number that weir_operation_id answered, which the trace has as "OPERATION", else the name that the call was
/// given, else none.
struct VmtOperation {
  uint64_t number = 0;
  std::string_view name;
};

struct VmtDevice {
  uint64_t context = 0, device = 0;
  std::string_view backend, name;
  uint64_t memory = 0, granule = 0, capabilities = 0;
};

struct VmtLink {
  uint64_t context = 0, from = 0, to = 0;  ///< devices; WEIR_DEVICE_HOST is "h"
  std::string_view kind;                   ///< weir_link_kind_string()
  uint64_t bandwidth = 0, latency_ns = 0;
};

/// Fields of weir_pool_desc that say how a pool goes about its work.
struct VmtPace {
  uint64_t watermark_low_permille = 0, watermark_high_permille = 0, evict_wait_ns = 0;
  uint64_t compress_threads = 0, compress_share_percent = 0;
  uint64_t idle_grace_ns = 0, recompress_idle_ns = 0, rebalance_bytes_per_second = 0;
  uint64_t policy_cpu_percent = 0;
};

/// The other fields of weir_pool_desc. What is 0 or empty is left out of the line. Its devices have lines of their own.
struct VmtPool {
  uint64_t pool = 0, context = 0;
  std::string_view name, policy, codec;
  uint64_t flags = 0, host_budget = 0, page_size = 0, large_page_size = 0, segment_size = 0;
  uint64_t compressed_budget = 0, storage_budget = 0, storage_path_count = 0;
  uint64_t record_budget = 0, policy_memory = 0;
  VmtPace pace;
};

/// A counter of weir_pool_stats, or another figure of the pool's.
struct VmtFigure {
  std::string_view name;
  uint64_t value = 0;
};

struct VmtClient {
  uint64_t client = 0, pool = 0;
  std::string_view name;
  int32_t priority = 0;
  uint64_t device_quota = 0, host_quota = 0, compressed_quota = 0, storage_quota = 0;
};

/// The fields of weir_buffer_desc, and of its weir_shard_desc.
struct VmtBuffer {
  uint64_t buffer = 0, pool = 0, size = 0;
  uint64_t client = vmt_none;
  uint64_t home = 0xfffffffe;  ///< WEIR_DEVICE_DEFAULT: left out
  uint64_t flags = 0, alignment = 0, element = 0, tag = 0;
  int32_t priority = 0;
  std::string_view name;
  std::span<const uint32_t> users;  ///< devices
  uint64_t shard_policy = 0;        ///< WEIR_SHARD_*; 0: it has no shards
  std::span<const uint32_t> shard_devices, shard_weights;
  uint64_t stripe = 0;
  uint64_t stack = 0;  ///< of stack(); 0: left out
};

/// An acquire that was granted, or refused; so many lines use() follow.
struct VmtAcquire {
  uint64_t lease = 0;  ///< not looked at by refused()
  uint64_t pool = 0, stream = 0;
  VmtOperation operation;
  uint64_t uses = 0;
  uint64_t flags = 0, timeout_ns = 0;
  uint64_t waited_us = 0;  ///< from the call to its end
  bool async = false;
};

struct VmtUse {
  uint64_t buffer = 0, offset = 0;
  uint64_t length = vmt_none;  ///< WEIR_WHOLE
  uint32_t mode = 0;           ///< WEIR_READ, WEIR_READ_WRITE or WEIR_DISCARD_WRITE
  uint32_t flags = 0;          ///< WEIR_USE_ALLOW_REMOTE makes the mode a capital; others get a key
};

struct VmtRange {
  uint64_t buffer = 0, offset = 0;
  uint64_t length = vmt_none;
};

struct VmtDefragment {
  uint64_t pool = 0;
  uint64_t device = 0;  ///< may be WEIR_DEVICE_ALL
  uint64_t flags = 0, max_bytes = 0, max_moves = 0, max_ns = 0, max_cost_permille = 0;
};

struct VmtDefragmentation {
  uint64_t pool = 0;
  uint64_t threshold_permille = 0, flags = 0, bytes_per_second = 0, max_cost_permille = 0;
};

/// The kinds of objects of which ends() tells the end.
enum class VmtThing : uint8_t { pool, client, stream, buffer };

/// The calls of which bytes() tells: weir_buffer_read, weir_buffer_write, weir_discard.
enum class VmtBytes : uint8_t { read, write, discard };

/// The most bytes of a path, and of all frames of a stack; what is longer is cut.
inline constexpr size_t vmt_longest_path = 4096, vmt_longest_stack = size_t{16} << 10;

class LineText;

class VmtLines {
 public:
  /// Appends to `memory`, which stays the caller's.
  VmtLines(char *memory, size_t capacity) noexcept : memory_(memory), capacity_(capacity) {}

  std::string_view text() const noexcept { return {memory_, size_}; }
  void clear() noexcept { size_ = 0; }

  // The header: first the format, then any keys.
  bool begin() noexcept;
  /// A key is a word; a value has no line end: control characters become "?".
  bool header(std::string_view key, std::string_view value) noexcept;

  // What there is.
  bool context(uint64_t context, std::string_view options) noexcept;
  bool device(const VmtDevice &device) noexcept;
  bool link(const VmtLink &link) noexcept;
  bool pool(const VmtPool &pool) noexcept;
  bool pool_device(uint64_t pool, uint64_t device, uint64_t budget) noexcept;
  bool remove_device(uint64_t pool, uint64_t device) noexcept;
  bool stats(uint64_t pool, std::span<const VmtFigure> figures) noexcept;
  bool client(const VmtClient &client) noexcept;
  bool stream(uint64_t stream, uint64_t context, uint64_t device, bool wrapped) noexcept;
  bool operation_name(uint64_t pool, uint64_t operation, std::string_view name) noexcept;

  /// The object is ended.
  bool ends(VmtThing thing, uint64_t number) noexcept;

  // Buffers.
  bool buffer(const VmtBuffer &buffer) noexcept;
  bool rename(uint64_t buffer, std::string_view name) noexcept;
  bool priority(uint64_t buffer, int32_t priority) noexcept;
  bool bytes(VmtBytes what, const VmtRange &range) noexcept;
  bool advise(const VmtRange &range, uint64_t advice) noexcept;
  bool hold(uint64_t buffer, uint64_t device, uint32_t mode, uint64_t flags) noexcept;
  bool unhold(uint64_t buffer) noexcept;
  bool register_host(uint64_t buffer, uint64_t flags) noexcept;
  bool unregister_host(uint64_t buffer) noexcept;

  // weir_malloc and weir_free. The number may be the address.
  bool allocate(uint64_t allocation, uint64_t pool, uint64_t device, uint64_t stream,
                uint64_t bytes, std::string_view name = {}, uint64_t stack = 0) noexcept;
  bool free(uint64_t allocation, uint64_t stream) noexcept;

  // Leases and what is told ahead.
  bool acquire(const VmtAcquire &acquire) noexcept;
  bool refused(const VmtAcquire &acquire, int32_t result) noexcept;
  bool use(const VmtUse &use) noexcept;
  bool release(uint64_t lease, uint64_t stream) noexcept;
  /// How long the work took from the acquire's fence to that of the release, known when the second has passed.
  bool kernel(uint64_t lease, uint64_t nanoseconds) noexcept;
  bool prefetch(uint64_t pool, uint64_t stream, uint64_t uses) noexcept;
  /// `operations` lines operation() follow, each with its uses.
  bool announce(uint64_t pool, uint64_t stream, uint64_t operations, uint64_t flags) noexcept;
  bool operation(const VmtOperation &operation, uint64_t uses) noexcept;
  bool synchronize(uint64_t stream) noexcept;

  // The rest of what changes where bytes are.
  bool trim(uint64_t pool, uint64_t device, uint64_t level, uint64_t bytes) noexcept;
  bool rebalance(uint64_t pool, uint64_t bytes) noexcept;
  bool defragment(const VmtDefragment &call) noexcept;
  bool defragmentation(const VmtDefragmentation &call) noexcept;
  bool policy_load(uint64_t pool, uint64_t bytes) noexcept;

  // By which calls buffers and allocations were made. A frame of a stack is a text, or "@MODULE+OFFSET", or that and
  // ":FUNCTION"; ";" is between them.
  bool module(uint64_t module, std::string_view path, std::string_view build_id) noexcept;
  bool stack(uint64_t stack, std::string_view frames) noexcept;

  // When, on which thread, where in the program.
  bool time(uint64_t microseconds) noexcept;
  bool thread(uint64_t thread) noexcept;
  bool phase(std::string_view name) noexcept;
  /// So many events are missing here: the recorder had no room for them.
  bool lost(uint64_t events) noexcept;
  /// The last line. Without it a reader says that the program was cut off.
  bool end() noexcept;

 private:
  LineText line(std::string_view kind) noexcept;

  char *memory_;
  size_t capacity_;
  size_t size_ = 0;
};

/// Which lines have to come before that of a call: the clock's, if it shows another microsecond, and the thread's, if another calls. The
/// clock never goes back: what is told late has the time of what was told before it.
class VmtMoment {
 public:
  /// False: no room; what was appended counts, and the rest is asked for again.
  bool at(VmtLines &lines, uint64_t thread, uint64_t microseconds) noexcept;

 private:
  uint64_t thread_ = vmt_none;
  uint64_t microseconds_ = vmt_none;
};

}  // namespace weir::record
