// SPDX-License-Identifier: Apache-2.0
//
// Families that are no single counter: memory by tier and device, clients, waits, how long things take.

#include "core/metrics/table.hpp"

#include "core/base/name.hpp"
#include "core/base/waits.hpp"
#include "core/metrics/counters.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace weir::metrics {

/// Puts values of one pool into the sink, with the pool's labels before their own.
class Values {
 public:
  Values(const Subject &of, Sink &sink) : subject(of), pool(*of.pool), sink_(sink) {}

  void put(std::initializer_list<Label> own, const Number &number) {
    sink_.value(with(own), number);
  }
  void put(std::initializer_list<Label> own, const Histogram &of) {
    sink_.histogram(with(own), of);
  }

  const Subject &subject;
  const live::Pool &pool;

 private:
  Labels with(std::initializer_list<Label> own) const {
    Labels all = subject.labels;
    all.insert(all.end(), own);
    return all;
  }
  Sink &sink_;
};

namespace {

constexpr const char *tier_names[live::tier_count] = {"device", "host", "compressed", "storage"};

constexpr const char *reason_names[live::reason_count] = {
#define WEIR_METRICS_REASON(name, meaning) #name,
    WEIR_LIVE_WAITS(WEIR_METRICS_REASON)
#undef WEIR_METRICS_REASON
};

// ---- memory ----

std::string number_of(const live::Device &device) { return std::to_string(device.id); }

/// One of the amounts, of each device and of each tier below that the pool has.
template <class Read>
void put_memory(Values &to, Read &&read) {
  for (uint32_t i = 0; i < to.pool.device_count; ++i) {
    const live::Device &device = to.pool.devices[i];
    to.put({{"tier", tier_names[live::device_tier]}, {"device", number_of(device)}},
           {read(device.amounts)});
  }
  for (uint32_t tier = live::host_tier; tier < live::tier_count; ++tier) {
    const live::Amounts &amounts = to.pool.tiers[tier];
    if (tier != live::host_tier && amounts.budget == 0) continue;
    to.put({{"tier", tier_names[tier]}}, {read(amounts)});
  }
}

void put_budget(Values &to) {
  put_memory(to, [](const live::Amounts &of) { return of.budget; });
}
void put_used(Values &to) {
  put_memory(to, [](const live::Amounts &of) { return of.used; });
}
void put_leased(Values &to) {
  if (to.pool.walked_ns != 0) put_memory(to, [](const live::Amounts &of) { return of.leased; });
}
void put_cold(Values &to) {
  if (to.pool.walked_ns != 0) put_memory(to, [](const live::Amounts &of) { return of.cold; });
}

template <uint64_t live::Device::*amount>
void put_device(Values &to) {
  for (uint32_t i = 0; i < to.pool.device_count; ++i)
    to.put({{"device", number_of(to.pool.devices[i])}}, {to.pool.devices[i].*amount});
}

void put_device_state(Values &to) {
  const std::pair<uint32_t, const char *> states[] = {{WEIR_POOL_DEVICE_PRESENT, "present"},
                                                      {WEIR_POOL_DEVICE_LEAVING, "leaving"},
                                                      {WEIR_POOL_DEVICE_LOST, "lost"}};
  for (uint32_t i = 0; i < to.pool.device_count; ++i)
    for (const auto &[state, name] : states)
      to.put({{"device", number_of(to.pool.devices[i])}, {"state", name}},
             {to.pool.devices[i].state == state ? uint64_t{1} : 0});
}

void put_device_info(Values &to) {
  for (uint32_t i = 0; i < to.pool.device_count; ++i) {
    const live::Device &device = to.pool.devices[i];
    const auto place = std::ranges::find(to.subject.places, device.id, &live::Place::id);
    if (place == to.subject.places.end()) continue;
    to.put({{"device", number_of(device)},
            {"backend", text_of(place->backend)},
            {"name", text_of(place->name)}},
           {1});
  }
}

void put_uncompressed(Values &to) {
  const std::pair<live::Tier, Field> tiers[] = {
      {live::compressed_tier, Field::compressed_raw_bytes},
      {live::storage_tier, Field::storage_raw_bytes}};
  for (const auto &[tier, field] : tiers)
    if (to.pool.tiers[tier].budget != 0) to.put({{"tier", tier_names[tier]}}, {at(to.pool, field)});
}

void put_oversubscription(Values &to) {
  to.put({}, Number::ratio(at(to.pool, Field::buffer_bytes), at(to.pool, Field::device_budget)));
}

void put_age(Values &to) {
  const uint64_t written = to.pool.written_ns, now = to.subject.now_ns;
  to.put({}, Number::of_ns(now > written ? now - written : 0));
}

// ---- clients ----

/// Clients of one name are told together.
struct ClientSums {
  uint64_t buffers = 0;
  std::array<live::Amounts, live::tier_count> tiers{};
};

uint64_t sum(uint64_t one, uint64_t other) noexcept {
  return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

std::map<std::string, ClientSums> clients_of(const live::Pool &pool) {
  std::map<std::string, ClientSums> sums;
  for (uint32_t i = 0; i < pool.client_count; ++i) {
    const std::string name = text_of(pool.client[i].name);
    ClientSums &of = sums[name.empty() ? "(unnamed)" : name];
    of.buffers += pool.client[i].buffers;
    for (uint32_t tier = 0; tier < live::tier_count; ++tier) {
      const live::Amounts &amounts = pool.client[i].tiers[tier];
      of.tiers[tier].budget = sum(of.tiers[tier].budget, amounts.budget);
      of.tiers[tier].used = sum(of.tiers[tier].used, amounts.used);
      of.tiers[tier].leased = sum(of.tiers[tier].leased, amounts.leased);
      of.tiers[tier].cold = sum(of.tiers[tier].cold, amounts.cold);
    }
  }
  return sums;
}

/// Without a limit there is no value.
template <uint64_t live::Amounts::*amount>
void put_clients(Values &to) {
  for (const auto &[name, sums] : clients_of(to.pool))
    for (uint32_t tier = 0; tier < live::tier_count; ++tier) {
      if (tier > live::host_tier && to.pool.tiers[tier].budget == 0) continue;
      if (const uint64_t bytes = sums.tiers[tier].*amount; bytes != live::no_limit)
        to.put({{"client", name}, {"tier", tier_names[tier]}}, {bytes});
    }
}
template <uint64_t live::Amounts::*amount>
void put_walked_clients(Values &to) {
  if (to.pool.walked_ns != 0) put_clients<amount>(to);
}
void put_client_buffers(Values &to) {
  for (const auto &[name, sums] : clients_of(to.pool)) to.put({{"client", name}}, {sums.buffers});
}
void put_client_count(Values &to) { to.put({}, {to.pool.clients}); }
void put_hidden_clients(Values &to) {
  to.put({},
         {uint64_t{to.pool.clients} - std::min<uint64_t>(to.pool.client_count, to.pool.clients)});
}

// ---- waits and times ----

uint32_t reasons_of(const live::Pool &pool) noexcept {
  return std::min<uint32_t>(pool.reason_count, live::reason_count);
}

void put_wait_seconds(Values &to) {
  for (uint32_t i = 0; i < reasons_of(to.pool); ++i)
    to.put({{"reason", reason_names[i]}}, Number::of_ns(to.pool.waits[i].total_ns));
}
void put_waiting(Values &to) {
  for (uint32_t i = 0; i < reasons_of(to.pool); ++i)
    to.put({{"reason", reason_names[i]}}, {to.pool.waits[i].now});
}
std::span<const uint64_t> counts_of(const live::Pool &pool, const live::Durations &times) noexcept {
  return std::span(times.counts).first(std::min<size_t>(pool.duration_count, Durations::buckets));
}

void put_acquires(Values &to) {
  to.put({}, Histogram{counts_of(to.pool, to.pool.acquires), to.pool.acquires.sum_ns});
}
/// Of the directions that the pool's tiers make possible, or that something has gone.
void put_moves(Values &to) {
  const live::Pool &pool = to.pool;
  const auto there = [&pool](uint32_t tier) {
    return tier <= live::host_tier || pool.tiers[tier].budget != 0;
  };
  for (uint32_t from = 0; from < live::tier_count; ++from)
    for (uint32_t goal = 0; goal < live::tier_count; ++goal) {
      const live::Durations &times = pool.moves[from][goal];
      const std::span<const uint64_t> counts = counts_of(pool, times);
      const bool down = from<goal, lifted = from> goal && goal <= live::host_tier;
      const bool moved = std::ranges::any_of(counts, [](uint64_t count) { return count != 0; });
      if (!moved && !((down || lifted) && there(from) && there(goal))) continue;
      to.put({{"from", tier_names[from]}, {"to", tier_names[goal]}},
             Histogram{counts, times.sum_ns});
    }
}

// ---- the table ----

struct Special {
  const char *name;
  Type type;
  const char *labels;
  const char *help;
  void (*put)(Values &);
};

constexpr Special specials[] = {
    {"weir_memory_budget_bytes", Type::gauge, "tier, device",
     "bytes the pool may hold in a tier, of the devices' by device", put_budget},
    {"weir_memory_used_bytes", Type::gauge, "tier, device",
     "of those, occupied: by buffers, in HOST also by staging", put_used},
    {"weir_memory_leased_bytes", Type::gauge, "tier, device",
     "bytes of buffers with unreleased leases, where their latest version lies", put_leased},
    {"weir_memory_cold_bytes", Type::gauge, "tier, device",
     "bytes of buffers that were advised COLD and not used since", put_cold},
    {"weir_memory_uncompressed_bytes", Type::gauge, "tier",
     "bytes of the pages in COMPRESSED or STORAGE as they were before", put_uncompressed},
    {"weir_device_free_bytes", Type::gauge, "device",
     "device memory that the pool holds and nobody uses", put_device<&live::Device::free_bytes>},
    {"weir_device_held_bytes", Type::gauge, "device",
     "of the used device memory, held in place (weir_hold, weir_malloc)",
     put_device<&live::Device::held_bytes>},
    {"weir_device_borrowed_bytes", Type::gauge, "device",
     "of the used device memory, pages of neighbours", put_device<&live::Device::borrowed_bytes>},
    {"weir_device_peak_bytes", Type::gauge, "device", "the most device memory held from the system",
     put_device<&live::Device::peak_bytes>},
    {"weir_device_state", Type::gauge, "device, state",
     "1 for what the device is: present, leaving or lost", put_device_state},
    {"weir_device_info", Type::gauge, "device, backend, name", "1; what the device is",
     put_device_info},
    {"weir_oversubscription_ratio", Type::gauge, "",
     "bytes of live buffers to the budget of the devices", put_oversubscription},
    {"weir_clients", Type::gauge, "", "clients there are", put_client_count},
    {"weir_clients_hidden", Type::gauge, "", "of those, not told one by one: they are too many",
     put_hidden_clients},
    {"weir_client_buffers", Type::gauge, "client", "live buffers of the clients of a name",
     put_client_buffers},
    {"weir_client_used_bytes", Type::gauge, "client, tier",
     "bytes the clients of a name are charged for", put_clients<&live::Amounts::used>},
    {"weir_client_quota_bytes", Type::gauge, "client, tier",
     "bytes they may hold, on each device; no value where there is no limit",
     put_clients<&live::Amounts::budget>},
    {"weir_client_leased_bytes", Type::gauge, "client, tier",
     "bytes of their buffers with unreleased leases", put_walked_clients<&live::Amounts::leased>},
    {"weir_client_cold_bytes", Type::gauge, "client, tier",
     "bytes of their buffers that were advised COLD and not used since",
     put_walked_clients<&live::Amounts::cold>},
    {"weir_wait_seconds_total", Type::counter, "reason",
     "time that slow acquires have waited, by what for", put_wait_seconds},
    {"weir_waiting_threads", Type::gauge, "reason", "threads that wait at this moment",
     put_waiting},
    {"weir_slow_acquire_seconds", Type::histogram, "", "how long acquires took that were no hits",
     put_acquires},
    {"weir_move_seconds", Type::histogram, "from, to",
     "how long moves of pages took whose end the host sees, and a sample of those from HOST to a "
     "device",
     put_moves},
    {"weir_figures_age_seconds", Type::gauge, "", "how old the pool's figures are", put_age},
};

constexpr const char *build_info = "weir_build_info", *hidden_pools = "weir_pools_hidden";

Family of_program(const char *name) {
  if (name == build_info)
    return {build_info, Type::gauge, "version", "1; the version of the library"};
  return {hidden_pools, Type::gauge, "", "pools that are not told of: they are too many"};
}

Family of_row(const CounterRow &row) {
  return {row.name, row.type, row.label != nullptr ? row.label : "",
          row.help != nullptr ? row.help : meaning_of(row.field)};
}

/// Calls visit(rows of one name) for each counter that is told.
template <class Visit>
void each_counter(Visit &&visit) {
  const std::span<const CounterRow> rows = counter_rows();
  for (size_t first = 0; first < rows.size();) {
    size_t end = first + 1;
    const auto same = [&rows, first](const CounterRow &row) {
      return rows[first].name != nullptr && row.name != nullptr &&
             std::strcmp(row.name, rows[first].name) == 0;
    };
    while (end < rows.size() && same(rows[end])) ++end;
    if (rows[first].name != nullptr) visit(rows.subspan(first, end - first));
    first = end;
  }
}

void tell_counters(std::span<const CounterRow> rows, const Subject &subject, Sink &sink) {
  Values values(subject, sink);
  for (const CounterRow &row : rows) {
    const uint64_t amount = at(*subject.pool, row.field);
    const Number number = row.seconds ? Number::of_ns(amount) : Number{amount};
    if (row.label == nullptr) {
      values.put({}, number);
    } else {
      values.put({{row.label, row.value}}, number);
    }
  }
}

}  // namespace

Number Number::ratio(uint64_t of, uint64_t to) noexcept {
  if (to == 0) return {};
  __extension__ using Wide = unsigned __int128;
  return {of / to, static_cast<uint32_t>(Wide{of % to} * 1'000'000'000 / to)};
}

std::string text_of(const std::array<char, live::name_bytes> &name) {
  return shown({name.data(), strnlen(name.data(), name.size())});
}

Labels with_pool(Labels labels, const live::Pool &pool, uint32_t number) {
  labels.push_back({"pool", text_of(pool.name)});
  labels.push_back({"pool_number", std::to_string(number)});
  return labels;
}

std::vector<Family> families() {
  std::vector<Family> all{of_program(build_info), of_program(hidden_pools)};
  for (const Special &special : specials)
    all.push_back({special.name, special.type, special.labels, special.help});
  each_counter([&](std::span<const CounterRow> rows) { all.push_back(of_row(rows.front())); });
  return all;
}

void tell(std::span<const Program> programs, std::span<const Subject> subjects, Sink &sink) {
  sink.family(of_program(build_info));
  for (const Program &program : programs) {
    Labels labels = program.labels;
    labels.push_back({"version", program.version});
    sink.value(labels, {1});
  }
  sink.family(of_program(hidden_pools));
  for (const Program &program : programs) sink.value(program.labels, {program.hidden_pools});
  for (const Special &special : specials) {
    sink.family({special.name, special.type, special.labels, special.help});
    for (const Subject &subject : subjects) {
      Values values(subject, sink);
      special.put(values);
    }
  }
  each_counter([&](std::span<const CounterRow> rows) {
    sink.family(of_row(rows.front()));
    for (const Subject &subject : subjects) tell_counters(rows, subject, sink);
  });
}

}  // namespace weir::metrics
