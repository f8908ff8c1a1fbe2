// SPDX-License-Identifier: Apache-2.0
//
// What Weir's choice of homes is worth: small random workloads on rehearsed machines, their buffers made one by one with
// WEIR_DEVICE_ANY in a real pool ("weir"), or chosen together by weir_buffer_place ("together"), and the time that a round of
// their uses takes with the homes that came of it, against
// (a) homes in turn and (b) the best of all homes, found by trying them with everything known in advance.
//
// Time is worked out, not measured: every use reaches all of its buffer's bytes over the links of the machine, and what a
// device has no room for lies with its neighbours or in the host, goes there and back when it is used at home, and is
// fetched from there by others: what Weir's cost model says, worked out here anew from weir_link_info. "sum" is the time of all uses added up; "span" that of the busiest device.
//
//   bench_placement [--workloads N] [--names] [FILE.xml ...]    N for each machine and fill, 300 if not said; --names: Weir is
//                                                               told who uses a buffer, not how often; FILE: further machines
//
// Must never judge: it exits 0 whatever the numbers are.

#include "common.hpp"

#include <array>
#include <cstring>
#include <random>

namespace {

using namespace weir::bench;

constexpr uint64_t budget = 64 * mib;
constexpr size_t most_devices = 4, most_buffers = 6;
constexpr double fills[] = {0.3, 0.6, 0.9, 1.2};

enum Class : size_t { fabric, pcie, host, classes };
constexpr const char *class_names[classes] = {"fabric", "pcie", "host"};

struct Hop {
  double byte = 0;  ///< seconds
  Class kind = host;
  bool direct = false;
};

/// The links between some devices and the host, which is the last.
struct Links {
  size_t count = 0;
  std::array<std::array<Hop, most_devices + 1>, most_devices + 1> hops;

  bool lends(size_t from, size_t to) const {
    return from != to && hops[from][to].direct && hops[from][to].byte < hops[from][count].byte;
  }
};

struct Buffer {
  uint64_t bytes = 0;
  std::array<uint32_t, most_devices> uses{};
};

struct Workload {
  std::vector<Buffer> buffers;
  uint64_t seed = 0;
};

struct Cost {
  double sum = 0;
  std::array<double, most_devices> device{};
  std::array<double, classes> bytes{};
  double span() const { return *std::max_element(device.begin(), device.end()); }
};

using Homes = std::array<size_t, most_buffers>;

/// Where the bytes of a home that exceed its budget lie, as shares of its bytes; the host is the last.
using Spill = std::array<double, most_devices + 1>;

std::array<Spill, most_devices> spills(const Links &links, const Workload &work,
                                       const Homes &homes) {
  std::array<double, most_devices> load{}, room{};
  for (size_t b = 0; b < work.buffers.size(); ++b)
    load[homes[b]] += static_cast<double>(work.buffers[b].bytes);
  for (size_t d = 0; d < links.count; ++d)
    room[d] = std::max(0.0, static_cast<double>(budget) - load[d]);
  std::array<Spill, most_devices> all{};
  for (size_t d = 0; d < links.count; ++d) {
    double over = load[d] - static_cast<double>(budget);
    std::array<bool, most_devices> asked{};
    while (over > 0) {
      size_t to = links.count;
      for (size_t n = 0; n < links.count; ++n)
        if (!asked[n] && links.lends(d, n) && room[n] > 0 &&
            links.hops[d][n].byte < links.hops[d][to].byte)
          to = n;
      const double taken = to == links.count ? over : std::min(over, room[to]);
      all[d][to] += taken / load[d];
      over -= taken;
      if (to == links.count) break;
      room[to] -= taken;
      asked[to] = true;
    }
  }
  return all;
}

void travel(const Links &links, size_t from, size_t to, double bytes, size_t user, Cost *cost) {
  if (from == to || bytes <= 0) return;
  const auto over = [&](const Hop &hop) {
    cost->sum += bytes * hop.byte;
    cost->device[user] += bytes * hop.byte;
    cost->bytes[hop.kind] += bytes;
  };
  if (from == links.count || to == links.count || links.hops[from][to].direct)
    return over(links.hops[from][to]);
  over(links.hops[from][links.count]);
  over(links.hops[links.count][to]);
}

Cost cost_of(const Links &links, const Workload &work, const Homes &homes) {
  const auto spilled = spills(links, work, homes);
  Cost cost;
  for (size_t b = 0; b < work.buffers.size(); ++b) {
    const size_t home = homes[b];
    double out = 0;
    for (const double share : spilled[home]) out += share;
    for (size_t user = 0; user < links.count; ++user) {
      const double bytes = static_cast<double>(work.buffers[b].bytes) * work.buffers[b].uses[user];
      if (bytes == 0) continue;
      travel(links, home, user, bytes * (1 - out), user, &cost);
      for (size_t place = 0; place <= links.count; ++place) {
        travel(links, place, user, bytes * spilled[home][place], user, &cost);
        if (user == home) travel(links, user, place, bytes * spilled[home][place], user, &cost);
      }
    }
  }
  return cost;
}

template <class Better>
Homes best_homes(const Links &links, const Workload &work, Better better) {
  Homes best{}, homes{};
  double least = -1;
  for (;;) {
    const double here = better(cost_of(links, work, homes));
    if (least < 0 || here < least) {
      least = here;
      best = homes;
    }
    size_t at = 0;
    while (at < work.buffers.size() && ++homes[at] == links.count) homes[at++] = 0;
    if (at == work.buffers.size()) return best;
  }
}

Workload random_workload(uint64_t seed, size_t devices, double fill) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  Workload work;
  work.seed = seed;
  work.buffers.resize(2 + below(most_buffers - 1));
  double all = 0;
  for (Buffer &buffer : work.buffers) {
    buffer.bytes = 4 + below(29);
    all += static_cast<double>(buffer.bytes);
    const size_t users = 1 + below(std::min<size_t>(devices, 3));
    for (size_t i = 0; i < users; ++i)
      buffer.uses[below(devices)] = static_cast<uint32_t>(1 + below(4));
  }
  const double scale = fill * static_cast<double>(devices * budget) / all;
  for (Buffer &buffer : work.buffers)
    buffer.bytes = std::max<uint64_t>(
        64 * kib,
        static_cast<uint64_t>(static_cast<double>(buffer.bytes) * scale) / (64 * kib) * (64 * kib));
  return work;
}

// ---- Weir's choice ----

class Machine {
 public:
  explicit Machine(const std::string &options) {
    const std::string all = "host.memory=256M;host.granule=64K;host.granule_large=0;" + options;
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.options = all.c_str();
    WEIR_BENCH_TRY(weir_context_create(&desc, &context_));
    WEIR_BENCH_TRY(weir_device_count(context_, &count_));
  }
  ~Machine() { WEIR_BENCH_TRY(weir_context_destroy(context_)); }
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;

  uint32_t count() const { return count_; }
  weir_context context() const { return context_; }

  Hop hop(weir_device from, weir_device to) const {
    weir_link_info link = WEIR_LINK_INFO_INIT;
    WEIR_BENCH_TRY(weir_link_info_get(context_, from, to, &link));
    Hop hop;
    hop.byte = 1 / static_cast<double>(std::max<uint64_t>(link.bandwidth, 1'000'000));
    const bool end = from == WEIR_DEVICE_HOST || to == WEIR_DEVICE_HOST;
    hop.kind = end ? host : link.kind == WEIR_LINK_PCIE ? pcie : fabric;
    hop.direct = link.direct != 0;
    return hop;
  }
  Links links(const std::vector<weir_device> &devices) const {
    Links links;
    links.count = devices.size();
    const auto end = [&](size_t i) { return i < devices.size() ? devices[i] : WEIR_DEVICE_HOST; };
    for (size_t a = 0; a <= devices.size(); ++a)
      for (size_t b = 0; b <= devices.size(); ++b)
        if (a != b) links.hops[a][b] = hop(end(a), end(b));
    return links;
  }

 private:
  weir_context context_ = nullptr;
  uint32_t count_ = 0;
};

class Pool {
 public:
  Pool(const Machine &machine, const std::vector<weir_device> &devices) : devices_(devices) {
    std::vector<weir_pool_device> entries;
    for (const weir_device each : devices) entries.push_back({each, 0, budget, {0, 0}});
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = static_cast<uint32_t>(entries.size());
    desc.devices = entries.data();
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 16 * budget;
    WEIR_BENCH_TRY(weir_pool_create(machine.context(), &desc, &pool_));
  }
  ~Pool() { WEIR_BENCH_TRY(weir_pool_destroy(pool_)); }
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  /// The homes of a workload's buffers, made in their order.
  Homes homes(const Workload &work, bool names) const {
    Homes homes{};
    std::vector<weir_buffer> made;
    for (const Buffer &buffer : work.buffers) {
      const std::vector<weir_device> users = users_of(buffer, names);
      const weir_buffer_desc desc = describe(buffer, users);
      made.push_back(nullptr);
      WEIR_BENCH_TRY(weir_buffer_create(pool_, &desc, &made.back()));
      weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
      WEIR_BENCH_TRY(weir_buffer_info_get(pool_, made.back(), 0, WEIR_WHOLE, &info));
      homes[made.size() - 1] = position(info.home);
    }
    for (weir_buffer buffer : made) WEIR_BENCH_TRY(weir_buffer_destroy(pool_, buffer));
    return homes;
  }

  /// The same, asked for together.
  Homes homes_together(const Workload &work, bool names) const {
    std::vector<std::vector<weir_device>> users;
    std::vector<weir_buffer_desc> descs;
    std::vector<const weir_buffer_desc *> all;
    for (const Buffer &buffer : work.buffers) users.push_back(users_of(buffer, names));
    for (size_t i = 0; i < users.size(); ++i) descs.push_back(describe(work.buffers[i], users[i]));
    for (const weir_buffer_desc &desc : descs) all.push_back(&desc);
    std::array<weir_device, most_buffers> found{};
    WEIR_BENCH_TRY(weir_buffer_place(pool_, all.data(), all.size(), found.data()));
    Homes homes{};
    for (size_t i = 0; i < all.size(); ++i) homes[i] = position(found[i]);
    return homes;
  }

 private:
  std::vector<weir_device> users_of(const Buffer &buffer, bool names) const {
    std::vector<weir_device> users;
    for (size_t i = 0; i < devices_.size(); ++i)
      users.insert(users.end(), names ? std::min(buffer.uses[i], 1U) : buffer.uses[i], devices_[i]);
    return users;
  }
  static weir_buffer_desc describe(const Buffer &buffer, const std::vector<weir_device> &users) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = buffer.bytes;
    desc.home = WEIR_DEVICE_ANY;
    desc.users = users.data();
    desc.user_count = static_cast<uint32_t>(users.size());
    return desc;
  }
  size_t position(weir_device device) const {
    return static_cast<size_t>(std::find(devices_.begin(), devices_.end(), device) -
                               devices_.begin());
  }

  std::vector<weir_device> devices_;
  weir_pool pool_ = nullptr;
};

// ---- the runs ----

struct Tally {
  Cost cost;
  double span = 0;
  double ratios = 0, most = 0;  ///< to the best sum, of the workloads where that is not 0
  void add(const Cost &more, double best) {
    cost.sum += more.sum;
    span += more.span();
    for (size_t i = 0; i < classes; ++i) cost.bytes[i] += more.bytes[i];
    if (best <= 0) return;
    ratios += more.sum / best;
    most = std::max(most, more.sum / best);
  }
};

void print(const char *machine, double fill, size_t workloads, size_t idle, size_t missed,
           const Tally &weir, const Tally &together, const Tally &turn, const Tally &best,
           const Tally &best_span) {
  Json json("placement");
  const auto measured = static_cast<double>(std::max<size_t>(workloads - idle, 1));
  json.text("machine", machine)
      .number("fill", fill)
      .count("workloads", workloads)
      .count("best_is_0", idle)
      .count("of_those_missed", missed)
      .number("weir_to_best", weir.cost.sum / best.cost.sum)
      .number("weir_to_best_mean", weir.ratios / measured)
      .number("weir_to_best_worst", weir.most)
      .number("together_to_best", together.cost.sum / best.cost.sum)
      .number("together_to_best_mean", together.ratios / measured)
      .number("in_turn_to_best", turn.cost.sum / best.cost.sum)
      .number("weir_span_to_best_span", weir.span / best_span.span)
      .number("together_span_to_best_span", together.span / best_span.span)
      .number("in_turn_span_to_best_span", turn.span / best_span.span);
  for (size_t i = 0; i < classes; ++i) {
    const std::string of = class_names[i];
    json.number(("weir_gb_" + of).c_str(), weir.cost.bytes[i] * 1e-9)
        .number(("in_turn_gb_" + of).c_str(), turn.cost.bytes[i] * 1e-9)
        .number(("best_gb_" + of).c_str(), best.cost.bytes[i] * 1e-9);
  }
  json.print();
}

void run(const char *name, const Machine &machine, uint64_t workloads, bool names) {
  for (const double fill : fills) {
    Tally weir, together, turn, best, best_span;
    size_t idle = 0, missed = 0;
    for (uint64_t i = 0; i < workloads; ++i) {
      const uint64_t seed = i * 7919 + static_cast<uint64_t>(fill * 10);
      std::mt19937_64 random(seed);
      std::vector<weir_device> all(machine.count());
      for (uint32_t d = 0; d < machine.count(); ++d) all[d] = d;
      std::shuffle(all.begin(), all.end(), random);
      all.resize(std::min<size_t>(all.size(), 2 + random() % (most_devices - 1)));
      const Links links = machine.links(all);
      const Workload work = random_workload(seed, all.size(), fill);
      const Pool pool(machine, all);
      Homes in_turn{};
      for (size_t b = 0; b < work.buffers.size(); ++b) in_turn[b] = b % all.size();
      const Cost least =
          cost_of(links, work, best_homes(links, work, [](const Cost &cost) { return cost.sum; }));
      const Cost shortest = cost_of(
          links, work, best_homes(links, work, [](const Cost &cost) { return cost.span(); }));
      const Cost ours = cost_of(links, work, pool.homes(work, names));
      idle += least.sum <= 0 ? 1 : 0;
      missed += least.sum <= 0 && ours.sum > 0 ? 1 : 0;
      weir.add(ours, least.sum);
      together.add(cost_of(links, work, pool.homes_together(work, names)), least.sum);
      turn.add(cost_of(links, work, in_turn), least.sum);
      best.add(least, least.sum);
      best_span.add(shortest, least.sum);
    }
    print(name, fill, workloads, idle, missed, weir, together, turn, best, best_span);
  }
}

/// Every pair of `count` devices by a rule, and the host.
template <class Rule>
std::string described(uint32_t count, const char *to_host, Rule rule) {
  std::string options = "host.devices=" + std::to_string(count) + ";host.links=";
  for (uint32_t a = 0; a < count; ++a) {
    options += (a != 0 ? ",h-" : "h-") + std::to_string(a) + ":" + to_host;
    for (uint32_t b = a + 1; b < count; ++b)
      options += "," + std::to_string(a) + "-" + std::to_string(b) + ":" + rule(a, b);
  }
  return options;
}

}  // namespace

int main(int argc, char **argv) {
  uint64_t workloads = 300;
  bool names = false;
  std::vector<const char *> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--workloads") == 0 && i + 1 < argc)
      workloads = std::strtoull(argv[++i], nullptr, 10);
    else if (std::strcmp(argv[i], "--names") == 0)
      names = true;
    else
      files.push_back(argv[i]);
  }
  const struct {
    const char *name;
    std::string options;
  } machines[] = {
      {"switched", described(8, "pcie:15750M", [](uint32_t, uint32_t) { return "nvlink:150G"; })},
      {"modules", described(8, "infinity_fabric:36G",
                            [](uint32_t a, uint32_t b) {
                              return a / 2 == b / 2   ? "infinity_fabric:200G"
                                     : a % 2 == b % 2 ? "infinity_fabric:100G"
                                                      : "infinity_fabric:50G";
                            })},
      {"ring", described(4, "pcie:16G",
                         [](uint32_t a, uint32_t b) {
                           return (b - a) % 2 != 0 ? "nvlink:50G" : "pcie:16G:3:0:staged";
                         })},
      {"pcie", described(8, "pcie:15750M",
                         [](uint32_t a, uint32_t b) {
                           return a / 2 == b / 2 ? "pcie:15750M" : "pcie:15750M:4:0:staged";
                         })},
  };
  for (const auto &each : machines) run(each.name, Machine(each.options), workloads, names);
  for (const char *file : files) {
    const char *slash = std::strrchr(file, '/');
    run(slash != nullptr ? slash + 1 : file,
        Machine(std::string("topology.rehearse=1;topology.xml=") + file), workloads, names);
  }
  return 0;
}
