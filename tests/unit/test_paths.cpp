// SPDX-License-Identifier: Apache-2.0
//
// The cost model of copies between devices: against every set of paths there is on small random machines, and on
// machines as they are built, written down or recorded (these skip where the recordings are not).

#include "core/transfer/paths.hpp"

#include "tests/unit/topology_files.hpp"

#include <unistd.h>

#include <cmath>
#include <random>

namespace {

using namespace weir::transfer;

constexpr uint64_t mib = uint64_t{1} << 20U;
constexpr uint64_t gb = 1'000'000'000;
constexpr uint32_t all = UINT32_MAX;

/// A machine written down link by link, the same both ways. The host is device `count`.
struct Machine {
  explicit Machine(size_t count_) : count(count_), ways((count_ + 1) * (count_ + 1)) {}
  void link(size_t a, size_t b, uint32_t kind, uint64_t bandwidth, uint64_t latency_ns = 0,
            bool direct = true) {
    ways[a * (count + 1) + b] = ways[b * (count + 1) + a] =
        Way{bandwidth, latency_ns, kind, direct};
  }
  void host(uint32_t kind, uint64_t bandwidth) {
    for (size_t d = 0; d < count; ++d) link(d, count, kind, bandwidth);
  }
  const Way &at(size_t a, size_t b) const { return ways[a * (count + 1) + b]; }
  Paths paths() const {
    Paths made;
    made.find(Routes(count, ways));
    return made;
  }
  size_t count;
  std::vector<Way> ways;
};

// ---- the model once more, slowly, and by every set there is ----

struct Plain {
  uint8_t via;
  double fast, slow, latency;
  int leaves, enters;  ///< ports; 0: one of its own

  double at_chunk(double bytes, double chunk) const {
    if (via == Share::direct) return latency + bytes / slow;
    chunk = std::min(chunk, bytes);
    return latency + chunk / fast + bytes / slow + bytes / chunk * Paths::step_ns;
  }
  /// The least of all chunks there may be.
  double ns(double bytes) const {
    double least = at_chunk(bytes, static_cast<double>(Paths::unit));
    for (uint64_t c = Paths::unit; c <= Paths::largest_chunk; c += Paths::unit)
      least = std::min(least, at_chunk(bytes, static_cast<double>(c)));
    return least;
  }
};

bool switched(const Machine &m, size_t device) {
  double least = 1e30, most = 0;
  int links = 0;
  for (size_t other = 0; other < m.count; ++other) {
    const Way &way = m.at(device, other);
    if (other == device || !way.direct || way.kind != WEIR_LINK_NVLINK) continue;
    ++links;
    least = std::min(least, static_cast<double>(way.bandwidth));
    most = std::max(most, static_cast<double>(way.bandwidth));
  }
  return links > 1 && most <= 1.1 * least;
}

std::vector<Plain> every_path(const Machine &m, uint8_t from, uint8_t to) {
  std::vector<Plain> paths;
  const auto port = [&](size_t end, const Way &way, bool device) {
    if (way.kind == WEIR_LINK_PCIE) return 1;
    return device && switched(m, end) ? 2 : 0;
  };
  const auto rate = [](const Way &way) { return static_cast<double>(way.bandwidth) / 1e9; };
  const auto latency = [](const Way &way) {
    return way.latency_ns != 0 ? static_cast<double>(way.latency_ns) : Paths::usual_latency_ns;
  };
  const Way &straight = m.at(from, to);
  if (straight.direct)
    paths.push_back({Share::direct, rate(straight), rate(straight), latency(straight),
                     port(from, straight, true), port(to, straight, true)});
  for (size_t r = 0; r <= m.count; ++r) {
    if (r == from || r == to) continue;
    const bool device = r < m.count;
    const Way &one = m.at(from, r), &two = m.at(r, to);
    if (!one.direct || !two.direct) continue;
    paths.push_back({device ? static_cast<uint8_t>(r) : Share::host, std::max(rate(one), rate(two)),
                     std::min(rate(one), rate(two)), latency(one) + latency(two),
                     port(from, one, device), port(to, two, device)});
  }
  return paths;
}

bool disjoint(const Plain &a, const Plain &b) {
  return (a.leaves == 0 || a.leaves != b.leaves) && (a.enters == 0 || a.enters != b.enters);
}

/// The time of a set whose shares end at once; infinite if one is too small.
double together(const std::vector<Plain> &set, double bytes) {
  const auto share = [](const Plain &p, double end) {
    double low = 0, high = end * p.slow;
    for (int i = 0; i < 60; ++i) (p.ns((low + high) / 2) <= end ? low : high) = (low + high) / 2;
    return low;
  };
  double low = 0, high = set[0].ns(bytes);
  for (int i = 0; i < 60; ++i) {
    const double end = (low + high) / 2;
    double sum = 0;
    for (const Plain &p : set) sum += share(p, end);
    (sum >= bytes ? high : low) = end;
  }
  for (const Plain &p : set)
    if (share(p, high) < static_cast<double>(Paths::least_share)) return 1e30;
  return high;
}

double best_set(const std::vector<Plain> &paths, size_t from, std::vector<Plain> *set,
                double bytes) {
  double best = set->size() > 1 ? together(*set, bytes) : 1e30;
  if (set->size() == Ways::most) return best;
  for (size_t i = from; i < paths.size(); ++i) {
    bool free = true;
    for (const Plain &p : *set) free = free && disjoint(p, paths[i]);
    if (!free) continue;
    set->push_back(paths[i]);
    best = std::min(best, best_set(paths, i + 1, set, bytes));
    set->pop_back();
  }
  return best;
}

void check_shares(const Machine &m, uint8_t from, uint8_t to, uint64_t bytes, const Ways &ways) {
  uint64_t sum = 0;
  std::vector<Plain> taken;
  for (size_t i = 0; i < ways.count; ++i) {
    const Share &share = ways.shares[i];
    sum += share.bytes;
    assert_true(ways.count == 1 || share.bytes >= Paths::least_share);
    if (i != 0) assert_int_equal(share.bytes % Paths::unit, 0);
    if (share.via != Share::direct) assert_int_equal(share.chunk % Paths::unit, 0);
    assert_true(share.chunk != 0);
    bool found = false;
    for (const Plain &p : every_path(m, from, to)) {
      if (p.via != share.via) continue;
      found = true;
      for (const Plain &other : taken) assert_true(disjoint(p, other));
      taken.push_back(p);
    }
    assert_true(found);
  }
  assert_int_equal(sum, bytes);
}

/// Neither slower than the best there is nor split for less than it must gain.
void the_best_of_every_set_is_taken(void **) {
  std::mt19937_64 random(7);
  size_t splits = 0, relays = 0;
  for (int round = 0; round < 300; ++round) {
    const size_t count = 2 + random() % 4;
    Machine m(count);
    const bool even = random() % 8 == 0;
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = a + 1; b < count; ++b) {
        const bool nvlink = random() % 3 != 0;
        m.link(a, b, nvlink ? WEIR_LINK_NVLINK : WEIR_LINK_PCIE,
               even ? 50 * gb : (1 + random() % 60) * gb, random() % 20'000, random() % 3 != 0);
      }
    }
    m.host(random() % 4 == 0 ? WEIR_LINK_C2C : WEIR_LINK_PCIE, (1 + random() % 30) * gb);
    const Paths paths = m.paths();
    const uint64_t bytes = (uint64_t{1} << (12 + random() % 17)) + random() % 4096;
    const Ways ways = paths.choose(0, 1, bytes, all);
    check_shares(m, 0, 1, bytes, ways);
    double single = 1e30, direct = 1e30;
    const auto exact = static_cast<double>(bytes);
    const std::vector<Plain> every = every_path(m, 0, 1);
    for (const Plain &p : every) {
      single = std::min(single, p.ns(exact));
      if (p.via == Share::direct) direct = p.ns(exact);
    }
    if (direct < 1e30 && single * Paths::worth > direct) single = direct;
    std::vector<Plain> set;
    const double split = bytes >= Paths::least_split ? best_set(every, 0, &set, exact) : 1e30;
    const double best = split * Paths::worth <= single ? split : single;
    // Chunks are steps, and shares are rounded: a few percent, and at the brink of worth either will do.
    // A path that brings less than 5 % is left out.
    const bool brink = std::abs(split * Paths::worth / single - 1) < 0.1;
    if (!brink && (ways.ns > best * 1.09 || ways.ns < best * 0.96) &&
        std::abs(ways.ns - best) > 3000)
      fail_msg("round %d: %llu bytes in %.0f ns over %u ways; the best is %.0f (single %.0f)",
               round, static_cast<unsigned long long>(bytes), ways.ns, ways.count, best, single);
    splits += ways.split() ? 1 : 0;
    relays += !ways.split() && ways.shares[0].device() ? 1 : 0;
  }
  assert_true(splits > 30 && relays > 5);
}

// ---- machines ----

/// A DGX-1 of V100: a cube of NVLinks, some of them double; four of a GPU's seven others it does not reach or only over PCIe.
Machine dgx1() {
  Machine m(8);
  for (size_t a = 0; a < 8; ++a)
    for (size_t b = a + 1; b < 8; ++b) m.link(a, b, WEIR_LINK_PCIE, 12 * gb, 0, false);
  const struct {
    size_t a, b;
    int links;
  } cube[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
              {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
              {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  for (const auto &link : cube)
    m.link(link.a, link.b, WEIR_LINK_NVLINK, static_cast<uint64_t>(link.links) * 25 * gb);
  m.host(WEIR_LINK_PCIE, 12 * gb);
  return m;
}

void a_cube_is_crossed_by_its_corners(void **) {
  const Machine m = dgx1();
  const Paths paths = m.paths();
  // 0 and 7 are two links apart: over 4 both are double.
  const Ways one = paths.choose(0, 7, 2 * mib, all);
  assert_int_equal(one.count, 1);
  assert_int_equal(one.shares[0].via, 4);
  assert_true(one.past_host());
  // A large copy goes over 3 as well, and the host's slots.
  const Ways large = paths.choose(0, 7, 256 * mib, all);
  check_shares(m, 0, 7, 256 * mib, large);
  assert_true(large.count >= 2);
  assert_int_equal(large.shares[0].via, 4);
  assert_int_equal(large.shares[1].via, 3);
  assert_true(large.shares[0].bytes > large.shares[1].bytes * 3 / 2);
  // Without the devices in between there is the host.
  const Ways staged = paths.choose(0, 7, 2 * mib, 0);
  assert_int_equal(staged.shares[0].via, Share::host);
  assert_true(staged.ns > 2 * one.ns);
  // A link that is not open to the two is none.
  assert_int_equal(paths.choose(0, 3, 2 * mib, 0, false).shares[0].via, Share::host);
  assert_true(paths.choose(0, 3, 2 * mib, all, false).shares[0].device());
  // A single link to a neighbour, and double ones around the corner: not for a small copy.
  assert_true(paths.choose(0, 1, 64 * 1024, all).plain());
  const Ways around = paths.choose(0, 1, 256 * mib, all);
  check_shares(m, 0, 1, 256 * mib, around);
  assert_true(around.count > 1);
}

void pcie_is_one_slot(void **) {
  Machine m(4);
  for (size_t a = 0; a < 4; ++a)
    for (size_t b = a + 1; b < 4; ++b) m.link(a, b, WEIR_LINK_PCIE, 15 * gb, 0, a / 2 == b / 2);
  m.host(WEIR_LINK_PCIE, 15 * gb);
  const Paths paths = m.paths();
  assert_true(paths.choose(0, 1, 256 * mib, all).plain());
  const Ways far = paths.choose(0, 2, 256 * mib, all);
  assert_int_equal(far.count, 1);
  assert_int_equal(far.shares[0].via, Share::host);
}

void a_switch_is_one_port(void **) {
  Machine m(4);
  for (size_t a = 0; a < 4; ++a)
    for (size_t b = a + 1; b < 4; ++b) m.link(a, b, WEIR_LINK_NVLINK, (150 + a) * gb);
  m.host(WEIR_LINK_PCIE, 15 * gb);
  assert_true(m.paths().choose(0, 1, 1024 * mib, all).plain());
  // With a slower one among them it is none.
  m.link(0, 1, WEIR_LINK_NVLINK, 50 * gb);
  assert_true(m.paths().choose(0, 1, 1024 * mib, all).split());
}

void a_fabric_and_the_slot_beside_it(void **) {
  Machine m(2);
  m.link(0, 1, WEIR_LINK_NVLINK, 50 * gb);
  m.host(WEIR_LINK_PCIE, 15 * gb);
  const Ways ways = m.paths().choose(0, 1, 256 * mib, all);
  assert_int_equal(ways.count, 2);
  assert_int_equal(ways.shares[0].via, Share::direct);
  assert_int_equal(ways.shares[1].via, Share::host);
  // Less than it must gain, and less than is worth dividing.
  m.link(0, 1, WEIR_LINK_NVLINK, 150 * gb);
  assert_true(m.paths().choose(0, 1, 256 * mib, all).plain());
  m.link(0, 1, WEIR_LINK_NVLINK, 50 * gb);
  assert_true(m.paths().choose(0, 1, Paths::least_split - 1, all).plain());
}

/// A slow way more, for a few percent, is not worth its memory.
void what_brings_little_is_spared(void **) {
  Machine m(3);
  m.link(0, 1, WEIR_LINK_NVLINK, 30 * gb);
  m.link(0, 2, WEIR_LINK_NVLINK, 20 * gb);
  m.link(1, 2, WEIR_LINK_NVLINK, 20 * gb);
  m.host(WEIR_LINK_PCIE, 2 * gb);
  assert_int_equal(m.paths().choose(0, 1, 256 * mib, all).count, 2);
  m.host(WEIR_LINK_PCIE, 12 * gb);
  assert_int_equal(m.paths().choose(0, 1, 256 * mib, all).count, 3);
}

/// What is not known is not split, and the host is as slow as the slowest that is known.
void nothing_is_made_of_what_is_unknown(void **) {
  Machine m(3);
  m.link(0, 1, WEIR_LINK_NVLINK, 0);
  m.link(0, 2, WEIR_LINK_NVLINK, 50 * gb);
  m.link(1, 2, WEIR_LINK_NVLINK, 40 * gb);
  m.host(WEIR_LINK_NONE, 0);
  assert_true(m.paths().choose(0, 1, 256 * mib, all).plain());
  m.link(0, 1, WEIR_LINK_NONE, 0, 0, false);
  const Paths paths = m.paths();
  assert_int_equal(paths.choose(0, 1, 256 * mib, all).count, 1);
  assert_int_equal(paths.choose(0, 1, 256 * mib, all).shares[0].via, 2);
  assert_true(paths.from_host_ns(1, mib) >= 1024 * 1024 / 40.0);
  // Nothing known at all.
  const Machine bare(3);
  assert_int_equal(bare.paths().choose(0, 1, 256 * mib, all).shares[0].via, Share::host);
  Paths none;
  none.find(Routes());
}

/// As the pool would find them: recorded machines, with what hwloc says of their links.
void recorded_machines(void **) {
  const struct {
    const char *file;
    uint32_t devices;
    bool beside;  ///< the slot gives enough beside the fabric, of which only one path is taken
  } machines[] = {{"hwloc-2.14.0-nvidiaDGX2.xml", 16, false},
                  {"fluxcore-ipa20.xml", 4, true},
                  {"mpibind-eas-tioga.xml", 8, true},
                  {"mpibind-g4dnmetal.xml", 8, false}};
  for (const auto &each : machines) {
    const std::string path = weir::test::recorded(each.file);
    if (path.empty() || access(path.c_str(), R_OK) != 0) {
      print_message("skipped: no %s in WEIR_SHARED_DIR\n", each.file);
      skip();
    }
    weir::topology::Machine found(std::pmr::get_default_resource());
    if (!weir::topology::discover_file(path.c_str(), &found)) fail_msg("%s", path.c_str());
    assert_int_equal(found.device_count(), each.devices);
    Machine m(each.devices);
    for (uint32_t a = 0; a < each.devices; ++a) {
      for (uint32_t b = 0; b <= each.devices; ++b) {
        if (a == b) continue;
        const auto link = found.link(a, b < each.devices ? b : weir::topology::host_end);
        m.link(a, b, link.kind, link.bandwidth, link.latency_ns, link.direct);
      }
    }
    const Paths paths = m.paths();
    for (uint8_t a = 0; a < each.devices; ++a) {
      for (uint8_t b = 0; b < each.devices; ++b) {
        if (a == b) continue;
        const Ways ways = paths.choose(a, b, 256 * mib, all);
        check_shares(m, a, b, 256 * mib, ways);
        assert_int_equal(ways.count, each.beside ? 2 : 1);
        const uint8_t first = m.at(a, b).direct ? Share::direct : Share::host;
        assert_int_equal(ways.shares[0].via, first);
        if (each.beside) assert_int_equal(ways.shares[1].via, Share::host);
      }
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_best_of_every_set_is_taken),
      cmocka_unit_test(a_cube_is_crossed_by_its_corners),
      cmocka_unit_test(pcie_is_one_slot),
      cmocka_unit_test(a_switch_is_one_port),
      cmocka_unit_test(a_fabric_and_the_slot_beside_it),
      cmocka_unit_test(what_brings_little_is_spared),
      cmocka_unit_test(nothing_is_made_of_what_is_unknown),
      cmocka_unit_test(recorded_machines),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
