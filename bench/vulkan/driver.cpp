// SPDX-License-Identifier: Apache-2.0
//
// Recording the yardsticks once, and running them. All memory is touched before the first is timed.

#include "bench/vulkan/driver.hpp"

namespace weir::bench {

DriverCopies::DriverCopies(const Settings &settings, const Backend &backend)
    : bytes_(settings.bytes),
      page_(settings.page),
      piece_(settings.page * settings.run),
      engine_(backend, Engine::For::copies),
      mapped_(backend.has(WEIR_CAP_VMM) && engine_.binds()),
      host_(engine_.make_buffer(bytes_, true)),
      device_(engine_.make_buffer(bytes_, false)),
      down_(record(device_, host_)),
      up_(record(host_, device_)),
      least_down_(down_),
      least_up_(up_) {
  work(up_);
  work(down_);
  if (mapped_) {
    sparse_ = engine_.make_sparse(bytes_);
    bind(true);
    least_down_ = record(sparse_, host_);
    least_up_ = record(host_, sparse_);
  }
}

DriverCopies::~DriverCopies() {
  engine_.end(host_);
  engine_.end(device_);
  engine_.end(sparse_);
}

VkCommandBuffer DriverCopies::record(const OwnBuffer &from, const OwnBuffer &to) {
  return engine_.record([&](const Engine::Api &api, VkCommandBuffer commands) {
    for (uint64_t at = 0; at < bytes_; at += page_) {
      const VkBufferCopy region = {at, at, page_};
      api.CmdCopyBuffer(commands, from.buffer, to.buffer, 1, &region);
    }
  });
}

void DriverCopies::work(VkCommandBuffer commands) {
  engine_.submit(commands);
  engine_.wait();
}

void DriverCopies::bind(bool there) {
  for (uint64_t at = 0; at < bytes_; at += piece_) engine_.bind(sparse_, at, piece_, there);
}

Speed DriverCopies::least_down() {
  if (!mapped_) return run(down_);
  work(least_up_);  // what is copied down was there
  return timed([&] {
    work(least_down_);
    bind(false);
    bind(true);
    engine_.wait();
  });
}

Speed DriverCopies::least_up() {
  if (!mapped_) return run(up_);
  return timed([&] {
    bind(false);
    bind(true);
    work(least_up_);
  });
}

}  // namespace weir::bench
