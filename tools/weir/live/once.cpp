// SPDX-License-Identifier: Apache-2.0
//
// One look at all programs, as lines and as JSON.
#include "top.hpp"

#include "names.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *tier_keys[] = {"device", "host", "compressed", "storage"};
constexpr const char *state_keys[] = {"present", "leaving", "lost"};

Json limit_json(uint64_t bytes) { return bytes == live::no_limit ? Json(nullptr) : Json(bytes); }

Json amounts_json(const live::Amounts &amounts) {
  return {{"budget", limit_json(amounts.budget)},
          {"used", amounts.used},
          {"leased", amounts.leased},
          {"cold", amounts.cold}};
}

Json tiers_json(const std::array<live::Amounts, live::tier_count> &tiers) {
  Json json = Json::object();
  for (uint32_t i = 0; i < live::tier_count; ++i) json[tier_keys[i]] = amounts_json(tiers[i]);
  return json;
}

Json rates_json(const std::optional<PoolRates> &rates) {
  if (!rates) return nullptr;
  Json waits = Json::object();
  for (uint32_t i = 0; i < live::reason_count; ++i)
    waits[live_reason_names[i]] = rates->waits_for[i];
  return {{"up_bytes_per_s", rates->up},      {"down_bytes_per_s", rates->down},
          {"uses_per_s", rates->uses},        {"hit_rate", rates->hit_rate},
          {"refault_share", rates->refaults}, {"evictions_per_s", rates->evictions},
          {"wait_share", rates->waits},       {"wait_share_by_reason", std::move(waits)}};
}

Json devices_json(const live::Pool &pool) {
  Json json = Json::array();
  for (uint32_t i = 0; i < pool.device_count; ++i) {
    const live::Device &device = pool.devices[i];
    Json each{{"device", device.id}, {"state", state_keys[device.state]}};
    each.update(amounts_json(device.amounts));
    each["free"] = device.free_bytes;
    each["held"] = device.held_bytes;
    each["borrowed"] = device.borrowed_bytes;
    each["peak"] = device.peak_bytes;
    json.push_back(std::move(each));
  }
  return json;
}

Json clients_json(const live::Pool &pool) {
  Json json = Json::array();
  for (uint32_t i = 0; i < pool.client_count; ++i) {
    const live::Client &client = pool.client[i];
    json.push_back({{"client", client.id},
                    {"name", live_text(client.name)},
                    {"priority", client.priority},
                    {"buffers", client.buffers},
                    {"tiers", tiers_json(client.tiers)}});
  }
  return json;
}

Json durations_json(const live::Durations &durations, uint32_t count) {
  return {{"total_ns", durations.sum_ns},
          {"by_duration", Json(std::vector<uint64_t>(durations.counts.begin(),
                                                     durations.counts.begin() + count))}};
}

/// Those that there were.
Json moves_json(const live::Pool &pool) {
  Json json = Json::array();
  for (uint32_t from = 0; from < live::tier_count; ++from) {
    for (uint32_t to = 0; to < live::tier_count; ++to) {
      const live::Durations &moves = pool.moves[from][to];
      if (std::ranges::all_of(moves.counts, [](uint64_t count) { return count == 0; })) continue;
      Json each{{"from", tier_keys[from]}, {"to", tier_keys[to]}};
      each.update(durations_json(moves, pool.duration_count));
      json.push_back(std::move(each));
    }
  }
  return json;
}

Json pool_json(const LiveView &view, const TopRow &row) {
  const live::Pool &pool = *row.pool;
  Json waits = Json::object(), counters = Json::object();
  for (uint32_t i = 0; i < std::min(pool.reason_count, live::reason_count + 0U); ++i)
    waits[live_reason_names[i]] = {{"total_ns", pool.waits[i].total_ns},
                                   {"now", pool.waits[i].now}};
  for (uint32_t i = 0; i < std::min(pool.counter_count, live::counter_count); ++i)
    counters[live_counter_names[i]] = pool.counters[i];
  return {{"pool", pool.serial},
          {"name", live_text(pool.name)},
          {"context", row.context->number},
          {"background", pool.background != 0},
          {"age_s", seconds_since(pool.written_ns, view.now_ns)},
          {"walk_age_s",
           pool.walked_ns != 0 ? Json(seconds_since(pool.walked_ns, view.now_ns)) : Json(nullptr)},
          {"tiers", tiers_json(pool.tiers)},
          {"devices", devices_json(pool)},
          {"clients", clients_json(pool)},
          {"client_count", pool.clients},
          {"rates", rates_json(row.rates)},
          {"waits", std::move(waits)},
          {"slow_acquires", durations_json(pool.acquires, pool.duration_count)},
          {"moves", moves_json(pool)},
          {"counters", std::move(counters)}};
}

Json context_json(const LiveContext &context) {
  Json devices = Json::array();
  for (const live::Place &place : context.places)
    devices.push_back({{"device", place.id},
                       {"backend", live_text(place.backend)},
                       {"name", live_text(place.name)},
                       {"memory_bytes", place.memory_bytes}});
  return {{"context", context.number},
          {"library", context.library},
          {"devices", std::move(devices)},
          {"busy_pools", context.busy_pools},
          {"pools_without_slot", context.pools_without_slot}};
}

std::string padded_to(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}
std::string right_in(const std::string &text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string tier_text(const live::Amounts &amounts) {
  return right_in(short_bytes(amounts.used) + "/" + short_bytes(amounts.budget), 10);
}

std::string waits_text(const live::Pool &pool) {
  std::string text;
  for (uint32_t i = 0; i < std::min(pool.reason_count, live::reason_count + 0U); ++i) {
    if (pool.waits[i].now == 0) continue;
    text +=
        (text.empty() ? "" : ", ") + std::to_string(pool.waits[i].now) + ' ' + live_reason_names[i];
  }
  return text.empty() ? "-" : text;
}

}  // namespace

std::string top_json(const Top &top, const std::vector<TopRow> &rows) {
  const LiveView &view = top.view();
  Json programs = Json::array();
  for (const LiveProgram &program : view.programs) {
    Json contexts = Json::array(), pools = Json::array();
    bool any = false;
    for (const TopRow &row : rows) {
      any = any || row.program == &program;
      if (row.program == &program && row.pool != nullptr) pools.push_back(pool_json(view, row));
    }
    if (!any) continue;
    for (const LiveContext &context : program.contexts) contexts.push_back(context_json(context));
    constexpr const char *states[] = {"seen", "busy", "refused"};
    programs.push_back({{"pid", program.process},
                        {"name", program.name},
                        {"state", states[static_cast<size_t>(program.state)]},
                        {"reason", program.reason},
                        {"contexts", std::move(contexts)},
                        {"pools", std::move(pools)}});
  }
  const Json json{{"schema", 1},
                  {"programs", std::move(programs)},
                  {"elsewhere", view.elsewhere},
                  {"unreadable", view.unreadable},
                  {"more", view.more}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string top_text(const Top &top, const std::vector<TopRow> &rows) {
  std::string text =
      "    PID PROGRAM         POOL                DEVICE       HOST COMPRESSED    STORAGE        "
      "UP      DOWN   HIT  REFLT   WAIT WAITING NOW\n";
  for (const TopRow &row : rows) {
    text += right_in(std::to_string(row.program->process), 7) + ' ' +
            padded_to(row.program->name, 15) + ' ' + padded_to(row.name(), 16);
    if (row.pool != nullptr) {
      for (const live::Amounts &tier : row.pool->tiers) text += ' ' + tier_text(tier);
      const PoolRates rates = row.rates.value_or(PoolRates{});
      text += ' ' + right_in(rate_text(rates.up), 9) + ' ' + right_in(rate_text(rates.down), 9) +
              ' ' + right_in(rates.uses > 0 ? percent_text(rates.hit_rate) : "-", 5) + ' ' +
              right_in(rates.up > 0 ? percent_text(rates.refaults) : "-", 6) + ' ' +
              right_in(percent_text(rates.waits), 6) + ' ' + waits_text(*row.pool);
    } else if (!row.program->reason.empty()) {
      text += ' ' + row.program->reason;
    }
    text += '\n';
  }
  if (rows.empty()) text = "no program of this user shows pools (docs/live.md)\n";
  const LiveView &view = top.view();
  if (view.elsewhere != 0)
    text += std::to_string(view.elsewhere) + " in other PID namespaces, which can't be looked at\n";
  if (view.more) text += "and more programs than are looked at\n";
  return text;
}

}  // namespace weir::tool
