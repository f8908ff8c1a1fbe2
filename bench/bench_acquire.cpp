// SPDX-License-Identifier: Apache-2.0
//
// What a lease on resident memory costs: against an uncontended mutex, as a set, with few and with very many live
// buffers, in a pool of many devices, and from two threads at once. Every part has its yardstick in the same run.
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails.

#include "common.hpp"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

namespace {

using namespace weir::bench;

constexpr int repetitions = 15;
constexpr int rounds = 100000;

double time_mutex_ns() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const double start = now_ns();
  for (int i = 0; i < rounds; ++i) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
  return (now_ns() - start) / rounds;
}

double time_lease_ns(Rig &rig, weir_buffer buffer, uint32_t mode) {
  const double start = now_ns();
  for (int i = 0; i < rounds; ++i) rig.touch(buffer, mode);
  const double each = (now_ns() - start) / rounds;
  rig.synchronize();
  return each;
}

weir_pool_desc resident_pool() {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.host_budget = 64 * mib;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  return desc;
}

/// A buffer whose next use is a hit.
weir_buffer resident_buffer(Rig &rig, uint64_t size) {
  weir_buffer buffer = rig.add_buffer(size);
  rig.touch(buffer, WEIR_DISCARD_WRITE);
  rig.touch(buffer, WEIR_READ_WRITE);
  rig.synchronize();
  return buffer;
}

void against_mutex() {
  Rig rig("host.memory=64M;host.granule=2M", resident_pool(), 32 * mib);
  weir_buffer buffer = resident_buffer(rig, 2 * mib);
  for (const uint32_t mode : {uint32_t{WEIR_READ}, uint32_t{WEIR_READ_WRITE}}) {
    const Pair pair = interleave(
        repetitions, [&] { return time_lease_ns(rig, buffer, mode); }, time_mutex_ns);
    Json("acquire_vs_mutex")
        .text("mode", mode == WEIR_READ ? "READ" : "READ_WRITE")
        .pair("lease_ns", "mutex_ns", pair)
        .text("goal", "ratio <= 3")
        .print();
  }
}

/// Times of the CPU: others use the machine too.
double time_set_ns(Rig &rig, std::vector<weir_use> uses) {
  const int times = rounds / static_cast<int>(uses.size());
  const double start = cpu_ns();
  for (int i = 0; i < times; ++i) {
    weir_lease lease = nullptr;
    WEIR_BENCH_TRY(
        weir_acquire(rig.pool(), rig.stream(), uses.data(), uses.size(), nullptr, &lease));
    WEIR_BENCH_TRY(weir_release(lease, rig.stream()));
  }
  return (cpu_ns() - start) / times;
}

/// Resident buffers leased as one set, against as many leases of one.
void sets() {
  constexpr size_t most = 1025;
  Rig rig("host.memory=4G;host.granule=2M", resident_pool(), (most + 2) * 2 * mib);
  std::vector<weir_use> all;
  for (size_t i = 0; i < most; ++i)
    all.push_back(WEIR_USE(resident_buffer(rig, 2 * mib), WEIR_READ));
  for (const size_t count : {2, 4, 5, 8, 16, 32, 64, 65, 128, 1024, 1025}) {
    const std::vector<weir_use> some(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    (void)time_set_ns(rig, some);
    const Pair pair = interleave(
        repetitions, [&] { return time_set_ns(rig, some); },
        [&] { return static_cast<double>(count) * time_set_ns(rig, {some[0]}); });
    Json("acquire_set")
        .count("uses", count)
        .pair("set_ns", "leases_ns", pair)
        .text("goal", "ratio <= 1.5")
        .print();
  }
}

/// Resident buffers leased as announced, one an operation, against the same not announced. In a pool without background threads, and in
/// one whose policy plans.
void announced(bool plans) {
  constexpr int operations = 20000;
  weir_pool_desc desc = resident_pool();
  if (plans) {
    desc.flags = 0;
    desc.policy = "auto";
  }
  Rig rig("host.memory=64M;host.granule=2M", desc, 32 * mib);
  const weir_buffer buffer = resident_buffer(rig, 2 * mib);
  const weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_operation operation = WEIR_OPERATION_INIT;
  operation.uses = &use;
  operation.use_count = 1;
  const std::vector<weir_operation> all(operations, operation);
  const auto lease_all = [&] {
    const double start = cpu_ns();
    for (int i = 0; i < operations; ++i) rig.touch(buffer, WEIR_READ);
    return (cpu_ns() - start) / operations;
  };
  const Pair pair = interleave(
      repetitions,
      [&] {
        WEIR_BENCH_TRY(weir_announce(rig.pool(), rig.stream(), all.data(), all.size(), 0));
        return lease_all();
      },
      lease_all);
  Json("acquire_announced")
      .text("pool", plans ? "auto" : "without background threads")
      .pair("announced_ns", "lease_ns", pair)
      .text("goal", "ratio <= 2")
      .print();
}

/// Resident bytes that are not all of one buffer at home: a range, a buffer whose home is another device, one in shards, and two pages
/// of that which are its stream's device's own. Each against a lease of a whole buffer at home.
void parts() {
  Rig rig("host.memory=64M;host.granule=2M;host.devices=2", resident_pool(), 48 * mib, 2);
  const weir_buffer whole = resident_buffer(rig, 4 * mib);
  const weir_buffer away = rig.add_buffer(4 * mib, 1);
  weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = 8 * mib;
  desc.shards = &shards;
  const weir_device both[] = {0, 1};
  shards.policy = WEIR_SHARD_BLOCKED;
  shards.devices = both;
  shards.device_count = 2;
  weir_buffer sharded = nullptr;
  WEIR_BENCH_TRY(weir_buffer_create(rig.pool(), &desc, &sharded));
  for (const weir_buffer each : {away, sharded}) {
    rig.touch(each, WEIR_DISCARD_WRITE);
    rig.touch(each, WEIR_READ_WRITE);
  }
  weir_use range = WEIR_USE(whole, 0), shard = WEIR_USE(sharded, 0);
  range.offset = 2 * mib;
  range.length = 1 * mib;
  shard.length = 4 * mib;
  const std::pair<const char *, weir_use> subjects[] = {{"a range", range},
                                                        {"away from home", WEIR_USE(away, 0)},
                                                        {"in shards", WEIR_USE(sharded, 0)},
                                                        {"a shard", shard}};
  for (const uint32_t mode : {uint32_t{WEIR_READ}, uint32_t{WEIR_READ_WRITE}}) {
    for (auto [name, use] : subjects) {
      use.mode = mode;
      const Pair pair = interleave(
          repetitions, [&] { return time_set_ns(rig, {use}); },
          [&] { return time_set_ns(rig, {WEIR_USE(whole, mode)}); });
      rig.synchronize();
      Json("acquire_part")
          .text("lease_of", name)
          .text("mode", mode == WEIR_READ ? "READ" : "READ_WRITE")
          .pair("part_ns", "whole_ns", pair)
          .text("goal",
                use.length != WEIR_WHOLE && use.buffer == whole ? "ratio <= 2" : "ratio <= 3")
          .print();
    }
  }
}

/// What a call costs that is refused, against a lease that is granted: a program may meet thousands of them a second.
void refusals() {
  Rig rig("host.memory=64M;host.granule=2M", resident_pool(), 8 * mib);
  const weir_buffer there = resident_buffer(rig, 4 * mib);
  const weir_buffer other = rig.add_buffer(6 * mib), large = rig.add_buffer(10 * mib);
  weir_use held = WEIR_USE(there, WEIR_READ_WRITE);
  weir_lease lease = nullptr;
  WEIR_BENCH_TRY(weir_acquire(rig.pool(), rig.stream(), &held, 1, nullptr, &lease));
  const weir_buffer granted = resident_buffer(rig, 2 * mib);
  const std::tuple<const char *, weir_buffer, weir_result> all[] = {
      {"OVER_BUDGET", large, WEIR_ERROR_OVER_BUDGET},
      {"WOULD_BLOCK", other, WEIR_ERROR_WOULD_BLOCK},
      {"LEASE_CONFLICT", there, WEIR_ERROR_LEASE_CONFLICT}};
  for (const auto &[name, buffer, wanted] : all) {
    const auto refuse = [&, buffer = buffer, wanted = wanted] {
      constexpr int times = 20000;
      const double start = now_ns();
      for (int i = 0; i < times; ++i) {
        weir_use use = WEIR_USE(buffer, WEIR_READ);
        weir_lease none = nullptr;
        if (weir_acquire(rig.pool(), rig.stream(), &use, 1, nullptr, &none) != wanted)
          check(WEIR_ERROR_INTERNAL, name);
      }
      return (now_ns() - start) / times;
    };
    const Pair pair =
        interleave(repetitions, refuse, [&] { return time_lease_ns(rig, granted, WEIR_READ); });
    Json("acquire_refused").text("result", name).pair("refusal_ns", "lease_ns", pair).print();
  }
  WEIR_BENCH_TRY(weir_release(lease, rig.stream()));
}

/// Hits on one device of a pool of eight, its first or its last, against the same in a pool of one; and on the last of a buffer
/// whose home is the first. Rounds are short and many, so that what else runs on the machine spoils some and not the median.
void many_devices() {
  constexpr uint32_t many = 8;
  constexpr int each = 5000;
  constexpr int tries = 401;
  const std::string memory = "host.memory=64M;host.granule=2M;host.devices=";
  Rig one(memory + "1", resident_pool(), 32 * mib);
  Rig eight(memory + std::to_string(many), resident_pool(), 32 * mib, many);
  Rig twin(memory + "1", resident_pool(), 32 * mib);
  const auto hits = [](Rig &rig, weir_device device, weir_device home) {
    const weir_stream stream = rig.add_stream(device);
    const weir_buffer buffer = rig.add_buffer(2 * mib, home);
    rig.touch(stream, buffer, WEIR_DISCARD_WRITE);
    rig.touch(stream, buffer, WEIR_READ_WRITE);
    return [&rig, stream, buffer] {
      const double start = now_ns();
      for (int i = 0; i < each; ++i) rig.touch(stream, buffer, WEIR_READ_WRITE);
      const double time = (now_ns() - start) / each;
      WEIR_BENCH_TRY(weir_stream_synchronize(stream));
      return time;
    };
  };
  const auto in_one = hits(one, 0, 0), in_twin = hits(twin, 0, 0);
  constexpr weir_device last = many - 1;
  for (const auto &[device, home] :
       {std::pair{0U, 0U}, std::pair{last, last}, std::pair{last, 0U}}) {
    const Pair pair = interleave(tries, hits(eight, device, home), in_one);
    // What two pools of one device differ by is this benchmark's own error.
    const Pair same = interleave(tries, in_twin, in_one);
    Json("acquire_many_devices")
        .count("devices", many)
        .count("device", device)
        .pair("many_ns", "one_ns", pair)
        .text("buffer", home == device ? "at home" : "away from home")
        .text("goal", home == device ? "ratio <= 1.05" : "ratio <= 3")
        .number("ratio_of_equals", same.ratio)
        .print();
  }
}

/// Buffers used in one fixed random order. A repetition goes on where the one before it stopped.
class RandomOrder {
 public:
  RandomOrder(Rig &rig, size_t count) : rig_(rig), buffers_(count) {
    for (weir_buffer &buffer : buffers_) {
      buffer = rig.add_buffer(256);
      rig.touch(buffer, WEIR_DISCARD_WRITE);
    }
    rig.synchronize();
    std::mt19937_64 random(1);
    std::shuffle(buffers_.begin(), buffers_.end(), random);
    // The first use after the one that wrote goes another way: it is no part of what is timed.
    for (const weir_buffer buffer : buffers_) rig.touch(buffer, WEIR_READ);
    rig.synchronize();
  }
  double time_ns() {
    const double start = now_ns();
    for (int i = 0; i < rounds; ++i) {
      rig_.touch(buffers_[next_], WEIR_READ);
      if (++next_ == buffers_.size()) next_ = 0;
    }
    const double each = (now_ns() - start) / rounds;
    rig_.synchronize();
    return each;
  }

 private:
  Rig &rig_;
  std::vector<weir_buffer> buffers_;
  size_t next_ = 0;
};

/// Reads one byte of each of as many records of 64 bytes as there are buffers, in random order: what the
/// machine's caches and TLB alone make of the step from few to many.
class RandomLines {
 public:
  explicit RandomLines(size_t count) : lines_(count * 64, 1), order_(count) {
    for (size_t i = 0; i < count; ++i) order_[i] = static_cast<uint32_t>(i);
    std::mt19937_64 random(1);
    std::shuffle(order_.begin(), order_.end(), random);
  }
  double time_ns() {
    const double start = now_ns();
    size_t sum = 0;
    for (int i = 0; i < rounds; ++i) {
      // The sum is part of the next address: no two reads overlap, as no two leases of one thread do.
      sum += static_cast<unsigned char>(lines_[(size_t{order_[next_]} * 64) + (sum & 1U)]);
      if (++next_ == order_.size()) next_ = 0;
    }
    const double each = (now_ns() - start) / rounds;
    asm volatile("" : : "r"(sum));
    return each;
  }

 private:
  std::vector<char> lines_;
  std::vector<uint32_t> order_;
  size_t next_ = 0;
};

void many_buffers() {
  constexpr size_t few = 1000;
  constexpr size_t many = 1000000;
  Rig rig("host.memory=1G;host.granule=2M", resident_pool(), 768 * mib);
  Rig small_rig("host.memory=64M;host.granule=2M", resident_pool(), 32 * mib);
  RandomOrder small(small_rig, few);
  const double start = now_ns();
  RandomOrder large(rig, many);
  const double made_ns = (now_ns() - start) / static_cast<double>(many);
  const Pair pair = interleave(
      repetitions, [&] { return large.time_ns(); }, [&] { return small.time_ns(); });
  RandomLines small_lines(few);
  RandomLines large_lines(many);
  const Pair lines = interleave(
      repetitions, [&] { return large_lines.time_ns(); }, [&] { return small_lines.time_ns(); });
  Json("acquire_many_buffers")
      .number("few", static_cast<double>(few))
      .number("many", static_cast<double>(many))
      .pair("many_ns", "few_ns", pair)
      .text("goal", "ratio <= 1.5")
      .number("bare_reads_many_ns", lines.subject)
      .number("bare_reads_few_ns", lines.yardstick)
      .number("create_and_first_use_ns", made_ns)
      .print();
}

/// Leases a second that `threads` threads get together, each on a stream and a buffer of its own.
template <class Step>
double throughput(unsigned threads, Step step) {
  std::atomic<unsigned> ready{0};
  std::vector<double> starts(threads);
  std::vector<double> ends(threads);
  const auto body = [&](unsigned who) {
    ready.fetch_add(1);
    while (ready.load() != threads) {
    }
    starts[who] = now_ns();
    step(who);
    ends[who] = now_ns();
  };
  std::vector<std::thread> others;
  for (unsigned who = 1; who < threads; ++who) others.emplace_back(body, who);
  body(0);
  for (std::thread &other : others) other.join();
  const double wall =
      *std::max_element(ends.begin(), ends.end()) - *std::min_element(starts.begin(), starts.end());
  return threads * 1e9 / wall;
}

/// Two threads of arithmetic that share nothing: what a second thread is worth on this machine right now.
double machine_scaling(int steps) {
  const auto body = [&](unsigned who) {
    uint64_t x = who + 1;
    for (int i = 0; i < steps; ++i) {
      x = x * 6364136223846793005U + 1442695040888963407U;
      asm volatile("" : "+r"(x));
    }
  };
  const double two = throughput(2, body);
  return two / throughput(1, body);
}

/// `spacers`: buffers made between the two, so that their records are not neighbours.
void two_threads(const char *placement, int spacers) {
  Rig rig("host.memory=64M;host.granule=2M", resident_pool(), 32 * mib);
  const weir_stream streams[2] = {rig.stream(), rig.add_stream()};
  weir_buffer buffers[2] = {rig.add_buffer(2 * mib), nullptr};
  for (int i = 0; i < spacers; ++i) rig.add_buffer(2 * mib);
  buffers[1] = rig.add_buffer(2 * mib);
  for (int i = 0; i < 2; ++i) {
    rig.touch(streams[i], buffers[i], WEIR_DISCARD_WRITE);
    rig.touch(streams[i], buffers[i], WEIR_READ);
  }
  // Short and many: a neighbour on the machine who takes a core spoils one repetition, not all. Those in which
  // even threads that share nothing did not scale say nothing about leases: they are counted and left out.
  constexpr int each = 50000;
  constexpr int tries = 101;
  constexpr double quiet = 1.8;
  const auto leases = [&](unsigned who) {
    for (int i = 0; i < each; ++i) rig.touch(streams[who], buffers[who], WEIR_READ);
  };
  std::vector<double> machine;
  std::vector<double> ratios;
  std::vector<double> quiet_ratios;
  for (int i = 0; i < tries; ++i) {
    const double before = machine_scaling(each * 8);
    const double one = throughput(1, leases);
    const double ratio = throughput(2, leases) / one;
    const double worse = std::min(before, machine_scaling(each * 8));
    machine.push_back(worse);
    ratios.push_back(ratio);
    if (worse >= quiet) quiet_ratios.push_back(ratio);
  }
  Json json("acquire_two_threads");
  json.text("records", placement)
      .number("repetitions", tries)
      .number("machine_ratio", median(machine))
      .number("ratio_of_all", median(ratios))
      .number("quiet_repetitions", static_cast<double>(quiet_ratios.size()))
      .text("goal", "ratio >= 1.8");
  if (!quiet_ratios.empty()) json.number("ratio", median(quiet_ratios));
  json.print();
}

}  // namespace

int main(int argc, char **argv) {
  const auto wanted = [&](const char *name) { return argc < 2 || std::strcmp(argv[1], name) == 0; };
  if (wanted("mutex")) against_mutex();
  if (wanted("sets")) sets();
  if (wanted("announced")) {
    announced(false);
    announced(true);
  }
  if (wanted("parts")) parts();
  if (wanted("refusals")) refusals();
  if (wanted("devices")) many_devices();
  if (wanted("threads")) {
    two_threads("neighbours", 0);
    two_threads("apart", 8);
  }
  if (wanted("many")) many_buffers();
  return 0;
}
