// SPDX-License-Identifier: Apache-2.0
//
// The calls of a recorded program, made again. Releases are on the lease's own stream: the program's may have made another stream wait for it,
// which Weir can't be asked to do.
#include "tools/weir/recorded/run.hpp"

#include "tools/weir/error.hpp"
#include "tools/weir/recorded/compressibility.hpp"
#include "tools/weir/recorded/contents.hpp"
#include "tools/weir/recorded/pace.hpp"
#include "tools/weir/recorded/pool_calls.hpp"
#include "tools/weir/text.hpp"

#include <algorithm>
#include <utility>

namespace weir::tool::recorded {
namespace {

struct StreamRun {
  Stream handle;
  std::unique_ptr<JobRing> ring;  ///< none yet; none of the CPU's
  bool cpu = false;
};

struct LeaseRun {
  weir_lease handle = nullptr;
  uint64_t begin_ns = 0;  ///< written and read by jobs of its stream
};

class Run {
 public:
  Run(const Program &program, const ReplayOptions &options,
      const std::function<void(uint64_t)> &progress)
      : program_(program),
        options_(options),
        progress_(progress),
        pace_(options.recorded_pace ? options.recorded_slow : 0),
        random_words_(options.data_given ? std::nullopt : random_words_of(program)),
        pattern_(random_words_ ? DataMode::mixed : options.data, options.seed,
                 random_words_.value_or(0), options.check_one_in),
        contents_(program, options.verify),
        world_(program, options),
        pools_(program.pools.size()),
        operation_ids_(program.pools.size()),
        held_(program.pools.size()),
        clients_(program.clients.size()),
        streams_(program.streams.size()),
        buffers_(program.buffers.size()),
        allocations_(program.allocations.size()),
        leases_(program.leases.size()) {
    outcome_.pools.resize(program.pools.size());
  }
  ~Run() { abandon(); }
  Run(const Run &) = delete;
  Run &operator=(const Run &) = delete;

  RunOutcome run() {
    start_ = now_ns();
    pace_.begin();
    for (const ProgramCall &call : program_.calls) {
      try {
        take(call);
      } catch (const ToolError &error) {
        throw ToolError("line " + std::to_string(call.line) + " of the trace: " + error.what());
      }
    }
    for (StreamRun &stream : streams_)
      if (stream.handle) weir_stream_synchronize(stream.handle.get());
    outcome_.seconds = static_cast<double>(now_ns() - start_) * 1e-9;
    for (uint32_t i = 0; i < pools_.size(); ++i)
      if (pools_[i] && !outcome_.pools[i].known) take_stats(i);
    abandon();
    outcome_.verify_errors = log_.words();
    outcome_.first_errors = log_.first();
    notes();
    return std::move(outcome_);
  }

 private:
  void take(const ProgramCall &call) {
    if (call.kind != CallKind::time) pace_.wait_for(call);
    switch (call.kind) {
      case CallKind::pool:
        pools_[call.thing] = world_.make_pool(call.thing);
        return;
      case CallKind::client:
        return client(call.thing);
      case CallKind::stream:
        return stream(call.thing);
      case CallKind::buffer:
        buffers_[call.thing] = world_.make_buffer(pool(call), call.thing, client_of(call.thing));
        return;
      case CallKind::acquire:
        return acquire(call);
      case CallKind::release:
        return release(call);
      case CallKind::allocate:
      case CallKind::free:
        return allocation(call);
      case CallKind::prefetch:
        return prefetch(call);
      case CallKind::announce:
        return announce(call);
      case CallKind::end_client:
        require(weir_client_destroy(std::exchange(clients_[call.thing], nullptr)),
                "cannot end a client");
        return;
      case CallKind::end_stream:
        return end_stream(call.thing);
      case CallKind::end_pool:
        return end_pool(call.pool);
      case CallKind::synchronize:
        require(weir_stream_synchronize(streams_[call.thing].handle.get()),
                "cannot wait for a stream");
        return;
      case CallKind::time:
        return pace_.at(call.length);
      case CallKind::phase:
        return;
      case CallKind::pool_device:
      case CallKind::remove_device:
      case CallKind::stats:
      case CallKind::trim:
      case CallKind::rebalance:
      case CallKind::defragment:
      case CallKind::defragmentation:
      case CallKind::policy_load:
        return of_pool(call);
      default:
        return of_buffer(call);
    }
  }

  weir_pool pool(const ProgramCall &call) const { return pools_[call.pool].get(); }
  weir_device device(uint32_t pool, uint64_t device) const {
    return world_.device(program_.pools[pool].context, device);
  }

  // ---- what there is ----

  void client(uint32_t index) {
    const ProgramClient &recorded = program_.clients[index];
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    desc.priority = recorded.priority;
    desc.device_quota = recorded.device_quota;
    desc.host_quota = recorded.host_quota;
    desc.compressed_quota = recorded.compressed_quota;
    desc.storage_quota = recorded.storage_quota;
    desc.name = recorded.name.c_str();
    require(weir_client_create(pools_[recorded.pool].get(), &desc, &clients_[index]),
            "cannot make a client");
  }

  weir_client client_of(uint32_t buffer) const {
    const uint32_t client = program_.buffers[buffer].client;
    return client == no_thing ? nullptr : clients_[client];
  }

  void stream(uint32_t index) {
    const ProgramStream &recorded = program_.streams[index];
    StreamRun &stream = streams_[index];
    stream.cpu = recorded.device == WEIR_DEVICE_HOST;
    stream.handle = open_stream(world_.context(recorded.context),
                                world_.device(recorded.context, recorded.device));
  }

  /// Jobs under way are the ring's; it waits among the retired until they have run.
  void end_stream(uint32_t index) {
    StreamRun &stream = streams_[index];
    require(weir_stream_close(stream.handle.get()), "cannot close a stream");
    (void)stream.handle.release();
    if (stream.ring) retired_.push_back(std::move(stream.ring));
    while (!retired_.empty() && retired_.front()->pending() == 0) retired_.pop_front();
  }

  void end_pool(uint32_t index) {
    if (!outcome_.pools[index].known) take_stats(index);
    require(weir_pool_destroy(pools_[index].get()), "cannot end a pool");
    (void)pools_[index].release();
  }

  void take_stats(uint32_t index) {
    PoolOutcome &outcome = outcome_.pools[index];
    outcome.stats = {};
    outcome.stats.struct_size = sizeof outcome.stats;
    require(weir_pool_stats_get(pools_[index].get(), &outcome.stats),
            "cannot read the pool's counters");
    outcome.known = true;
  }

  // ---- leases, and what is told ahead ----

  uint32_t operation_id(uint32_t pool, uint32_t name) {
    if (name == 0) return 0;
    const auto [found, fresh] = operation_ids_[pool].try_emplace(name, 0);
    if (!fresh) return found->second;
    const weir_result result =
        weir_operation_id(pools_[pool].get(), program_.names[name].c_str(), &found->second);
    if (result != WEIR_ERROR_INVALID_ARGUMENT) require(result, "cannot name an operation");
    return found->second;
  }

  void gather(uint64_t first, uint64_t count) {
    uses_.clear();
    for (uint64_t i = first; i < first + count; ++i) {
      const ProgramUse &recorded = program_.uses[i];
      weir_use use = WEIR_USE(buffers_[recorded.buffer], recorded.mode);
      use.offset = recorded.offset;
      use.length = recorded.length;
      use.flags = recorded.flags;
      uses_.push_back(use);
    }
  }

  /// Every lease that this acquire waited for has been released by now, in the trace's order: so it waits without bound only where no
  /// lease is held at all, which can't be for long.
  void acquire(const ProgramCall &call) {
    StreamRun &stream = streams_[call.stream];
    gather(call.first, call.count);
    weir_acquire_options how = WEIR_ACQUIRE_OPTIONS_INIT;
    how.operation_id = operation_id(call.pool, call.name);
    if (held_[call.pool] == 0) {
      how.flags = WEIR_ACQUIRE_SOLE_HOLDER;
      how.timeout_ns = WEIR_INFINITE;
    }
    LeaseRun &lease = leases_[call.thing];
    require(weir_acquire(pool(call), stream.handle.get(), uses_.data(), uses_.size(), &how,
                         &lease.handle),
            "cannot acquire the " + std::to_string(uses_.size()) + " uses of operation '" +
                printable(program_.names[call.name]) + "'");
    ++held_[call.pool];
    if (stream.cpu) {
      cpu_job_.tasks.clear();
      cpu_job_.operation = acquired_;
      contents_.tasks(call, uses_, cpu_job_.tasks);
      run_tasks(cpu_job_, pattern_, log_);
    } else {
      enqueue(call, stream, lease);
    }
    if (++acquired_; progress_) progress_(acquired_);
  }

  void enqueue(const ProgramCall &call, StreamRun &stream, LeaseRun &lease) {
    const bool paced = options_.recorded_pace;
    if (!paced && !options_.verify) return;
    Job &job = next_job(stream);
    contents_.tasks(call, uses_, job.tasks);
    if (paced) job.begin_ns = &lease.begin_ns;
    if (job.tasks.empty() && !paced) return;
    submit(stream, job);
  }

  Job &next_job(StreamRun &stream) {
    if (!stream.ring)
      stream.ring =
          std::make_unique<JobRing>(std::max<uint64_t>(options_.ahead, 1), pattern_, log_);
    Job &job = stream.ring->next();
    job.operation = acquired_;
    return job;
  }

  void submit(StreamRun &stream, Job &job) {
    require(weir_stream_host_call(stream.handle.get(), &JobRing::run, &job),
            "cannot enqueue on the stream");
    stream.ring->submitted();
  }

  void release(const ProgramCall &call) {
    const ProgramLease &recorded = program_.leases[call.thing];
    StreamRun &stream = streams_[recorded.stream];
    if (call.stream != recorded.stream) ++released_elsewhere_;
    if (options_.recorded_pace && !stream.cpu && recorded.kernel_ns != 0) {
      Job &job = next_job(stream);
      job.since_ns = &leases_[call.thing].begin_ns;
      job.duration_ns =
          static_cast<uint64_t>(static_cast<double>(recorded.kernel_ns) * options_.recorded_slow);
      submit(stream, job);
    }
    --held_[recorded.pool];
    require(weir_release(std::exchange(leases_[call.thing].handle, nullptr), stream.handle.get()),
            "a release reported");
  }

  void prefetch(const ProgramCall &call) {
    gather(call.first, call.count);
    require(
        weir_prefetch(pool(call), streams_[call.stream].handle.get(), uses_.data(), uses_.size()),
        "cannot prefetch");
  }

  void announce(const ProgramCall &call) {
    uint64_t uses = 0;
    for (uint32_t i = 0; i < call.count; ++i) uses += program_.operations[call.offset + i].uses;
    gather(call.first, uses);
    announced_.clear();
    uses = 0;
    for (uint32_t i = 0; i < call.count; ++i) {
      const ProgramOperation &recorded = program_.operations[call.offset + i];
      weir_operation operation = WEIR_OPERATION_INIT;
      operation.operation_id = operation_id(call.pool, recorded.name);
      operation.uses = uses_.data() + uses;
      operation.use_count = recorded.uses;
      uses += recorded.uses;
      announced_.push_back(operation);
    }
    require(weir_announce(pool(call), streams_[call.stream].handle.get(), announced_.data(),
                          announced_.size(), call.flags),
            "cannot announce operations");
  }

  // ---- buffers and allocations ----

  void allocation(const ProgramCall &call) {
    const ProgramAllocation &recorded = program_.allocations[call.thing];
    const weir_stream stream =
        call.stream == no_thing ? nullptr : streams_[call.stream].handle.get();
    if (call.kind == CallKind::allocate)
      require(weir_malloc(pool(call), device(call.pool, recorded.device), stream, recorded.bytes,
                          &allocations_[call.thing]),
              "cannot allocate " + std::to_string(recorded.bytes) + " bytes");
    else
      require(weir_free(pool(call), stream, std::exchange(allocations_[call.thing], 0)),
              "cannot free memory");
  }

  void of_buffer(const ProgramCall &call) {
    const weir_buffer buffer = buffers_[call.thing];
    uint64_t address = 0;
    switch (call.kind) {
      case CallKind::end_buffer:
        buffers_[call.thing] = nullptr;
        contents_.forget(call.thing);
        return require(weir_buffer_destroy(pool(call), buffer), "cannot destroy a buffer");
      case CallKind::rename:
        return require(weir_buffer_set_name(pool(call), buffer, program_.names[call.name].c_str()),
                       "cannot rename a buffer");
      case CallKind::priority:
        return require(
            weir_buffer_set_priority(pool(call), buffer,
                                     static_cast<int32_t>(static_cast<int64_t>(call.flags))),
            "cannot change a buffer's priority");
      case CallKind::read:
        return read(call, buffer);
      case CallKind::write:
        return write(call, buffer);
      case CallKind::discard:
        contents_.unknown(call.thing, call.offset, call.length);
        return require(weir_discard(pool(call), buffer, call.offset, call.length),
                       "cannot discard bytes");
      case CallKind::advise:
        return require(
            weir_advise(pool(call), buffer, call.offset, call.length,
                        static_cast<uint32_t>(std::min<uint64_t>(call.flags, UINT32_MAX))),
            "cannot advise");
      case CallKind::hold:
        return require(weir_hold_as(pool(call), buffer, device(call.pool, call.device), call.mode,
                                    call.flags, &address),
                       "cannot hold a buffer");
      case CallKind::unhold:
        return require(weir_unhold(pool(call), buffer), "cannot undo a hold");
      case CallKind::register_host: {
        std::byte *memory = contents_.memory_for(call.thing);
        if ((call.flags & WEIR_HOST_LOAD) != 0)
          fill(call.thing, 0, program_.buffers[call.thing].size, memory);
        return require(weir_host_register(pool(call), buffer, memory, call.flags),
                       "cannot register host memory");
      }
      case CallKind::unregister_host:
        require(weir_host_unregister(pool(call), buffer), "cannot unregister host memory");
        return contents_.free_memory(call.thing);
      default:
        return;
    }
  }

  void fill(uint32_t buffer, uint64_t offset, uint64_t length, std::byte *to) {
    cpu_job_.tasks.clear();
    contents_.fill(buffer, offset, length, to, cpu_job_.tasks);
    run_tasks(cpu_job_, pattern_, log_);
  }

  void read(const ProgramCall &call, weir_buffer buffer) {
    std::byte *to = contents_.scratch(call.length);
    require(weir_buffer_read(pool(call), buffer, call.offset, call.length, to), "cannot read");
    cpu_job_.tasks.clear();
    cpu_job_.operation = acquired_;
    contents_.check(call.thing, call.offset, call.length, to, cpu_job_.tasks);
    run_tasks(cpu_job_, pattern_, log_);
  }

  void write(const ProgramCall &call, weir_buffer buffer) {
    std::byte *from = contents_.scratch(call.length);
    fill(call.thing, call.offset, call.length, from);
    require(weir_buffer_write(pool(call), buffer, call.offset, call.length, from), "cannot write");
  }

  // ---- the rest ----

  void of_pool(const ProgramCall &call) {
    if (call.kind == CallKind::policy_load) {
      ++policies_;
    } else if (call.kind == CallKind::stats) {
      take_stats(call.pool);
      outcome_.pools[call.pool].recorded = &program_.figures[call.thing];
    } else {
      call_pool(world_, pool(call), program_.pools[call.pool].context, call);
    }
  }

  void notes() {
    if (random_words_.has_value() && options_.verify)
      outcome_.notes.push_back("the contents compress as the program's did, to 1/" +
                               format_fixed(64.0 / static_cast<double>(*random_words_), 2));
    if (released_elsewhere_ != 0)
      outcome_.notes.push_back(std::to_string(released_elsewhere_) +
                               " leases that had been released on another stream than their own "
                               "were released on their own");
    if (policies_ != 0)
      outcome_.notes.push_back(
          "what the program had loaded into a policy is not in the trace: the "
          "pool began without it");
  }

  /// Ends what is under way, throws nothing.
  void abandon() noexcept {
    for (size_t i = 0; i < leases_.size(); ++i)
      if (leases_[i].handle != nullptr)
        weir_release(std::exchange(leases_[i].handle, nullptr),
                     streams_[program_.leases[i].stream].handle.get());
    for (StreamRun &stream : streams_)
      if (stream.handle) weir_stream_synchronize(stream.handle.get());
    for (const std::unique_ptr<JobRing> &ring : retired_) ring->drain();
    for (size_t i = 0; i < allocations_.size(); ++i)
      if (allocations_[i] != 0 && pools_[program_.allocations[i].pool])
        weir_free(pools_[program_.allocations[i].pool].get(), nullptr,
                  std::exchange(allocations_[i], 0));
    // A pool waits for work in flight on its buffers; the streams must still exist then.
    for (Pool &pool : pools_) pool.reset();
    for (StreamRun &stream : streams_) stream.handle.reset();
  }

  const Program &program_;
  const ReplayOptions &options_;
  const std::function<void(uint64_t)> &progress_;
  Pace pace_;
  const std::optional<uint64_t> random_words_;
  Pattern pattern_;
  VerifyLog log_;
  Contents contents_;
  World world_;
  std::vector<Pool> pools_;
  std::vector<std::unordered_map<uint32_t, uint32_t>> operation_ids_;  ///< by pool and name
  std::vector<uint64_t> held_;                                         ///< leases, by pool
  std::vector<weir_client> clients_;
  std::vector<StreamRun> streams_;
  std::deque<std::unique_ptr<JobRing>> retired_;
  std::vector<weir_buffer> buffers_;
  std::vector<uint64_t> allocations_;
  std::vector<LeaseRun> leases_;
  std::vector<weir_use> uses_;
  std::vector<weir_operation> announced_;
  Job cpu_job_;
  RunOutcome outcome_;
  uint64_t start_ = 0;  ///< of the run
  uint64_t acquired_ = 0;
  uint64_t released_elsewhere_ = 0;
  uint64_t policies_ = 0;
};

}  // namespace

RunOutcome run_recorded(const Program &program, const ReplayOptions &options,
                        const std::function<void(uint64_t acquires)> &progress) {
  return Run(program, options, progress).run();
}

}  // namespace weir::tool::recorded
