// SPDX-License-Identifier: Apache-2.0
//
// Relay: between a device and the caller's memory bytes pass a megabyte of pinned staging, piece by piece. What is in staging
// is nobody's copy: HOST need not have room for it. All without the pool's lock; each copy is waited for, because the
// staging is the next one's. Nothing stays there of a buffer that is to be scrubbed.

#include "core/base/poison.hpp"
#include "core/residency/plan.hpp"

#include <algorithm>
#include <cstring>

namespace weir::residency {

/// The caller holds staging_mutex_.
Status Engine::take_staging(const backend::Device &device) {
  if (staging_ != nullptr) return {};
  const numa::PreferNode prefer(config_.nodes, node_);
  WEIR_TRY(device.check(device.table().host_allocate(device.state(), staging_bytes, &staging_),
                        "host_allocate"));
  staging_runtime_ = device.runtime;
  return {};
}

/// One copy on a transfer stream, and its end. The caller holds staging_mutex_.
Status Engine::copy_through(Stream &stream, uint64_t destination, uint64_t source, uint64_t bytes) {
  const backend::Device &device = *stream.device;
  const weir_be_copy copy{destination, source, bytes};
  WEIR_TRY(
      device.check(device.table().copy_async(device.state(), stream.native, &copy), "copy_async"));
  uint64_t point = 0;
  Status status = stream.timeline.record(&point);
  if (status) status = stream.timeline.finish(point);
  // The staging memory is about to be another copy's.
  if (!status) (void)device.table().stream_synchronize(device.state(), stream.native);
  return status;
}

/// Between an address of the device and the caller's memory.
Status Engine::copy_device(PoolDevice &device, uint64_t address, unsigned char *out,
                           const unsigned char *in, uint64_t bytes, bool secret) {
  points.at("copy");
  const Guard hold(staging_mutex_);
  WEIR_TRY(take_staging(device.device));
  struct Left {  // nothing of it stays there, whatever fails
    void *staging;
    uint64_t bytes;
    ~Left() {
      std::memset(staging, 0, bytes);
      if (poison::on()) poison::fill(staging, staging_bytes, poison::nobody);
    }
  } const left{staging_, secret ? std::min(bytes, staging_bytes) : 0};
  const auto staging = reinterpret_cast<uint64_t>(staging_);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t step = std::min(bytes - done, staging_bytes);
    if (in != nullptr) {
      std::memcpy(staging_, in + done, step);
      WEIR_TRY(copy_through(*device.streams.up(), address + done, staging, step));
    } else {
      WEIR_TRY(copy_through(*device.streams.down(), staging, address + done, step));
      std::memcpy(out + done, staging_, step);
    }
    done += step;
  }
  return {};
}

}  // namespace weir::residency
