// SPDX-License-Identifier: Apache-2.0
//
// Program: a whole trace of version 2 in memory, checked: every thing has an index of its own, however often its number was given to
// another, and every call names things that are there. Invariants: a call's pool is that of its buffers; ranges lie in their
// buffers; a lease is acquired, and may be released, once.
#pragma once

#include "tools/weir/recorded/call.hpp"
#include "tools/weir/symbols.hpp"
#include "tools/weir/trace_file.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::tool::recorded {

/// As an index: none.
constexpr uint32_t no_thing = UINT32_MAX;

/// A device of a context, as it was there.
struct ProgramDevice {
  uint32_t context = 0;
  uint32_t device = 0;
  std::string backend, name;
  uint64_t memory = 0, granule = 0, capabilities = 0;
};

struct ProgramLink {
  uint32_t context = 0;
  uint64_t from = 0, to = 0;  ///< devices, or WEIR_DEVICE_HOST
  std::string kind;
  uint64_t bandwidth = 0, latency_ns = 0;
};

/// Fields of weir_pool_desc; 0 or empty where the trace says nothing.
struct ProgramPool {
  uint32_t context = 0;
  std::string name, policy, codec;
  uint64_t flags = 0, host_budget = 0, page_size = 0, large_page_size = 0, segment_size = 0;
  uint64_t compressed_budget = 0, storage_budget = 0, storage_path_count = 0;
  uint64_t record_budget = 0, policy_memory = 0, policy_cpu_percent = 0;
  uint64_t watermark_low_permille = 0, watermark_high_permille = 0, evict_wait_ns = 0;
  uint64_t compress_threads = 0, compress_share_percent = 0;
  uint64_t idle_grace_ns = 0, recompress_idle_ns = 0, rebalance_bytes_per_second = 0;
  std::vector<std::pair<uint32_t, uint64_t>> devices;  ///< it is made with, and their budgets
};

/// Of weir_pool_stats, as the trace has them.
using Figures = std::vector<std::pair<std::string, uint64_t>>;

struct ProgramClient {
  uint32_t pool = 0;
  int32_t priority = 0;
  std::string name;
  uint64_t device_quota = 0, host_quota = 0, compressed_quota = 0, storage_quota = 0;
};

struct ProgramStream {
  uint32_t context = 0;
  uint64_t device = 0;  ///< may be WEIR_DEVICE_HOST
};

/// What few buffers have.
struct ProgramLayout {
  std::vector<uint32_t> users, shard_devices, shard_weights;
  uint64_t shard_policy = 0, stripe = 0;
};

struct ProgramBuffer {
  uint64_t size = 0, flags = 0, alignment = 0, tag = 0;
  uint64_t home = 0;
  uint32_t pool = 0;
  uint32_t client = no_thing;
  uint32_t element = 0;
  int32_t priority = 0;
  uint32_t name = 0;           ///< of Program::names
  uint32_t stack = no_thing;   ///< of Program::stacks
  uint32_t layout = no_thing;  ///< of Program::layouts
};

struct ProgramAllocation {
  uint64_t bytes = 0;
  uint64_t device = 0;
  uint32_t pool = 0;
  uint32_t name = 0;          ///< of Program::names
  uint32_t stack = no_thing;  ///< of Program::stacks
};

struct ProgramLease {
  uint32_t pool = 0;
  uint32_t stream = 0;
  uint64_t kernel_ns = 0;
};

struct ProgramUse {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t buffer = 0;
  uint8_t mode = 0;   ///< WEIR_READ, ...
  uint8_t flags = 0;  ///< WEIR_USE_*
};

struct ProgramOperation {
  uint32_t name = 0;  ///< of Program::names; 0: it has none
  uint32_t uses = 0;
};

/// Which fields count depends on the kind. An index is that of the list of the kind.
struct ProgramCall {
  CallKind kind = CallKind::end;
  uint8_t mode = 0;    ///< hold: WEIR_READ or WEIR_READ_WRITE
  uint32_t thing = 0;  ///< what the call is of, or makes
  uint32_t pool = no_thing;
  uint32_t stream = no_thing;
  uint32_t name = 0;   ///< of Program::names
  uint32_t count = 0;  ///< uses, or operations of an announcement
  uint64_t first = 0;  ///< the first use
  uint64_t device = 0;
  uint64_t flags = 0;  ///< or level, advice, threshold
  uint64_t offset = 0;
  uint64_t length = 0;  ///< or bytes, microseconds: of an acquire those that it waited
  uint64_t line = 0;
};

struct Program {
  std::string name;
  uint64_t lines = 0;
  uint64_t threads = 0;
  uint64_t acquired_uses = 0;
  uint64_t peak_live_bytes = 0;  ///< of buffers and allocations
  std::vector<std::string> notes;
  std::vector<std::string> names;  ///< of operations, buffers, allocations, phases; the first is ""
  std::vector<std::string> stacks;  ///< as their lines have them; "": of a line that never came
  std::map<uint64_t, CodeFile> code_files;  ///< by their numbers in the trace
  std::vector<ProgramDevice> devices;
  std::vector<ProgramLink> links;
  std::vector<ProgramPool> pools;
  std::vector<ProgramClient> clients;
  std::vector<ProgramStream> streams;
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramLayout> layouts;
  std::vector<ProgramAllocation> allocations;
  std::vector<ProgramLease> leases;
  std::vector<ProgramUse> uses;
  std::vector<ProgramOperation> operations;  ///< of announcements
  std::vector<Figures> figures;              ///< of `stats` lines
  std::vector<ProgramCall> calls;
};

struct ProgramOptions {
  uint64_t limit = UINT64_MAX;  ///< acquires to keep; the trace is read no further
  /// Told how much of the file has been read, now and then. May be empty.
  std::function<void(uint64_t bytes, uint64_t of)> progress;
};

/// Reads and checks the trace. Throws ToolError with line number and text at the first line that breaks a rule.
Program read_program(TraceFile &file, const ProgramOptions &options);

}  // namespace weir::tool::recorded
