// SPDX-License-Identifier: Apache-2.0
//
// What leases of resident memory submit. On a stream of Weir's own: nothing. On a queue that the program submits to itself the
// end of a lease is the end of what the program submitted: where the program tells the value that its submissions signal, that
// value; else a submission of nothing under the queue's lock.

#include "bench/vulkan/parts.hpp"

namespace weir::bench {
namespace {

constexpr uint64_t buffer_bytes = 2 * mib;

weir_pool_desc pool_desc() {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.host_budget = 64 * mib;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.large_page_size = desc.page_size = buffer_bytes;
  return desc;
}

/// One stream of Weir's own and one around the program's queue, in the program's device.
class Shared {
 public:
  Shared(const Backend &backend, bool with_value)
      : engine_(backend, Engine::For::sharing),
        native_(engine_.natives()),
        rig_(context_of(backend), pool_desc(), 16 * buffer_bytes),
        buffer_(rig_.add_buffer(buffer_bytes)),
        commands_(engine_.record([](const Engine::Api &api, VkCommandBuffer commands) {
          VkMemoryBarrier all{};
          all.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
          all.srcAccessMask = all.dstAccessMask =
              VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
          constexpr VkPipelineStageFlags any = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
          api.CmdPipelineBarrier(commands, any, any, 0, 1, &all, 0, nullptr, 0, nullptr);
        })) {
    weir_vulkan_queue told = engine_.queue(with_value);
    WEIR_BENCH_TRY(weir_stream_wrap(rig_.context(), 0, &told, 0, &wrapped_));
    (void)rig_.touch(buffer_, WEIR_DISCARD_WRITE);
    rig_.synchronize();
  }
  ~Shared() {
    engine_.wait();
    WEIR_BENCH_TRY(weir_stream_synchronize(wrapped_));
    WEIR_BENCH_TRY(weir_stream_close(wrapped_));
  }
  Shared(const Shared &) = delete;
  Shared &operator=(const Shared &) = delete;

  /// The program's own submissions, and around each a lease if `leased`. ns a submission.
  double run(int rounds, bool leased) {
    const double start = now_ns();
    for (int i = 0; i < rounds; ++i) {
      weir_lease lease = nullptr;
      weir_use use = WEIR_USE(buffer_, WEIR_READ_WRITE);
      if (leased)
        check(weir_acquire(rig_.pool(), wrapped_, &use, 1, nullptr, &lease), "weir_acquire");
      engine_.submit(commands_);
      if (leased) check(weir_release(lease, wrapped_), "weir_release");
    }
    const double each = (now_ns() - start) / rounds;
    engine_.wait();
    return each;
  }
  uint64_t locks() const { return engine_.locks(); }

 private:
  weir_context_desc context_of(const Backend &backend) {
    weir_context_desc desc = backend.context();
    handles_ = {"vulkan", &native_};
    desc.natives = &handles_;
    desc.native_count = 1;
    return desc;
  }

  Engine engine_;
  weir_vulkan_device native_;
  weir_native handles_{};
  Rig rig_;
  weir_buffer buffer_;
  VkCommandBuffer commands_;
  weir_stream wrapped_ = nullptr;
};

void measure_shared(const Settings &settings, const Backend &backend, Report &report,
                    bool with_value) {
  constexpr int rounds = 500;
  Shared shared(backend, with_value);
  const Calls calls;
  Series times, locks, submits;
  for (int i = -1; i < settings.repetitions; ++i) {
    const bool first = i % 2 == 0;
    const double before = first ? 0 : shared.run(rounds, false);
    const uint64_t locked = shared.locks(), submitted = calls.of("vkQueueSubmit");
    const double ours = shared.run(rounds, true);
    const auto held = static_cast<double>(shared.locks() - locked);
    const auto handed = static_cast<double>(calls.of("vkQueueSubmit") - submitted);
    const double theirs = first ? shared.run(rounds, false) : before;
    if (i < 0) continue;
    times.add(ours, theirs);
    locks.add(held - rounds, rounds);
    submits.add(handed - rounds, rounds);
  }
  const auto which = [&](Json &json) {
    json.text("fence", with_value ? "the program's timeline value" : "a submission of Weir's");
  };
  report.figure({"vulkan_wrapped_lease",
                 "a submission of the program's on a wrapped queue within a lease of a resident "
                 "buffer",
                 "the same submission without a lease", "ns"},
                times, which);
  report.figure({"vulkan_wrapped_locks", "Weir takes the queue's lock", "leases", "times"}, locks,
                which);
  const Meaning meaning = {"vulkan_wrapped_submits", "vkQueueSubmit of Weir's", "leases", "calls"};
  if (calls.counted()) {
    report.figure(meaning, submits, which);
  } else {
    report.skipped(meaning, nobody_counts);
  }
}

}  // namespace

void measure_hits(const Settings &settings, const Backend &backend, Report &report) {
  constexpr int rounds = 2000;
  const Calls calls;
  const Meaning acquires = {"vulkan_hit_acquire_submits", "vkQueueSubmit of an acquire that hits",
                            "acquires", "calls", "none"};
  const Meaning releases = {"vulkan_hit_release_submits", "vkQueueSubmit of its release",
                            "releases", "calls", "none"};
  if (!calls.counted()) return report.skipped(acquires, nobody_counts);
  Rig rig(backend.context(), pool_desc(), 16 * buffer_bytes);
  const weir_buffer buffer = rig.add_buffer(buffer_bytes);
  (void)rig.touch(buffer, WEIR_DISCARD_WRITE);
  rig.synchronize();
  Series acquired, released;
  for (int i = 0; i < settings.repetitions; ++i) {
    uint64_t by_acquire = 0, by_release = 0;
    for (int k = 0; k < rounds; ++k) {
      weir_use use = WEIR_USE(buffer, k % 2 == 0 ? WEIR_READ : WEIR_READ_WRITE);
      weir_lease lease = nullptr;
      const uint64_t before = calls.of("vkQueueSubmit");
      check(weir_acquire(rig.pool(), rig.stream(), &use, 1, nullptr, &lease), "weir_acquire");
      const uint64_t between = calls.of("vkQueueSubmit");
      check(weir_release(lease, rig.stream()), "weir_release");
      by_acquire += between - before;
      by_release += calls.of("vkQueueSubmit") - between;
    }
    acquired.add(static_cast<double>(by_acquire), rounds);
    released.add(static_cast<double>(by_release), rounds);
  }
  report.figure(acquires, acquired);
  report.figure(releases, released);
}

void measure_wrapped(const Settings &settings, const Backend &backend, Report &report) {
  measure_shared(settings, backend, report, false);
  measure_shared(settings, backend, report, true);
}

}  // namespace weir::bench
