// SPDX-License-Identifier: Apache-2.0
//
// From numbers of a trace to indices, and what its lines mean together. Each kind of thing has a directory of those that are there;
// what a pool has goes with it.
#include "tools/weir/recorded/program.hpp"

#include "tools/weir/recorded/call_reader.hpp"
#include "tools/weir/recorded/program_things.hpp"
#include "tools/weir/trace_reader.hpp"

#include <weir/weir.h>

#include <algorithm>
#include <map>
#include <set>

namespace weir::tool::recorded {
namespace {

constexpr size_t most_blocks = size_t{1} << 29;
constexpr size_t most_lease_uses = 65535;  // weir/lease.h
class ProgramBuilder {
 public:
  ProgramBuilder(TraceFile &file, const ProgramOptions &options)
      : file_(file), reader_(file), options_(options), things_(reader_, call_, program_) {}

  Program build() {
    while (reader_.next(call_)) {
      if (call_.kind == CallKind::acquire && program_.leases.size() == options_.limit) {
        limited_ = true;
        break;
      }
      if (call_.kind == CallKind::lost) {
        program_.notes.push_back(std::to_string(call_.fields[0]) +
                                 " events are missing after line " +
                                 std::to_string(reader_.line_number() - 1) +
                                 ": the recorder had no room for them; what counts is up to there");
        limited_ = true;
        break;
      }
      take();
      if (options_.progress && (program_.calls.size() & 0xffff) == 0)
        options_.progress(file_.source().bytes_read(), file_.source().file_bytes());
    }
    finish();
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(const std::string &reason) const { reader_.refuse(reason); }

  void take() {
    switch (call_.kind) {
      case CallKind::context:
        (void)things_.context(call_.fields[0]);
        return;
      case CallKind::device:
        return things_.device();
      case CallKind::link:
        return things_.link();
      case CallKind::pool:
        return things_.pool();
      case CallKind::pool_device:
      case CallKind::remove_device:
        return things_.pool_device();
      case CallKind::client:
        return things_.client();
      case CallKind::stream:
        return things_.stream();
      case CallKind::buffer:
        return buffer();
      case CallKind::allocate:
        return allocate();
      case CallKind::acquire:
        return acquire();
      case CallKind::release:
      case CallKind::kernel:
        return lease();
      case CallKind::prefetch:
      case CallKind::announce:
        return ahead();
      case CallKind::code_file:
        return things_.code_file();
      case CallKind::stack:
        return things_.stack();
      case CallKind::refused:
        ++refused_[weir_result_string(static_cast<weir_result>(call_.number))];
        return;
      case CallKind::operation_name:
        things_.state(things_.pool_of(call_.fields[0])).operations[call_.fields[1]] =
            things_.intern(call_.text);
        return;
      case CallKind::thread:
        threads_.insert(call_.fields[0]);
        return;
      case CallKind::time:
        return time();
      case CallKind::phase:
        things_.add().name = things_.intern(call_.text);
        return;
      case CallKind::end_pool:
      case CallKind::stats:
      case CallKind::trim:
      case CallKind::rebalance:
      case CallKind::defragment:
      case CallKind::defragmentation:
      case CallKind::policy_load:
        return of_pool();
      case CallKind::end:
        return;
      case CallKind::end_client:
      case CallKind::end_stream:
      case CallKind::synchronize:
      case CallKind::free:
        return of_thing();
      default:
        return of_buffer();
    }
  }

  void time() {
    if (call_.fields[0] < last_time_) refuse("the clock goes backwards");
    last_time_ = call_.fields[0];
    things_.add().length = last_time_;
  }

  void of_pool() {
    const uint32_t index = things_.pool_of(call_.fields[0]);
    PoolState &state = things_.state(index);
    ProgramCall call;
    call.pool = call.thing = index;
    switch (call_.kind) {
      case CallKind::end_pool:
        if (state.leases != 0) refuse("the pool has leases that are held");
        if (state.blocks != 0) refuse("the pool has allocations that are out");
        state.ended = true;
        state.operations.clear();
        bytes_.remove(state.live_bytes);
        break;
      case CallKind::stats: {
        Figures figures;
        for (const CallKey &key : call_.keys)
          figures.emplace_back(key.name, reader_.number(call_, key.name));
        call.thing = static_cast<uint32_t>(program_.figures.size());
        program_.figures.push_back(std::move(figures));
        break;
      }
      case CallKind::trim:
        call.device = call_.fields[1];
        call.flags = call_.fields[2];
        call.length = call_.fields[3];
        break;
      case CallKind::defragment:
        call.device = call_.fields[1];
        call.flags = reader_.number(call_, "flags");
        call.length = reader_.number(call_, "max_bytes");
        call.offset = reader_.number(call_, "max_moves");
        call.first = reader_.number(call_, "max_ns");
        call.count = static_cast<uint32_t>(
            std::min<uint64_t>(reader_.number(call_, "max_cost_permille"), UINT32_MAX));
        break;
      case CallKind::defragmentation:
        call.thing = static_cast<uint32_t>(std::min<uint64_t>(call_.fields[1], UINT32_MAX));
        call.flags = reader_.number(call_, "flags");
        call.length = reader_.number(call_, "bytes_per_second");
        call.count = static_cast<uint32_t>(
            std::min<uint64_t>(reader_.number(call_, "max_cost_permille"), UINT32_MAX));
        break;
      default:
        call.length = call_.fields[1];
        break;
    }
    call.kind = call_.kind;
    call.line = reader_.line_number();
    program_.calls.push_back(call);
  }

  void of_thing() {
    const uint64_t number = call_.fields[0];
    ProgramCall call;
    switch (call_.kind) {
      case CallKind::end_client:
        call.thing = things_.client_of(number);
        things_.end_client(number);
        break;
      case CallKind::end_stream:
        call.thing = things_.stream_of(number);
        things_.end_stream(number, call.thing);
        break;
      case CallKind::synchronize:
        call.thing = things_.stream_of(number);
        break;
      default:
        call.thing = allocation_of(number);
        call.pool = program_.allocations[call.thing].pool;
        if (call_.fields[1] != call_none) call.stream = things_.stream_of(call_.fields[1]);
        allocations_.remove(number);
        --things_.state(call.pool).blocks;
        forget_bytes(call.pool, program_.allocations[call.thing].bytes);
        break;
    }
    call.kind = call_.kind;
    call.line = reader_.line_number();
    program_.calls.push_back(call);
  }

  // ---- buffers and allocations ----

  uint32_t buffer_of(uint64_t number) const {
    const uint32_t index = buffers_.find(number);
    if (index == no_thing || things_.state(program_.buffers[index].pool).ended)
      refuse("there is no such buffer: " + std::to_string(number));
    return index;
  }

  uint32_t allocation_of(uint64_t number) const {
    const uint32_t index = allocations_.find(number);
    if (index == no_thing) refuse("there is no such allocation");
    return index;
  }

  void count_bytes(uint32_t pool, uint64_t bytes) {
    if (const char *reason = bytes_.add(bytes)) refuse(reason);
    if (program_.buffers.size() + program_.allocations.size() >= most_blocks)
      refuse("more buffers and allocations than this program can hold (2^29)");
    things_.state(pool).live_bytes += bytes;
  }

  void forget_bytes(uint32_t pool, uint64_t bytes) {
    things_.state(pool).live_bytes -= bytes;
    bytes_.remove(bytes);
  }

  void buffer() {
    ProgramBuffer buffer;
    buffer.pool = things_.pool_of(call_.fields[1]);
    const uint32_t found = buffers_.find(call_.fields[0]);
    if (found != no_thing && !things_.state(program_.buffers[found].pool).ended)
      refuse("this buffer is there already");
    buffer.size = call_.fields[2];
    count_bytes(buffer.pool, buffer.size);
    buffer.home = reader_.device(call_, "home", WEIR_DEVICE_DEFAULT);
    if (!call_.keys.empty()) {
      const uint64_t client = reader_.number(call_, "client", call_none);
      if (client != call_none) buffer.client = things_.client_of(client);
      if (buffer.client != no_thing && program_.clients[buffer.client].pool != buffer.pool)
        refuse("the client is of another pool");
      buffer.flags = reader_.number(call_, "flags");
      buffer.alignment = reader_.number(call_, "alignment");
      buffer.tag = reader_.number(call_, "tag");
      buffer.element =
          static_cast<uint32_t>(std::min<uint64_t>(reader_.number(call_, "element"), UINT32_MAX));
      buffer.priority = things_.priority(reader_.signed_number(call_, "priority"));
      buffer.name = things_.intern(reader_.text(call_, "name"));
      buffer.stack = things_.stack_of(reader_.number(call_, "stack"));
      buffer.layout = layout();
    }
    things_.add().thing = static_cast<uint32_t>(program_.buffers.size());
    program_.calls.back().pool = buffer.pool;
    buffers_.set(call_.fields[0], static_cast<uint32_t>(program_.buffers.size()));
    program_.buffers.push_back(buffer);
  }

  uint32_t layout() {
    ProgramLayout layout;
    layout.users = reader_.devices(call_, "users");
    layout.shard_devices = reader_.devices(call_, "shard_devices");
    layout.shard_weights = reader_.numbers(call_, "shard_weights");
    layout.shard_policy = reader_.number(call_, "shard_policy");
    layout.stripe = reader_.number(call_, "stripe");
    if (layout.users.empty() && layout.shard_policy == 0) return no_thing;
    if (!layout.shard_weights.empty() && layout.shard_weights.size() != layout.shard_devices.size())
      refuse("there is not a weight for each device");
    program_.layouts.push_back(std::move(layout));
    return static_cast<uint32_t>(program_.layouts.size() - 1);
  }

  void allocate() {
    if (allocations_.has(call_.fields[0])) refuse("this allocation is there already");
    ProgramAllocation allocation;
    allocation.pool = things_.pool_of(call_.fields[1]);
    allocation.device = call_.fields[2];
    allocation.bytes = call_.fields[4];
    allocation.name = things_.intern(reader_.text(call_, "name"));
    allocation.stack = things_.stack_of(reader_.number(call_, "stack"));
    ProgramCall call;
    if (call_.fields[3] != call_none) call.stream = things_.stream_of(call_.fields[3]);
    count_bytes(allocation.pool, allocation.bytes);
    ++things_.state(allocation.pool).blocks;
    call.kind = call_.kind;
    call.line = reader_.line_number();
    call.pool = allocation.pool;
    call.thing = static_cast<uint32_t>(program_.allocations.size());
    program_.calls.push_back(call);
    allocations_.set(call_.fields[0], call.thing);
    program_.allocations.push_back(allocation);
  }

  void of_buffer() {
    ProgramCall call;
    call.kind = call_.kind;
    call.line = reader_.line_number();
    call.thing = buffer_of(call_.fields[0]);
    const ProgramBuffer &buffer = program_.buffers[call.thing];
    call.pool = buffer.pool;
    switch (call_.kind) {
      case CallKind::end_buffer:
        buffers_.remove(call_.fields[0]);
        forget_bytes(buffer.pool, buffer.size);
        break;
      case CallKind::rename:
        call.name = things_.intern(call_.text);
        break;
      case CallKind::priority:
        call.flags = static_cast<uint64_t>(static_cast<int64_t>(things_.priority(call_.number)));
        break;
      case CallKind::hold:
        call.device = call_.fields[1];
        call.mode = call_.mode == 'r' ? WEIR_READ : WEIR_READ_WRITE;
        call.flags = reader_.number(call_, "flags");
        break;
      case CallKind::register_host:
        call.flags = reader_.number(call_, "flags");
        break;
      case CallKind::read:
      case CallKind::write:
      case CallKind::discard:
      case CallKind::advise:
        call.flags = call_.fields[1];  // of an advice alone
        call.offset = call_.offset;
        call.length = checked_length(buffer, call_.offset, call_.length);
        break;
      default:
        break;
    }
    program_.calls.push_back(call);
  }

  uint64_t checked_length(const ProgramBuffer &buffer, uint64_t offset, uint64_t length) const {
    if (offset >= buffer.size || length == 0 ||
        (length != call_none && length > buffer.size - offset))
      refuse("a range outside its buffer of " + std::to_string(buffer.size) + " bytes");
    return length == call_none ? buffer.size - offset : length;
  }

  // ---- leases, and what is told ahead ----

  uint32_t name_of(uint32_t pool, uint64_t number, const std::string &name) {
    if (number == 0) return name.empty() ? 0 : things_.intern(name);
    const auto found = things_.state(pool).operations.find(number);
    if (found == things_.state(pool).operations.end()) refuse("there is no such operation");
    return found->second;
  }

  void uses(uint32_t pool) {
    if (program_.uses.size() + call_.uses.size() > TraceLimits::uses)
      refuse("more than " + std::to_string(TraceLimits::uses) + " uses");
    for (const CallUse &use : call_.uses) {
      const uint32_t index = buffer_of(use.buffer);
      const ProgramBuffer &buffer = program_.buffers[index];
      if (buffer.pool != pool) refuse("a use of a buffer of another pool");
      program_.uses.push_back({use.offset, checked_length(buffer, use.offset, use.length), index,
                               static_cast<uint8_t>(use.mode),
                               static_cast<uint8_t>(use.flags & 0xff)});
    }
  }

  /// Pool and stream of an acquire, a prefetch or an announcement.
  void place(ProgramCall *call, uint64_t pool, uint64_t stream) {
    call->kind = call_.kind;
    call->line = reader_.line_number();
    call->pool = things_.pool_of(pool);
    call->stream = things_.stream_of(stream);
    if (program_.streams[call->stream].context != program_.pools[call->pool].context)
      refuse("the stream is of another context than the pool");
    call->first = program_.uses.size();
  }

  void acquire() {
    const uint32_t found = leases_.find(call_.fields[0]);
    if (found != no_thing && held_[found]) refuse("this lease is held already");
    if (call_.uses.empty()) refuse("an acquire of nothing");
    if (call_.uses.size() > most_lease_uses) refuse("more than 65535 uses in one acquire");
    ProgramCall call;
    place(&call, call_.fields[1], call_.fields[2]);
    call.name = name_of(call.pool, call_.fields[3], call_.text);
    call.count = static_cast<uint32_t>(call_.uses.size());
    call.length = reader_.number(call_, "waited_us");
    uses(call.pool);
    call.thing = static_cast<uint32_t>(program_.leases.size());
    if (call.thing == no_thing) refuse("more leases than this program can hold (2^32)");
    leases_.set(call_.fields[0], call.thing);
    program_.leases.push_back({call.pool, call.stream, 0});
    held_.push_back(true);
    program_.acquired_uses += call.count;
    ++things_.state(call.pool).leases;
    ++things_.leases_of(call.stream);
    program_.calls.push_back(call);
  }

  void lease() {
    const uint32_t index = leases_.find(call_.fields[0]);
    if (call_.kind == CallKind::kernel) {
      if (index == no_thing) refuse("there was no such lease");
      program_.leases[index].kernel_ns = call_.fields[1];
      return;
    }
    if (index == no_thing || !held_[index]) refuse("release of a lease that is not held");
    const uint32_t stream = things_.stream_of(call_.fields[1]);
    held_[index] = false;
    --things_.state(program_.leases[index].pool).leases;
    --things_.leases_of(program_.leases[index].stream);
    ProgramCall &call = things_.add();
    call.thing = index;
    call.pool = program_.leases[index].pool;
    call.stream = stream;
  }

  void ahead() {
    ProgramCall call;
    place(&call, call_.fields[0], call_.fields[1]);
    uses(call.pool);
    call.count = static_cast<uint32_t>(call_.uses.size());
    if (call_.kind == CallKind::announce) {
      call.flags = reader_.number(call_, "flags");
      call.offset = program_.operations.size();
      call.count = static_cast<uint32_t>(call_.operations.size());
      for (const CallOperation &operation : call_.operations)
        program_.operations.push_back({name_of(call.pool, operation.number, operation.name),
                                       static_cast<uint32_t>(operation.uses)});
    }
    program_.calls.push_back(call);
  }

  void finish() {
    program_.name = file_.name();
    program_.lines = file_.line_number();
    program_.threads = threads_.size();
    program_.peak_live_bytes = bytes_.peak();
    if (!limited_)
      for (std::string &note : reader_.notes()) program_.notes.push_back(std::move(note));
    for (const auto &[why, count] : refused_)
      program_.notes.push_back(std::to_string(count) + " acquires that had been refused (" + why +
                               ") were left out");
    for (const ProgramPool &pool : program_.pools)
      if (pool.devices.empty()) refuse("a pool of the trace has no device");
  }

  TraceFile &file_;
  CallReader reader_;
  const ProgramOptions &options_;
  Program program_;
  Call call_;
  ProgramThings things_;
  Directory buffers_, allocations_, leases_;
  std::vector<bool> held_;  ///< by lease
  std::map<std::string, uint64_t> refused_;
  std::set<uint64_t> threads_;
  TraceBytes bytes_;
  uint64_t last_time_ = 0;
  bool limited_ = false;
};

}  // namespace

Program read_program(TraceFile &file, const ProgramOptions &options) {
  return ProgramBuilder(file, options).build();
}

}  // namespace weir::tool::recorded
