// SPDX-License-Identifier: Apache-2.0
//
// Bytes between a device and the caller's memory, through staging, which holds one piece at a time.

#include "core/transfer/relay.hpp"

#include "core/base/poison.hpp"

#include <algorithm>
#include <cstring>

namespace weir::transfer {

Relay::~Relay() {
  const Guard hold(mutex_);
  if (staging_ != nullptr)
    (void)runtime_->table().host_free(runtime_->state(), staging_, staging_bytes);
}

Status Relay::take_staging(const backend::Device &device) {
  if (staging_ != nullptr) return {};
  const numa::PreferNode prefer(*nodes_, node_);
  WEIR_TRY(device.check(device.table().host_allocate(device.state(), staging_bytes, &staging_),
                        "host_allocate"));
  runtime_ = device.runtime;
  return {};
}

/// One copy on a transfer stream, and its end.
Status Relay::copy_through(backend::Stream &stream, uint64_t to, uint64_t from, uint64_t bytes) {
  WEIR_TRY(stream.copy({to, from, bytes}));
  uint64_t point = 0;
  Status status = stream.timeline.record(&point);
  if (status) status = stream.timeline.finish(point);
  // The staging memory is about to be another copy's.
  if (!status) stream.synchronize();
  return status;
}

Status Relay::copy(backend::Stream &stream, uint64_t address, unsigned char *out,
                   const unsigned char *in, uint64_t bytes, bool secret) {
  const Guard hold(mutex_);
  WEIR_TRY(take_staging(*stream.device));
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
      WEIR_TRY(copy_through(stream, address + done, staging, step));
    } else {
      WEIR_TRY(copy_through(stream, staging, address + done, step));
      std::memcpy(out + done, staging_, step);
    }
    done += step;
  }
  return {};
}

}  // namespace weir::transfer
