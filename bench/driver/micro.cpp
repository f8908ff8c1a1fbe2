// SPDX-License-Identifier: Apache-2.0
//
// What single calls of the driver's virtual memory cost, as shares of the time in which as many bytes are copied up: one
// granule of 2 or of 32 MiB, neighbours given access to and unmapped in one call, peers that get access, a thread without a
// current context; and whether a call waits for a kernel of another stream, or lasts longer beside it.

#include "bench/driver/driver.hpp"

#include <array>
#include <thread>

namespace weir::bench {
namespace {

enum Call : size_t { create, map, access, unmap, release, number_of_calls };
constexpr std::array<const char *, number_of_calls> names{
    "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"};
constexpr const char *yardstick =
    "cuMemcpyAsync of as many bytes from pinned memory, and waiting for it";

struct Case {
  uint64_t granule;
  uint64_t neighbours;
  int peers = 0;
  bool context = true;
};

/// What one call took, and of how many granules it was.
struct Times {
  std::array<std::vector<double>, number_of_calls> ns;
  std::array<uint64_t, number_of_calls> waited{};  ///< calls that outlasted the work beside them
  std::array<int, number_of_calls> code{};         ///< the first failure
};

/// Reserved addresses and the granules there, through all calls in turn.
class Sequence {
 public:
  Sequence(const Driver &driver, const Case &of) : driver_(driver), case_(of) {
    code_ = driver_.cuMemAddressReserve(&base_, bytes(), 0, 0, 0);
    for (int device = 0; device <= of.peers; ++device)
      who_.push_back({{on_device, device}, read_write});
    granules_.resize(of.neighbours);
  }
  ~Sequence() {
    if (code_ == 0) driver_.must(driver_.cuMemAddressFree(base_, bytes()), "cuMemAddressFree");
  }
  Sequence(const Sequence &) = delete;
  Sequence &operator=(const Sequence &) = delete;

  /// Once through all calls; beside `work`, which is begun anew before each, if there is any.
  void run(Times *times, Work *work) {
    if (code_ != 0) {
      times->code[create] = code_;  // without addresses none of the calls can be made
      return;
    }
    const GranuleProperties wanted = driver_.properties();
    uint64_t made = 0;
    for (; made < case_.neighbours; ++made) {
      if (!timed(create, times, first(made) ? work : nullptr,
                 [&] { return driver_.cuMemCreate(&granules_[made], case_.granule, &wanted, 0); }))
        break;
    }
    uint64_t mapped = 0;
    for (; made == case_.neighbours && mapped < made; ++mapped) {
      if (!timed(map, times, first(mapped) ? work : nullptr, [&] {
            return driver_.cuMemMap(base_ + mapped * case_.granule, case_.granule, 0,
                                    granules_[mapped], 0);
          }))
        break;
    }
    if (mapped == case_.neighbours) {
      (void)timed(access, times, work,
                  [&] { return driver_.cuMemSetAccess(base_, bytes(), who_.data(), who_.size()); });
      (void)timed(unmap, times, work, [&] { return driver_.cuMemUnmap(base_, bytes()); });
    }
    for (uint64_t i = 0; i < made; ++i)
      (void)timed(release, times, first(i) ? work : nullptr,
                  [&] { return driver_.cuMemRelease(granules_[i]); });
  }

 private:
  uint64_t bytes() const { return case_.granule * case_.neighbours; }
  static bool first(uint64_t number) { return number == 0; }

  template <class Function>
  bool timed(Call call, Times *times, Work *work, Function &&function) {
    if (work != nullptr) work->start();
    const double start = now_ns();
    const int code = function();
    const double ns = now_ns() - start;
    if (code != 0) {
      if (times->code[call] == 0) times->code[call] = code;
    } else {
      times->ns[call].push_back(ns);
      if (work != nullptr) times->waited[call] += !work->running();
    }
    if (work != nullptr) work->wait();
    return code == 0;
  }

  const Driver &driver_;
  const Case case_;
  int code_ = 0;  ///< of the reservation
  uint64_t base_ = 0;
  std::vector<Access> who_;
  std::vector<uint64_t> granules_;
};

class Calls {
 public:
  Calls(const DriverSettings &settings, const Driver &driver)
      : settings_(settings), driver_(driver), copy_(driver, 128 * mib) {}

  void measure(const Case &of) {
    Times times;
    const auto all = [&] {
      Sequence sequence(driver_, of);
      Times warm;
      sequence.run(&warm, nullptr);
      for (int i = 0; i < settings_.repetitions; ++i) sequence.run(&times, nullptr);
    };
    if (of.context) {
      all();
    } else {
      std::thread(all).join();  // a thread has no current context
    }
    for (size_t call = 0; call < number_of_calls; ++call) tell(of, static_cast<Call>(call), times);
  }

  void measure_beside(const Case &of, Work *work) {
    Times idle, beside;
    Sequence sequence(driver_, of);
    for (int i = -1; i < settings_.repetitions; ++i) {
      if (i < 0) {
        Times warm;
        sequence.run(&warm, nullptr);
        continue;
      }
      sequence.run(&idle, nullptr);
      sequence.run(&beside, work);
    }
    for (size_t call = 0; call < number_of_calls; ++call)
      tell_beside(of, static_cast<Call>(call), idle, beside, *work);
  }

 private:
  static uint64_t granules_of(const Case &of, Call call) {
    return call == access || call == unmap ? of.neighbours : 1;
  }
  Json begin(const Case &of, Call call, const char *benchmark, const char *what,
             const char *held_against) const {
    Json json = driver_.begin(benchmark, what, held_against);
    json.text("call", names[call])
        .count("mib", of.granule / mib)
        .count("neighbours", granules_of(of, call))
        .count("peers", static_cast<uint64_t>(of.peers))
        .text("context", of.context ? "current" : "none");
    return json;
  }

  void tell(const Case &of, Call call, const Times &times) const {
    // A granule by itself is the same whoever its neighbours are.
    if (granules_of(of, call) != of.neighbours) return;
    Json json = begin(of, call, "driver_call", "one call of the driver", yardstick);
    if (times.ns[call].empty()) return Driver::skip(json, why(times, call));
    const uint64_t bytes = of.granule * of.neighbours;
    std::vector<double> copies;
    for (int i = 0; i < settings_.repetitions; ++i)
      copies.push_back(copy_.up_ns(std::min(bytes, 128 * mib)) * static_cast<double>(bytes) /
                       static_cast<double>(std::min(bytes, 128 * mib)));
    say(json, times.ns[call], median(copies));
  }

  void tell_beside(const Case &of, Call call, const Times &idle, const Times &beside,
                   const Work &work) const {
    Json json =
        begin(of, call, "driver_call_beside", "one call of the driver beside work on a stream",
              "the same call with an idle device");
    json.text("beside", work.name()).number("work_ms", work.ns() / 1e6);
    if (beside.ns[call].empty() || idle.ns[call].empty())
      return Driver::skip(json, why(beside, call));
    // Of many calls in a row only the first has work beside it.
    std::vector<double> firsts;
    const size_t step = beside.ns[call].size() / static_cast<size_t>(settings_.repetitions);
    for (size_t i = 0; i < beside.ns[call].size(); i += std::max<size_t>(1, step))
      firsts.push_back(beside.ns[call][i]);
    json.count("waited_for_the_work", beside.waited[call])
        .number("longest_share_of_the_work",
                *std::max_element(firsts.begin(), firsts.end()) / work.ns());
    say(json, firsts, median(idle.ns[call]));
  }

  void say(const Json &json, const std::vector<double> &ns, double against) const {
    Pair pair;
    pair.subject = median(ns);
    pair.yardstick = against;
    pair.ratio = pair.subject / against;
    pair.ratio_low = *std::min_element(ns.begin(), ns.end()) / against;
    pair.ratio_high = *std::max_element(ns.begin(), ns.end()) / against;
    driver_.say(json, pair, ns.size(), "ns");
  }

  std::string why(const Times &times, Call call) const {
    for (size_t each = 0; each <= call; ++each) {
      if (times.code[each] != 0)
        return std::string(names[each]) + ": " + driver_.words(times.code[each]);
    }
    return "a call before it failed";
  }

  const DriverSettings &settings_;
  const Driver &driver_;
  const PlainCopy copy_;
};

/// Peers that may get access to the first device's memory: the devices after it, as far as all can.
int reachable(const Driver &driver) {
  int peers = 0;
  for (int can = 1; peers + 1 < driver.devices(); ++peers) {
    if (driver.cuDeviceCanAccessPeer(&can, peers + 1, driver.device()) != 0 || can == 0) break;
  }
  return peers;
}

}  // namespace

void measure_first_calls(const Driver &driver) {
  constexpr uint64_t bytes = 2 * mib;
  constexpr int vmm = 102;
  if (driver.attribute(vmm) == 0) return;
  const GranuleProperties wanted = driver.properties();
  const Access who = {wanted.place, read_write};
  size_t granularity = 0;
  uint64_t granule = 0, base = 0;
  bool going_on = true;
  // In the order in which Weir makes them; when one fails, those that need it are left out.
  const auto call = [&](const char *name, auto &&function) {
    if (!going_on) return;
    const double start = now_ns();
    const int code = function();
    const double ns = now_ns() - start;
    going_on = code == 0;
    Json json("driver_first_call");
    json.text("what", "the calls that a process makes before it has any context")
        .text("call", name);
    json.text("result", code == 0 ? "success" : driver.words(code).c_str());
    if (driver.real()) json.number("ns", ns);
    json.print();
  };
  call("cuMemGetAllocationGranularity",
       [&] { return driver.cuMemGetAllocationGranularity(&granularity, &wanted, 0); });
  call("cuMemCreate", [&] { return driver.cuMemCreate(&granule, bytes, &wanted, 0); });
  call("cuMemAddressReserve", [&] { return driver.cuMemAddressReserve(&base, bytes, 0, 0, 0); });
  call("cuMemMap", [&] { return driver.cuMemMap(base, bytes, 0, granule, 0); });
  call("cuMemSetAccess", [&] { return driver.cuMemSetAccess(base, bytes, &who, 1); });
  const bool mapped = going_on;
  call("cuMemUnmap", [&] { return driver.cuMemUnmap(base, bytes); });
  // What was made goes, whatever failed; the last two calls are no figures.
  if (!mapped && base != 0) (void)driver.cuMemUnmap(base, bytes);
  if (base != 0) (void)driver.cuMemAddressFree(base, bytes);
  if (granule != 0) (void)driver.cuMemRelease(granule);
}

void measure_calls(const DriverSettings &settings, const Driver &driver) {
  constexpr int vmm = 102;
  if (driver.attribute(vmm) == 0) {
    return Driver::skip(driver.begin("driver_call", "one call of the driver", yardstick),
                        "the device has no virtual memory");
  }
  Calls calls(settings, driver);
  for (const uint64_t neighbours : {uint64_t{1}, uint64_t{4}, uint64_t{16}, uint64_t{64}})
    calls.measure({2 * mib, neighbours});
  calls.measure({32 * mib, 1});
  // Whether the driver wants a context at all: Weir's start makes two of these calls before it has one.
  calls.measure({2 * mib, 1, 0, false});
  Work work(driver, settings.kernel_ms);
  calls.measure_beside({2 * mib, 1}, &work);
  calls.measure_beside({2 * mib, 16}, &work);
  const int peers = reachable(driver);
  std::vector<int> some;
  for (const int wanted : {1, 7}) {
    if (std::min(wanted, peers) > (some.empty() ? 0 : some.back()))
      some.push_back(std::min(wanted, peers));
  }
  for (const int each : some) {
    for (const uint64_t neighbours : {uint64_t{1}, uint64_t{16}})
      calls.measure({2 * mib, neighbours, each});
  }
  calls.measure({32 * mib, 4});
  calls.measure_beside({32 * mib, 1}, &work);
}

}  // namespace weir::bench
