// SPDX-License-Identifier: Apache-2.0
//
// A device: what it is and can do, and its primary context, which is retained when something first needs it and
// released at the end. Asking what a device is makes no context: a context takes time and device memory, and a
// machine may have devices that the process never uses. How much of its memory is free only a context tells.
#pragma once

#include "backends/common/allocation_table.hpp"
#include "backends/common/mapping_table.hpp"
#include "backends/cuda/api.hpp"
#include "backends/cuda/options.hpp"
#include "backends/cuda/spans.hpp"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace weir::cuda {

class Device {
 public:
  Device(const Api &api, const Options &options, common::RangeTable &ranges,
         uint32_t index) noexcept
      : api_(api), options_(options), index_(index), mappings_(ranges) {}
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  /// Reads what the device is. The peers' flags come from open_peers, once all devices are open.
  weir_result open(abi::Device handle);
  weir_result open_peers(const std::vector<abi::Device> &all);

  uint32_t index() const noexcept { return index_; }
  abi::Device handle() const noexcept { return handle_; }
  const char *pci_address() const noexcept { return pci_address_; }
  bool has(uint64_t capability) const noexcept { return (capabilities_ & capability) != 0; }
  /// Whether the device can reach the memory of device `peer`, as the driver says and the options allow.
  bool reaches(uint32_t peer) const noexcept { return peer < reaches_.size() && reaches_[peer]; }
  uint64_t granule() const noexcept { return granule_; }
  weir_result describe(weir_be_device *description);
  /// Lets work of this device reach the plain memory of `peer`. Memory that is mapped names its peers itself.
  weir_result enable_peer(Device &peer);
  weir_result memory(uint64_t *free_bytes, uint64_t *total_bytes);
  int attribute_or(int attribute, int fallback) const noexcept;

  /// The primary context, retained.
  weir_result context(abi::Context *context);
  /// The same if something has needed it before, else NULL.
  abi::Context known_context() const noexcept { return context_.load(std::memory_order_acquire); }
  void release() noexcept;

  /// What a program should be told of the device, once; empty if nothing.
  const std::string &remark() const noexcept { return remark_; }
  /// Of all physical memory that is made on it: pinned, and for RDMA where the device has that.
  abi::AllocationProperties memory_properties(int handle_types) const noexcept;

  /// Where the driver's reservations begin whose aligned part is a range.
  Spans &spans() noexcept { return spans_; }
  common::MappingTable &mappings() noexcept { return mappings_; }
  common::AllocationTable &plain() noexcept { return plain_; }

 private:
  weir_result no_context(abi::Result result) const noexcept;
  bool batches() const noexcept;
  weir_result open_vmm();
  template <class Call>
  abi::Result at_start(Call call) noexcept;
  abi::Result granularity(int handle_types, uint64_t *bytes) noexcept;
  bool comes_in_granules(int handle_type) noexcept;
  bool probe_fabric() noexcept;

  const Api &api_;
  const Options &options_;
  const uint32_t index_;
  abi::Device handle_ = 0;
  uint64_t capabilities_ = 0;
  uint64_t granule_ = 0, granule_large_ = 0;
  size_t memory_total_ = 0;
  char name_[64] = "";
  char pci_address_[32] = "";
  abi::Uuid uuid_{};
  std::vector<bool> reaches_;
  bool rdma_ = false;
  std::string remark_;

  std::mutex retaining_;
  std::atomic<abi::Context> context_{nullptr};

  Spans spans_;
  common::MappingTable mappings_;
  common::AllocationTable plain_;
};

}  // namespace weir::cuda
