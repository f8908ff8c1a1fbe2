// SPDX-License-Identifier: Apache-2.0
//
// Backends with one planted fault each, to prove that the conformance suite can fail. Each is the host
// backend with one or a few entries of its table replaced; everything else is right, so what the suite says
// is about the fault. The environment variable WEIR_MUTANT names the fault when the table is asked for;
// without it the table is the host backend's own, through the same library.
//
// A faulty entry never hangs for ever and touches no memory that is not its own: the verdict should be a
// failed requirement, not a crash by luck (but for faults_gross.cpp, which crashes and hangs for certain). One process has one fault, so what a fault must remember lies in
// globals.
#pragma once

#include <weir/backend.h>

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

namespace weir::mutants {

struct Fault {
  const char *name;
  const char *wrong;  ///< what the backend does wrong, as a sentence
  const char *
      caught_by;  ///< patterns of requirements, joined by ',': at least one must fail; NONE: it gets through
  void (*plant)(weir_backend_table &table);
  /// "key=value;key=value" of the host backend, in place of scripts/check-mutants' own values of these keys, where the fault
  /// only shows on such devices.
  const char *options = "";
};

/// The conforming table that every fault is planted into.
const weir_backend_table &real();
/// What the entry point answers; a fault may set another answer.
extern const weir_backend_table *(*answer)(const weir_backend_table *table, uint32_t abi_major);

// The registrations, a file each.
std::span<const Fault> table_faults();
std::span<const Fault> device_faults();
std::span<const Fault> state_faults();
std::span<const Fault> granule_faults();
std::span<const Fault> map_faults();
std::span<const Fault> shared_faults();
std::span<const Fault> run_faults();
std::span<const Fault> export_faults();
std::span<const Fault> memory_faults();
std::span<const Fault> stream_faults();
std::span<const Fault> fence_faults();
std::span<const Fault> copy_faults();
std::span<const Fault> thread_faults();
std::span<const Fault> subtle_state_faults();
std::span<const Fault> subtle_device_faults();
std::span<const Fault> subtle_granule_faults();
std::span<const Fault> subtle_memory_faults();
std::span<const Fault> subtle_map_faults();
std::span<const Fault> subtle_shared_faults();
std::span<const Fault> subtle_run_faults();
std::span<const Fault> subtle_export_faults();
std::span<const Fault> subtle_fabric_faults();
std::span<const Fault> subtle_wrap_faults();
std::span<const Fault> subtle_stream_faults();
std::span<const Fault> subtle_queue_faults();
std::span<const Fault> subtle_fence_faults();
std::span<const Fault> subtle_timeout_faults();
std::span<const Fault> subtle_copy_faults();
std::span<const Fault> subtle_batch_faults();
std::span<const Fault> subtle_thread_faults();
std::span<const Fault> gross_faults();

/// Calls visit(fault) for all of them.
template <class Visit>
void each_fault(Visit visit) {
  for (const auto faults : {table_faults(),
                            device_faults(),
                            state_faults(),
                            granule_faults(),
                            map_faults(),
                            shared_faults(),
                            run_faults(),
                            export_faults(),
                            memory_faults(),
                            stream_faults(),
                            fence_faults(),
                            copy_faults(),
                            thread_faults(),
                            subtle_state_faults(),
                            subtle_device_faults(),
                            subtle_granule_faults(),
                            subtle_memory_faults(),
                            subtle_map_faults(),
                            subtle_shared_faults(),
                            subtle_run_faults(),
                            subtle_export_faults(),
                            subtle_fabric_faults(),
                            subtle_wrap_faults(),
                            subtle_stream_faults(),
                            subtle_queue_faults(),
                            subtle_fence_faults(),
                            subtle_timeout_faults(),
                            subtle_copy_faults(),
                            subtle_batch_faults(),
                            subtle_thread_faults(),
                            gross_faults()}) {
    for (const Fault &fault : faults) visit(fault);
  }
}

/// Stays until another thread is in the window too, so that the meeting of two threads is certain to do harm, however late the
/// second is on a busy machine. Who stays alone waits for a while, and all who do for no more than a bound.
void window();

/// What a faulty backend remembers about the objects it gave out. Thread-safe.
template <class Key, class Value>
class Book {
 public:
  void put(const Key &key, const Value &value) {
    const std::lock_guard lock(mutex_);
    entries_.insert_or_assign(key, value);
  }
  std::optional<Value> find(const Key &key) const {
    const std::lock_guard lock(mutex_);
    const auto at = entries_.find(key);
    return at != entries_.end() ? std::optional(at->second) : std::nullopt;
  }
  /// Finds and forgets.
  std::optional<Value> take(const Key &key) {
    const std::lock_guard lock(mutex_);
    const auto node = entries_.extract(key);
    return node.empty() ? std::nullopt : std::optional(node.mapped());
  }
  /// The entry with the greatest key that is not greater than `key`.
  std::optional<std::pair<Key, Value>> below(const Key &key) const {
    const std::lock_guard lock(mutex_);
    auto at = entries_.upper_bound(key);
    if (at == entries_.begin()) return std::nullopt;
    --at;
    return std::pair<Key, Value>(at->first, at->second);
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Value> entries_;
};

/// Memory of the CPU behind an address; the host backend's device memory is such.
inline unsigned char *bytes_at(uint64_t address) {
  return reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(address));
}

}  // namespace weir::mutants
