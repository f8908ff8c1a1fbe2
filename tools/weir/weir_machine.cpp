// SPDX-License-Identifier: Apache-2.0
//
// WeirMachine: each step is one call of the public API. Failures carry weir_last_error(), which for
// OVER_BUDGET names the use and the bytes short.
#include "weir_machine.hpp"

#include "error.hpp"
#include "job.hpp"

#include <algorithm>
#include <utility>

namespace weir::tool {
namespace {

uint32_t api_mode(UseMode mode) {
  switch (mode) {
    case UseMode::read:
      return WEIR_READ;
    case UseMode::overwrite:
      return WEIR_DISCARD_WRITE;
    case UseMode::update:
      return WEIR_READ_WRITE;
  }
  return WEIR_READ;
}

std::string pool_text(const WeirMachineDesc &desc) {
  std::string text = std::to_string(desc.device_budget) + " bytes of device memory";
  if (!desc.lower.any()) return text;
  text += ", " + std::to_string(desc.host_budget) + " of host memory, " +
          std::to_string(desc.lower.compressed_budget) + " of compressed memory and " +
          std::to_string(desc.lower.storage_budget) + " of storage";
  const char *before = " in ";
  for (const std::string &path : desc.lower.storage) {
    text += before + ("'" + path + "'");
    before = ", ";
  }
  return text;
}

}  // namespace

WeirMachine::WeirMachine(const WeirMachineDesc &desc, size_t blocks)
    // Without contents time may be virtual, and the threads of a vendor's driver know nothing of that.
    : context_(open_context(desc.context_options,
                            desc.backend == "host" && !desc.contents ? WEIR_CONTEXT_NO_SEARCH : 0)),
      desc_(desc),
      buffers_(blocks) {
  const weir_device device = find_device(context_.get(), desc.backend);
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  require(weir_device_info_get(context_.get(), device, &info),
          "cannot ask about device " + std::to_string(device));
  const uint64_t needed = WEIR_CAP_HOST_CALL | (desc.contents ? WEIR_CAP_HOST_ACCESS : 0);
  if ((info.capabilities & needed) != needed)
    throw ToolError("device " + std::to_string(device) + " (" + info.name + ") can't replay: " +
                    (desc.contents
                         ? "the CPU must reach its memory, which --no-verify does without, and its "
                         : "its ") +
                    "streams must run host functions");
  stream_ = open_stream(context_.get(), device);

  weir_pool_device places[2] = {};
  places[0].device = device;
  places[0].budget = desc.device_budget;
  places[1].device = device + 1;
  places[1].budget = desc.neighbour_budget;
  weir_pool_desc pool = WEIR_POOL_DESC_INIT;
  pool.device_count = desc.neighbour_budget != 0 ? 2 : 1;
  pool.devices = places;
  pool.host_budget = desc.host_budget != 0 ? desc.host_budget : WEIR_NONE;
  pool.page_size = desc.page;
  // The host backend is given granules of one size; on other devices large buffers have what a pool gives them.
  pool.large_page_size = desc.backend == "host" ? desc.page : 0;
  pool.name = "replay";
  if (!desc.policy.empty()) pool.policy = desc.policy.c_str();
  const LowerTiers &lower = desc.lower;
  std::vector<const char *> paths;
  for (const std::string &path : lower.storage) paths.push_back(path.c_str());
  pool.flags = lower.flags;
  pool.compressed_budget = lower.compressed_budget;
  pool.storage_budget = lower.storage_budget;
  pool.storage_paths = paths.data();
  pool.storage_path_count = static_cast<uint32_t>(paths.size());
  pool.compress_threads = lower.compress_threads;
  if (!lower.codec.empty()) pool.codec = lower.codec.c_str();
  weir_pool handle = nullptr;
  require(weir_pool_create(context_.get(), &pool, &handle),
          "cannot create a pool of " + pool_text(desc));
  pool_.reset(handle);
}

WeirMachine::~WeirMachine() {
  abandon();
  // The pool waits for work in flight on its buffers; the stream must still exist then.
  pool_.reset();
}

void WeirMachine::create(uint32_t block, uint64_t bytes) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = bytes;
  desc.tag = block;
  require(
      weir_buffer_create(pool_.get(), &desc, &buffers_[block]),
      "cannot create block " + std::to_string(block) + " of " + std::to_string(bytes) + " bytes");
}

void WeirMachine::destroy(uint32_t block) {
  const weir_buffer buffer = buffers_[block];
  buffers_[block] = nullptr;
  require(weir_buffer_destroy(pool_.get(), buffer),
          "cannot destroy block " + std::to_string(block));
}

/// 0 for a name that can have no number: a trace's may be empty, or of any length.
uint32_t WeirMachine::operation_id(const std::string &name) {
  const auto [found, fresh] = operation_ids_.try_emplace(name, 0);
  if (!fresh || name.empty()) return found->second;
  const weir_result result = weir_operation_id(pool_.get(), name.c_str(), &found->second);
  if (result != WEIR_ERROR_INVALID_ARGUMENT) require(result, "cannot name an operation");
  return found->second;
}

void WeirMachine::announce(const std::string &name, std::span<const BlockUse> uses) {
  uses_.clear();
  for (const BlockUse &use : uses) {
    if (buffers_[use.block] == nullptr) continue;
    weir_use announced = WEIR_USE(buffers_[use.block], api_mode(use.mode));
    announced.offset = use.offset;
    announced.length = use.length;
    uses_.push_back(announced);
  }
  weir_operation operation{};
  operation.operation_id = operation_id(name);
  operation.uses = uses_.data();
  operation.use_count = uses_.size();
  require(weir_announce(pool_.get(), stream_.get(), &operation, 1, 0),
          "cannot announce operation '" + name + "'");
}

void WeirMachine::begin(const std::string &name, std::span<const BlockUse> uses,
                        std::span<std::byte *> addresses) {
  uses_.clear();
  for (const BlockUse &use : uses) {
    weir_use wanted = WEIR_USE(buffers_[use.block], api_mode(use.mode));
    wanted.offset = use.offset;
    wanted.length = use.length;
    uses_.push_back(wanted);
  }
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  options.timeout_ns = WEIR_INFINITE;
  options.operation_id = operation_id(name);
  require(
      weir_acquire(pool_.get(), stream_.get(), uses_.data(), uses_.size(), &options, &lease_),
      "cannot acquire the " + std::to_string(uses.size()) + " uses of an operation '" + name + "'");
  for (size_t i = 0; i < uses.size(); ++i)
    addresses[i] = reinterpret_cast<std::byte *>(uses_[i].address);
}

void WeirMachine::submit(Job &job) {
  require(weir_stream_host_call(stream_.get(), &JobRing::run, &job),
          "cannot enqueue on the stream");
}

void WeirMachine::end() {
  const weir_lease lease = lease_;
  lease_ = nullptr;
  require(weir_release(lease, stream_.get()), "a release reported");
  if (!desc_.lower.any()) return;
  const weir_pool_stats now = stats();
  peaks_.compressed = std::max(peaks_.compressed, now.compressed_bytes);
  peaks_.storage = std::max(peaks_.storage, now.storage_bytes);
}

void WeirMachine::finish() {
  require(weir_stream_synchronize(stream_.get()), "cannot finish the stream's work");
}

void WeirMachine::abandon() noexcept {
  if (lease_ != nullptr) weir_release(lease_, stream_.get());
  lease_ = nullptr;
  if (stream_) weir_stream_synchronize(stream_.get());
}

void WeirMachine::load_policy(const std::string &bytes) {
  require(weir_pool_policy_load(pool_.get(), bytes.data(), bytes.size()),
          "cannot load what was learned");
}

std::string WeirMachine::save_policy() const {
  std::string bytes;
  uint64_t needed = 0;
  require(weir_pool_policy_save(pool_.get(), nullptr, 0, &needed), "cannot save what was learned");
  // What is learned of what was done last may come in between.
  for (;;) {
    bytes.resize(needed + needed / 8);
    const weir_result result =
        weir_pool_policy_save(pool_.get(), bytes.data(), bytes.size(), &needed);
    if (result == WEIR_ERROR_INVALID_ARGUMENT && needed > bytes.size()) continue;
    require(result, "cannot save what was learned");
    bytes.resize(needed);
    return bytes;
  }
}

weir_pool_stats WeirMachine::stats() const {
  weir_pool_stats stats{};
  stats.struct_size = sizeof stats;
  require(weir_pool_stats_get(pool_.get(), &stats), "cannot read the pool's counters");
  return stats;
}

std::vector<weir_piece> WeirMachine::map() const {
  std::vector<weir_piece> pieces;
  // Background threads may add some between the two calls.
  for (size_t count = 0;; pieces.resize(count + count / 8 + 64)) {
    const weir_result result = weir_pool_map(pool_.get(), pieces.data(), pieces.size(), &count);
    if (count <= pieces.size()) {
      require(result, "cannot map the pool");
      pieces.resize(count);
      return pieces;
    }
  }
}

LowerPeaks WeirMachine::take_lower_peaks() { return std::exchange(peaks_, {}); }

weir_pool_stats stats_between(const weir_pool_stats &before, const weir_pool_stats &after) {
  weir_pool_stats gained = after;
  static constexpr uint64_t weir_pool_stats::*counters[] = {
      &weir_pool_stats::hits,
      &weir_pool_stats::misses,
      &weir_pool_stats::promoted_bytes,
      &weir_pool_stats::demoted_bytes,
      &weir_pool_stats::dropped_clean_bytes,
      &weir_pool_stats::discarded_bytes,
      &weir_pool_stats::zero_filled_bytes,
      &weir_pool_stats::prefetched_bytes,
      &weir_pool_stats::background_demoted_bytes,
      &weir_pool_stats::evictions,
      &weir_pool_stats::eviction_failures,
      &weir_pool_stats::refaulted_bytes,
      &weir_pool_stats::wait_ns,
      &weir_pool_stats::checksum_failures,
      &weir_pool_stats::storage_written_bytes,
      &weir_pool_stats::storage_read_bytes,
      &weir_pool_stats::compressed_in_bytes,
      &weir_pool_stats::compressed_out_bytes,
      &weir_pool_stats::decompressed_bytes,
      &weir_pool_stats::incompressible_bytes,
      &weir_pool_stats::sunk_bytes,
      &weir_pool_stats::lifted_bytes,
      &weir_pool_stats::io_errors,
      &weir_pool_stats::peer_bytes,
      &weir_pool_stats::lent_bytes,
      &weir_pool_stats::relayed_bytes,
      &weir_pool_stats::host_relayed_bytes,
      &weir_pool_stats::split_bytes,
      &weir_pool_stats::learned_operations,
      &weir_pool_stats::lost_uses,
      &weir_pool_stats::planned_operations,
      &weir_pool_stats::plans_made,
      &weir_pool_stats::plan_fetched_bytes,
      &weir_pool_stats::plan_cleaned_bytes,
      &weir_pool_stats::policy_switches,
      &weir_pool_stats::plans_ended_untrusted,
      &weir_pool_stats::plans_ended_moved,
      &weir_pool_stats::plans_ended_missed,
      &weir_pool_stats::plans_ended_old,
      &weir_pool_stats::plans_ended_budget,
      &weir_pool_stats::plans_ended_device,
      &weir_pool_stats::plans_ended_share,
      &weir_pool_stats::plans_ended_announced,
      &weir_pool_stats::plans_ended_memory,
  };
  for (const auto counter : counters) gained.*counter -= before.*counter;
  return gained;
}

}  // namespace weir::tool
