// SPDX-License-Identifier: Apache-2.0
//
// What to do about a refusal: one sentence for each cause, which names the field or the call.

#include "core/pool/report.hpp"

#include "core/base/amount.hpp"
#include "core/base/name.hpp"

#include <array>

namespace weir::pool {
namespace {

/// What sentences are made of.
struct Situation {
  const LastError &error;
  weir_pool_stats stats{};
  std::string client;  ///< in quotes, with a blank before it

  std::string device() const { return "device " + std::to_string(error.detail.device); }
  static std::string bytes(uint64_t amount) { return Amount(amount).c_str(); }
  std::string missing() const {
    const ErrorDetail &detail = error.detail;
    return bytes(detail.asked > detail.available ? detail.asked - detail.available : 0);
  }
};

std::string on_device_budget(const Situation &now) {
  return "give " + now.device() + " a budget (weir_pool_device.budget) of " +
         Situation::bytes(now.error.detail.asked) +
         " or more, or lease less at once: all of a set has to be on the device together";
}
std::string on_device_held(const Situation &now) {
  return "let go of held memory on " + now.device() + " (weir_unhold, weir_free), " +
         now.missing() + " or more, or raise weir_pool_device.budget by as much";
}
std::string on_device_lowered(const Situation &now) {
  return "the runtime of " + now.device() +
         " had less memory than weir_pool_device.budget says: others have the rest. Lease less at "
         "once, or end them and make a new pool: this one's budget stays as it is";
}
std::string on_device_quota(const Situation &now) {
  return "raise weir_client_desc.device_quota of client" + now.client + " to " +
         Situation::bytes(now.error.detail.asked) +
         " or more, or lease less of its buffers at once";
}
/// Where bytes go that must leave HOST.
std::string or_below(const Situation &now) {
  if (now.stats.storage_budget != 0 || now.stats.compressed_budget != 0) return "";
  return ", or let bytes go on from there: weir_pool_desc.storage_budget with storage_paths, or "
         "compressed_budget";
}
std::string on_host_budget(const Situation &now) {
  return "raise weir_pool_desc.host_budget by " + now.missing() + " or more" + or_below(now) +
         "; weir_discard drops bytes that are not needed";
}
std::string on_host_quota(const Situation &now) {
  return "raise weir_client_desc.host_quota of client" + now.client + " by " + now.missing() +
         " or more" + or_below(now) + "; weir_discard drops bytes that are not needed";
}
std::string on_cold_budget(const Situation &now) {
  if (now.stats.storage_budget == 0)
    return "add a tier behind COMPRESSED (weir_pool_desc.storage_budget, storage_paths), or raise "
           "compressed_budget or host_budget by " +
           now.missing() + " or more";
  return "raise weir_pool_desc.storage_budget by " + now.missing() +
         " or more; weir_discard drops bytes that are not needed";
}
std::string on_cold_quota(const Situation &now) {
  const bool stored = now.error.detail.tier == WEIR_TIER_STORAGE;
  return std::string("raise weir_client_desc.") + (stored ? "storage_quota" : "compressed_quota") +
         " of client" + now.client + " by " + now.missing() + " or more";
}
std::string on_leases(const Situation &now) {
  const bool waited = now.error.result == WEIR_ERROR_TIMEOUT;
  return std::string("release other leases on ") + now.device() +
         (waited ? " sooner, or wait longer for them: weir_acquire_options.timeout_ns"
                 : " first, or wait for them: weir_acquire_options.timeout_ns");
}
std::string on_queue(const Situation &now) {
  return std::string("others came first and wait for room on ") + now.device() +
         (now.error.result == WEIR_ERROR_TIMEOUT ? ": wait longer (weir_acquire_options.timeout_ns)"
                                                 : ": wait too (weir_acquire_options.timeout_ns), "
                                                   "or try again when leases were released");
}
std::string on_removal(const Situation &now) {
  return "release the leases on " + now.device() +
         " and let work on its streams end, or give weir_pool_remove_device a longer timeout_ns";
}
std::string on_lease(const Situation &) {
  return "release that lease first, or lease other bytes of the buffer (weir_use.offset, length)";
}
std::string on_hold(const Situation &) {
  return "undo the hold first (weir_unhold), or hold in a mode that allows it (weir_hold_as)";
}
std::string on_small_buffer(const Situation &) {
  return "release it there first, or make it with pages of its own (WEIR_BUFFER_STABLE_ADDRESS, or "
         "a "
         "size of a page)";
}
std::string on_lost(const Situation &) {
  return "write all of the lost bytes anew: lease them with WEIR_DISCARD_WRITE, or weir_discard "
         "them; "
         "weir_pool_lost_ranges lists them";
}

using Sentence = std::string (*)(const Situation &);
constexpr std::array<Sentence, static_cast<size_t>(Cause::count)> sentences = {
    nullptr,         on_device_budget, on_device_held,  on_device_lowered,
    on_device_quota, on_host_budget,   on_host_quota,   on_cold_budget,
    on_cold_quota,   on_leases,        on_queue,        on_removal,
    on_lease,        on_hold,          on_small_buffer, on_lost};

}  // namespace

std::string advice(const Inspector &pool, const LastError &error) {
  const Sentence sentence = sentences.at(static_cast<size_t>(error.detail.cause));
  if (sentence == nullptr) return {};
  Situation now{error, {}, {}};
  pool.stats(&now.stats);
  uint32_t id = 0;
  pool.for_each_client([&](const char *client, const weir_client_stats &) {
    if (id++ == error.detail.client) now.client = QuotedName(client).c_str();
  });
  return sentence(now) + '.';
}

}  // namespace weir::pool
