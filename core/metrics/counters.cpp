// SPDX-License-Identifier: Apache-2.0
//
// The table, counter by counter.

#include "core/metrics/counters.hpp"

#include <algorithm>
#include <array>

namespace weir::metrics {
namespace {

using enum Field;

constexpr CounterRow elsewhere(Field field) { return {field, nullptr}; }
constexpr CounterRow gauge(Field field, const char *name) { return {field, name, Type::gauge}; }
constexpr CounterRow total(Field field, const char *name) { return {field, name}; }
constexpr CounterRow part(Field field, const char *name, const char *label, const char *value,
                          const char *help) {
  return {field, name, Type::counter, label, value, help};
}
constexpr CounterRow described(Field field, const char *name, const char *help) {
  return {field, name, Type::counter, nullptr, nullptr, help};
}
constexpr CounterRow ended(Field field, const char *why) {
  return part(field, "weir_plans_ended_total", "reason", why, "plans ended, by why");
}
constexpr CounterRow refused(Field field, const char *why) {
  return part(field, "weir_refusals_total", "reason", why, "acquires refused, by why");
}

constexpr CounterRow state_rows[] = {
    elsewhere(device_budget),
    elsewhere(device_bytes),
    elsewhere(device_free_bytes),
    elsewhere(device_held_bytes),
    elsewhere(device_peak_bytes),
    elsewhere(borrowed_bytes),
    elsewhere(host_budget),
    elsewhere(host_used_bytes),
    elsewhere(compressed_budget),
    elsewhere(compressed_bytes),
    elsewhere(compressed_raw_bytes),
    elsewhere(storage_budget),
    elsewhere(storage_bytes),
    elsewhere(storage_raw_bytes),
    gauge(host_bytes, "weir_pinned_bytes"),
    {staging_bytes, "weir_staging_bytes", Type::gauge, nullptr, nullptr,
     "of the pinned memory, what lower tiers are reached through"},
    gauge(device_segments, "weir_device_segments"),
    gauge(buffers, "weir_buffers"),
    gauge(buffer_bytes, "weir_buffer_bytes"),
    gauge(pages, "weir_pages"),
    gauge(slabs, "weir_slabs"),
    gauge(bookkeeping_bytes, "weir_bookkeeping_bytes"),
};

constexpr CounterRow use_rows[] = {
    part(hits, "weir_uses_total", "result", "hit",
         "uses granted: hit, everything was resident; miss, at least one page was not"),
    part(misses, "weir_uses_total", "result", "miss", nullptr),
    total(promoted_bytes, "weir_promoted_bytes_total"),
    total(demoted_bytes, "weir_demoted_bytes_total"),
    total(dropped_clean_bytes, "weir_dropped_clean_bytes_total"),
    total(cached_bytes, "weir_cached_bytes_total"),
    total(discarded_bytes, "weir_discarded_bytes_total"),
    total(zero_filled_bytes, "weir_zero_filled_bytes_total"),
    total(prefetched_bytes, "weir_prefetched_bytes_total"),
    total(background_demoted_bytes, "weir_background_demoted_bytes_total"),
    total(refaulted_bytes, "weir_refaulted_bytes_total"),
    total(peer_bytes, "weir_peer_bytes_total"),
    total(lent_bytes, "weir_lent_bytes_total"),
    total(relayed_bytes, "weir_relayed_bytes_total"),
    total(host_relayed_bytes, "weir_host_relayed_bytes_total"),
    total(split_bytes, "weir_split_bytes_total"),
    total(rebalanced_bytes, "weir_rebalanced_bytes_total"),
    total(evictions, "weir_evictions_total"),
    total(eviction_failures, "weir_eviction_failures_total"),
    refused(over_budget, "over_budget"),
    refused(would_block, "would_block"),
    refused(lease_conflicts, "lease_conflict"),
    total(device_oom, "weir_device_oom_total"),
    {wait_ns, "weir_lease_wait_seconds_total", Type::counter, nullptr, nullptr, nullptr, true},
    total(checksum_failures, "weir_checksum_failures_total"),
    total(io_errors, "weir_io_errors_total"),
    total(sunk_bytes, "weir_sunk_bytes_total"),
    total(lifted_bytes, "weir_lifted_bytes_total"),
    total(storage_written_bytes, "weir_storage_written_bytes_total"),
    described(storage_read_bytes, "weir_storage_read_bytes_total",
              "bytes read back from the spill files"),
    total(compressed_in_bytes, "weir_compressed_in_bytes_total"),
    described(compressed_out_bytes, "weir_compressed_out_bytes_total",
              "bytes of pages compressed, after"),
    total(decompressed_bytes, "weir_decompressed_bytes_total"),
    total(incompressible_bytes, "weir_incompressible_bytes_total"),
    total(recompressed_bytes, "weir_recompressed_bytes_total"),
    described(recompressed_won_bytes, "weir_recompressed_won_bytes_total",
              "bytes of COMPRESSED that were freed by compressing again"),
};

constexpr CounterRow other_rows[] = {
    total(device_returned_bytes, "weir_device_returned_bytes_total"),
    total(defragment_moves, "weir_defragment_moves_total"),
    total(defragment_moved_bytes, "weir_defragment_moved_bytes_total"),
    total(defragment_evicted_bytes, "weir_defragment_evicted_bytes_total"),
    total(defragment_won_bytes, "weir_defragment_won_bytes_total"),
    described(generation, "weir_device_changes_total",
              "changes of the pool's devices: one added, one removed, one lost"),
    total(remote_uses, "weir_remote_uses_total"),
    total(shared_operation_ids, "weir_shared_operation_ids_total"),
    total(learned_operations, "weir_learned_operations_total"),
    described(
        lost_uses, "weir_lost_uses_total",
        "uses, births and deaths of buffers that the policy has not learned from: its log was "
        "full, or its share of the CPU used up"),
    total(planned_operations, "weir_planned_operations_total"),
    total(plans_made, "weir_plans_made_total"),
    total(plan_fetched_bytes, "weir_plan_fetched_bytes_total"),
    total(plan_cleaned_bytes, "weir_plan_cleaned_bytes_total"),
    described(policy_switches, "weir_policy_switches_total",
              "times that the policy began to follow plans or ceased to"),
    {policy_carries_plans, "weir_policy_carries_plans", Type::gauge, nullptr, nullptr,
     "1: the policy carries out plans now; 0: it does not"},
    ended(plans_ended_untrusted, "untrusted"),
    ended(plans_ended_moved, "moved"),
    ended(plans_ended_missed, "missed"),
    ended(plans_ended_old, "old"),
    ended(plans_ended_budget, "budget"),
    ended(plans_ended_device, "device"),
    ended(plans_ended_share, "share"),
    ended(plans_ended_announced, "announced"),
    ended(plans_ended_memory, "memory"),
};

template <size_t... counts>
constexpr auto joined(const CounterRow (&...parts)[counts]) {
  std::array<CounterRow, (counts + ...)> all{};
  size_t at = 0;
  const auto add = [&](const auto &part) {
    for (const CounterRow &row : part) all[at++] = row;
  };
  (add(parts), ...);
  return all;
}
constexpr auto rows = joined(state_rows, use_rows, other_rows);

constexpr bool each_once() {
  for (uint32_t field = 0; field < static_cast<uint32_t>(Field::count); ++field) {
    const auto is_it = [field](const CounterRow &row) {
      return static_cast<uint32_t>(row.field) == field;
    };
    if (std::count_if(std::begin(rows), std::end(rows), is_it) != 1) return false;
  }
  return true;
}
static_assert(each_once(), "a counter of weir_pool_stats has no row here, or two");

constexpr const char *meanings[] = {
#define WEIR_METRICS_MEANING(name, meaning) meaning,
    WEIR_POOL_STATS_FIELDS(WEIR_METRICS_MEANING)
#undef WEIR_METRICS_MEANING
};

}  // namespace

std::span<const CounterRow> counter_rows() noexcept { return rows; }

const char *meaning_of(Field field) noexcept { return meanings[static_cast<size_t>(field)]; }

}  // namespace weir::metrics
