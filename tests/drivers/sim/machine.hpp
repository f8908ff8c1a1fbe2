// SPDX-License-Identifier: Apache-2.0
//
// The simulated machine: devices with memory, one address space, host memory, streams. Drivers give it their vendor's
// calls and codes; it knows neither. There is one per process, made at the first current() and again by
// weir_sim_configure. A child made by fork() has none that works (forked() says so), as with vendors' drivers.
//
// What every function of a driver does, in this order, because a new machine starts the counts of calls anew:
//   static sim::Call &me = sim::call("zeInit");
//   sim::Machine *machine = sim::Machine::current();                                  // NULL: the process is ending
//   if (const int64_t code = sim::enter(me)) return static_cast<ze_result_t>(code);   // an injected failure
#pragma once

#include "backends/host/link.hpp"
#include "backends/host/memory.hpp"
#include "backends/host/stream.hpp"
#include "tests/drivers/sim/address_space.hpp"
#include "tests/drivers/sim/answer.hpp"
#include "tests/drivers/sim/calls.hpp"
#include "tests/drivers/sim/census.hpp"
#include "tests/drivers/sim/handles.hpp"
#include "tests/drivers/sim/host_memory.hpp"
#include "tests/drivers/sim/memory.hpp"
#include "tests/drivers/sim/options.hpp"
#include "tests/drivers/sim/stream.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weir::sim {

/// 64 bytes that name physical memory to other processes.
struct FabricName {
  unsigned char bytes[64];
};

class Machine;

/// What a driver keeps beside the machine: its handles and contexts. Ends before the machine and after its streams' work.
class Attachment {
 public:
  virtual ~Attachment() = default;
};
/// Defined by each driver; called when a machine has been made, which is not current() yet.
std::unique_ptr<Attachment> make_attachment(Machine &machine);

class Machine {
 public:
  /// NULL once the process is ending. A bad WEIR_SIM ends the process with a sentence: no test may run on a
  /// machine it did not ask for.
  static Machine *current();
  /// Whether this process is the child of the one that made the machine.
  static bool forked() noexcept;

  explicit Machine(const Options &options);
  ~Machine();
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;
  /// Gives the devices their memory and the driver its attachment. "" or what the system refused.
  std::string open();

  const Options &options() const noexcept { return options_; }
  uint32_t devices() const noexcept { return options_.devices; }
  Census &census() noexcept { return census_; }
  AddressSpace &addresses() noexcept { return addresses_; }
  HostMemory &host() noexcept { return host_; }
  host::Links &links() noexcept { return links_; }
  Attachment &attachment() noexcept { return *attachment_; }
  /// Increases with every machine of the process: tells what threads remember that it is of an older one.
  uint64_t generation() const noexcept { return generation_; }

  // ---- physical and plain memory ----
  uint64_t memory_total(uint32_t device) const noexcept;
  uint64_t memory_free(uint32_t device) const;
  /// `bytes` must be a multiple of the granule.
  Answer make_physical(uint32_t device, uint64_t bytes, Sharing sharing,
                       std::shared_ptr<Physical> *physical);
  /// A new descriptor, for memory made with share_fd; it keeps the memory.
  Answer export_fd(const Physical &physical, int *fd);
  Answer import_fd(int fd, std::shared_ptr<Physical> *physical);
  Answer export_fabric(const Physical &physical, FabricName *name);
  Answer import_fabric(const FabricName &name, std::shared_ptr<Physical> *physical);
  Answer plain_allocate(uint32_t device, uint64_t bytes, uint64_t alignment, uint64_t *address);
  Answer plain_free(uint64_t address);

  // ---- peers: what the device reaches of others' plain memory ----
  void enable_peer(uint32_t device, uint32_t peer) noexcept;
  void disable_peer(uint32_t device, uint32_t peer) noexcept;
  bool peer_enabled(uint32_t device, uint32_t peer) const noexcept;
  /// The devices whose plain memory `device` reaches, itself too.
  DeviceSet reach(uint32_t device) const noexcept;

  // ---- streams and points ----
  /// nullptr when there are too many. Its end is the end of the last shared_ptr. The stream counts as alive only if the driver gives it a Token.
  std::shared_ptr<Stream> make_stream(uint32_t device);
  bool passed(Point point) const noexcept;
  /// ok, timeout, or the trouble of the point's device (see trouble()), which ends the waiting.
  Answer wait(Point point, uint64_t timeout_ns);
  /// Until everything enqueued so far on the device's streams has ended, or its trouble.
  Answer drain(uint32_t device);

  // ---- what went wrong with a device ----
  /// ok, illegal_address (until heal()), lost (for ever).
  Answer trouble(uint32_t device) const noexcept;
  /// Work that ran touched what it may not: a misuse too. The first sentence is kept. Returns illegal_address.
  Answer break_device(uint32_t device, const std::string &why) noexcept;
  /// A new context of the device starts afresh.
  void heal(uint32_t device) noexcept;
  void lose(uint32_t device) noexcept;
  /// The next failure that a driver was told of breaks all devices with its code: stuck() is called with it by the driver.
  void stick() noexcept { sticks_ = true; }
  void stuck(int64_t code);
  /// The vendor's code that a broken device answers with; 0: that of an illegal address.
  int64_t broken_with(uint32_t device) const noexcept;
  /// Why the device is broken; "" if it is not.
  std::string why_broken(uint32_t device) const;

 private:
  friend class Stream;
  void close(host::Stream *queue) noexcept;
  std::vector<std::shared_ptr<Stream>> living_streams();
  struct Device {
    host::DeviceMemory memory;
    std::atomic<bool> broken{false}, lost{false};
    std::atomic<int64_t> code{0};  ///< that it is broken with
    std::atomic<DeviceSet> reach{0};
    mutable std::mutex mutex;
    std::string why;  ///< guarded by mutex
  };

  const Options options_;
  const uint64_t generation_;
  std::atomic<bool> sticks_{false};
  Census census_;
  std::unique_ptr<Device[]> devices_;  ///< before all that may hold their memory
  AddressSpace addresses_;
  HostMemory host_;
  host::Links links_;
  mutable std::mutex streams_mutex_;
  std::vector<std::weak_ptr<Stream>> streams_;  ///< guarded by streams_mutex_
  bool ending_ = false;  ///< guarded by streams_mutex_; streams no longer close their queues
  std::unique_ptr<Attachment> attachment_;
  host::StreamTable table_;  ///< last: its workers use all of the above
};

}  // namespace weir::sim
