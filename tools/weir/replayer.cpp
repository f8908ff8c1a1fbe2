// SPDX-License-Identifier: Apache-2.0
//
// Replayer: the loop. For each operation: blocks born before and inside it are created, the window
// is announced, the uses are acquired, the job is enqueued, the lease is released, blocks freed
// inside it are destroyed. Where the whole plan is announced, all blocks are created before the first operation, and still
// destroyed where the trace frees them.
#include "replayer.hpp"

#include "versions.hpp"

#include <algorithm>
#include <cmath>

namespace weir::tool {

double Pace::seconds(const Plan &plan, const PlanOperation &operation) const {
  const double compute = static_cast<double>(operation.flops) / flops;
  const double memory = static_cast<double>(operation.touched) / bytes;
  return std::max(compute, memory) / static_cast<double>(plan.scale) * slow;
}

uint64_t Pace::nanoseconds(const Plan &plan, const PlanOperation &operation) const {
  return static_cast<uint64_t>(std::llround(seconds(plan, operation) * 1e9));
}

double compute_seconds(const Plan &plan, const Pace &pace) {
  double sum = 0;
  for (const PlanOperation &operation : plan.operations) sum += pace.seconds(plan, operation);
  return sum;
}

namespace {

class Loop {
 public:
  Loop(const Plan &plan, Machine &machine, const Pattern &pattern, const RunOptions &options)
      : plan_(plan),
        machine_(machine),
        options_(options),
        ring_(std::max<uint64_t>(options.ahead, 1), pattern, log_),
        window_(options.announce == announce_all ? 1 : options.announce + 1),
        versions_(plan.block_bytes.size()),
        live_(plan.block_bytes.size()) {}
  ~Loop() { machine_.abandon(); }  // jobs in flight use the ring
  Loop(const Loop &) = delete;
  Loop &operator=(const Loop &) = delete;

  RunResult run() {
    if (options_.announce == announce_all) announce_whole_plan();
    const uint64_t start = now_ns();
    for (uint64_t i = 0; i < plan_.operations.size(); ++i) {
      operation(i);
      if (options_.after) options_.after(i);
      if (options_.progress) options_.progress(i - std::min(i, ring_.pending()));
    }
    machine_.finish();
    RunResult result;
    result.begin_ns = start;
    result.end_ns = now_ns();
    result.seconds = static_cast<double>(result.end_ns - start) * 1e-9;
    result.overrun_seconds = static_cast<double>(ring_.overrun_ns()) * 1e-9;
    result.verify_errors = log_.words();
    result.first_errors = log_.first();
    for (uint32_t block = 0; block < live_.size(); ++block)
      if (live_[block] != 0) destroy(block);
    return result;
  }

 private:
  /// In the order in which operation() will acquire.
  void announce_whole_plan() {
    std::vector<BlockUse> uses;
    for (const PlanOperation &operation : plan_.operations) {
      for (uint64_t i = operation.prelude; i < operation.end; ++i) {
        if (plan_kind(plan_.events[i]) != plan_alloc) continue;
        const uint32_t block = plan_block(plan_.events[i]);
        create(block);
        if (options_.touch) machine_.announce("birth", birth_of(block));
      }
      merger_.merge(plan_, operation, uses);
      if (!uses.empty()) machine_.announce(plan_.names[operation.name], uses);
    }
  }

  void create(uint32_t block) {
    machine_.create(block, plan_.block_bytes[block]);
    live_[block] = 1;
  }

  const std::vector<BlockUse> &birth_of(uint32_t block) {
    touched_.assign(1, BlockUse{0, plan_.block_bytes[block], block, UseMode::overwrite});
    return touched_;
  }

  void operation(uint64_t index) {
    const PlanOperation &operation = plan_.operations[index];
    const std::string &name = plan_.names[operation.name];
    for (uint64_t i = operation.prelude; i < operation.body; ++i)
      host_event(index, plan_.events[i]);
    for (uint64_t i = operation.body; i < operation.end; ++i)
      if (plan_kind(plan_.events[i]) == plan_alloc) host_event(index, plan_.events[i]);

    look_ahead(index);
    const std::vector<BlockUse> &uses = window_[index % window_.size()];
    const uint64_t duration = duration_ns(operation);
    if (!uses.empty() || duration != 0) {
      Job &job = ring_.next();
      job.operation = index;
      job.duration_ns = duration;
      enqueue(name, uses, job);
    }

    for (uint64_t i = operation.body; i < operation.end; ++i)
      if (plan_kind(plan_.events[i]) == plan_free) destroy(plan_block(plan_.events[i]));
  }

  void host_event(uint64_t operation, PlanEvent event) {
    const uint32_t block = plan_block(event);
    if (plan_kind(event) == plan_free) {
      destroy(block);
      return;
    }
    if (options_.announce != announce_all) create(block);
    if (!options_.touch) return;
    Job &job = ring_.next();
    job.operation = operation;
    enqueue("birth", birth_of(block), job);
  }

  void destroy(uint32_t block) {
    live_[block] = 0;
    versions_[block].clear();
    machine_.destroy(block);
  }

  /// Merges, and announces, operations up to the window's end. An operation without uses is no
  /// acquire.
  void look_ahead(uint64_t index) {
    const uint64_t stop = std::min<uint64_t>(index + window_.size(), plan_.operations.size());
    for (; prepared_ < stop; ++prepared_) {
      const PlanOperation &operation = plan_.operations[prepared_];
      std::vector<BlockUse> &uses = window_[prepared_ % window_.size()];
      merger_.merge(plan_, operation, uses);
      if (options_.announce != 0 && options_.announce != announce_all && !uses.empty())
        machine_.announce(plan_.names[operation.name], uses);
    }
  }

  uint64_t duration_ns(const PlanOperation &operation) const {
    return options_.pace ? options_.pace->nanoseconds(plan_, operation) : 0;
  }

  void enqueue(const std::string &name, const std::vector<BlockUse> &uses, Job &job) {
    if (uses.empty()) {
      machine_.submit(job);
      ring_.submitted();
      return;
    }
    addresses_.resize(uses.size());
    machine_.begin(name, uses, addresses_);
    if (options_.verify)
      for (size_t i = 0; i < uses.size(); ++i) add_tasks(uses[i], addresses_[i], job);
    if (!job.tasks.empty() || job.duration_ns != 0) {
      machine_.submit(job);
      ring_.submitted();
    }
    machine_.end();
  }

  void add_tasks(const BlockUse &use, std::byte *at, Job &job) {
    Versions &versions = versions_[use.block];
    if (use.mode != UseMode::overwrite)
      versions.read(
          use.offset, use.length, [&](uint64_t offset, uint64_t length, uint32_t version) {
            const bool make_zero = version == 0 && !machine_.starts_zeroed();
            job.tasks.push_back({at + (offset - use.offset), offset, length, use.block, version,
                                 make_zero ? Task::Action::zero : Task::Action::check});
          });
    if (use.mode == UseMode::read) return;
    const auto version = static_cast<uint32_t>(job.operation + 1);
    versions.write(use.offset, use.length, plan_.block_bytes[use.block], version);
    job.tasks.push_back({at, use.offset, use.length, use.block, version, Task::Action::fill});
  }

  const Plan &plan_;
  Machine &machine_;
  const RunOptions &options_;
  VerifyLog log_;
  JobRing ring_;
  UseMerger merger_;
  std::vector<std::vector<BlockUse>> window_;  ///< merged uses of operation i, at i modulo the size
  uint64_t prepared_ = 0;
  std::vector<Versions> versions_;
  std::vector<BlockUse> touched_;
  std::vector<uint8_t> live_;
  std::vector<std::byte *> addresses_;
};

}  // namespace

RunResult replay(const Plan &plan, Machine &machine, const Pattern &pattern,
                 const RunOptions &options) {
  return Loop(plan, machine, pattern, options).run();
}

}  // namespace weir::tool
