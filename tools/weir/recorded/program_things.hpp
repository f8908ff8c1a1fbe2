// SPDX-License-Identifier: Apache-2.0
//
// ProgramThings: what there is while a trace of version 2 is read: contexts, devices, pools, clients, streams and names, each by the
// number that it has now. Used by program.cpp, which has the calls; refusals name the line of the last call.
#pragma once

#include "tools/weir/recorded/call_reader.hpp"
#include "tools/weir/recorded/program.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace weir::tool::recorded {

/// The things of one kind that are there, by their numbers.
class Directory {
 public:
  bool has(uint64_t number) const { return index_.contains(number); }
  /// no_thing if it is not there.
  uint32_t find(uint64_t number) const {
    const auto found = index_.find(number);
    return found == index_.end() ? no_thing : found->second;
  }
  void set(uint64_t number, uint32_t index) { index_[number] = index; }
  void remove(uint64_t number) { index_.erase(number); }

 private:
  std::unordered_map<uint64_t, uint32_t> index_;
};

/// What a pool of the trace has now.
struct PoolState {
  bool ended = false;
  bool made = false;    ///< a line after its devices' has come
  uint64_t leases = 0;  ///< held
  uint64_t blocks = 0;  ///< allocations that are out
  uint64_t live_bytes = 0;
  std::map<uint64_t, uint32_t> operations;  ///< names by number
};

class ProgramThings {
 public:
  /// All outlive it; `call` is the last that was read.
  ProgramThings(const CallReader &reader, const Call &call, Program &program);

  [[noreturn]] void refuse(const std::string &reason) const { reader_.refuse(reason); }
  /// A call of the kind and line of the last.
  ProgramCall &add();
  uint32_t intern(const std::string &text);
  int32_t priority(int64_t number) const;

  // What the last call is of: it is there, or the trace is refused.
  uint32_t context(uint64_t number);
  uint32_t pool_of(uint64_t number);
  uint32_t client_of(uint64_t number) const;
  uint32_t stream_of(uint64_t number) const;
  /// Of a buffer or an allocation; its line may come later.
  uint32_t stack_of(uint64_t number);

  // What the last call makes.
  void device();
  void link();
  void pool();
  void pool_device();
  void client();
  void stream();
  void code_file();
  void stack();

  // ... and ends.
  void end_client(uint64_t number) { clients_.remove(number); }
  void end_stream(uint64_t number, uint32_t stream);

  PoolState &state(uint32_t pool) { return pools_[pool]; }
  const PoolState &state(uint32_t pool) const { return pools_[pool]; }
  /// Leases that are held, of the stream.
  uint64_t &leases_of(uint32_t stream) { return leases_of_[stream]; }

 private:
  const CallReader &reader_;
  const Call &call_;
  Program &program_;
  std::unordered_map<std::string, uint32_t> name_index_;
  std::map<uint64_t, uint32_t> contexts_;
  Directory pool_index_, clients_, streams_, stacks_;
  std::vector<PoolState> pools_;
  std::vector<uint64_t> leases_of_;
};

}  // namespace weir::tool::recorded
