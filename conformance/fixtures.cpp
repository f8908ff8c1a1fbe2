// SPDX-License-Identifier: Apache-2.0
//
// Making and ending things, and gates.
#include "conformance/fixtures.hpp"

#include <chrono>
#include <utility>

namespace weir::conformance {
namespace {

const Want success = Want::exactly(WEIR_SUCCESS);

}  // namespace

// ---- memory

Outcome Granule::create(uint64_t bytes, uint64_t flags, Site site) {
  return session_.expect(site, success, "granule_create", session_.table.granule_create, device_,
                         bytes, flags, &granule_);
}

Outcome Granule::import(int32_t fd, uint64_t bytes, Site site) {
  return session_.expect(site, success, "granule_import", session_.table.granule_import, device_,
                         fd, bytes, &granule_);
}

Outcome Granule::destroy(Site site) {
  const weir_be_granule granule = std::exchange(granule_, 0);
  if (granule == 0) return {};
  return session_.expect(site, success, "granule_destroy", session_.table.granule_destroy, device_,
                         granule);
}

Outcome Range::reserve(uint64_t bytes, uint64_t alignment, Site site) {
  TRY(session_.expect(site, success, "range_reserve", session_.table.range_reserve, device_, bytes,
                      alignment, &address_));
  bytes_ = bytes;
  return {};
}

Outcome Range::free(Site site) {
  const uint64_t bytes = std::exchange(bytes_, 0);
  if (bytes == 0) return {};
  return session_.expect(site, success, "range_free", session_.table.range_free, device_, address_,
                         bytes);
}

Outcome Map::map(uint64_t address, uint64_t bytes, const Granule &granule, uint64_t offset,
                 std::span<const uint32_t> peers, Site site) {
  TRY(session_.expect(site, success, "map", session_.table.map, device_, address, bytes,
                      granule.get(), offset, peers.empty() ? nullptr : peers.data(),
                      static_cast<uint32_t>(peers.size())));
  address_ = address;
  bytes_ = bytes;
  return {};
}

Outcome Map::unmap(Site site) {
  const uint64_t bytes = std::exchange(bytes_, 0);
  if (bytes == 0) return {};
  return session_.expect(site, success, "unmap", session_.table.unmap, device_, address_, bytes);
}

Outcome Mapped::make(uint64_t bytes, uint64_t alignment, std::span<const uint32_t> peers,
                     Site site) {
  TRY(granule.create(bytes, 0, site));
  TRY(range.reserve(bytes, alignment, site));
  return mapping.map(range.address(), bytes, granule, 0, peers, site);
}

Outcome Plain::allocate(uint64_t bytes, uint64_t alignment, Site site) {
  TRY(session_.expect(site, success, "plain_allocate", session_.table.plain_allocate, device_,
                      bytes, alignment, &address_));
  bytes_ = bytes;
  return {};
}

Outcome Plain::free(Site site) {
  const uint64_t bytes = std::exchange(bytes_, 0);
  if (bytes == 0) return {};
  return session_.expect(site, success, "plain_free", session_.table.plain_free, device_, address_,
                         bytes);
}

Outcome Pinned::allocate(uint64_t bytes, Site site) {
  TRY(session_.expect(site, success, "host_allocate", session_.table.host_allocate, bytes,
                      &memory_));
  bytes_ = bytes;
  return {};
}

Outcome Pinned::free(Site site) {
  const uint64_t bytes = std::exchange(bytes_, 0);
  if (bytes == 0) return {};
  return session_.expect(site, success, "host_free", session_.table.host_free, memory_, bytes);
}

// ---- streams and fences

Outcome Stream::create(uint64_t flags, Site site) {
  return made(session_.expect(site, success, "stream_create", session_.table.stream_create, device_,
                              flags, &stream_),
              false);
}

Outcome Stream::wrap(void *native, Site site) {
  return made(session_.expect(site, success, "stream_wrap", session_.table.stream_wrap, device_,
                              native, &stream_),
              true);
}

Outcome Stream::made(Outcome outcome, bool wrapped) {
  if (!outcome.passed()) return outcome;
  wrapped_ = wrapped;
  made_by_ = std::this_thread::get_id();
  rested_ = 0;
  know(*this);
  return outcome;
}

Outcome Stream::destroy(Site site) {
  if (stream_ != nullptr) lost_sight_of_a_stream();
  return end(site);
}

Outcome Stream::end(Site site) {
  // First, so that no thread waits for it when it is gone.
  forget(*this);
  const weir_be_stream stream = std::exchange(stream_, nullptr);
  if (stream == nullptr) return {};
  return session_.expect(site, success, "stream_destroy", session_.table.stream_destroy, stream);
}

Outcome Stream::copy(uint64_t destination, uint64_t source, uint64_t bytes, Site site) {
  const weir_be_copy copy{destination, source, bytes};
  const Outcome outcome =
      session_.expect(site, success, "copy_async", session_.table.copy_async, stream_, &copy);
  if (outcome.passed()) return {};
  return Outcome::failure(outcome.text() + "; a copy of " + list(bytes) + " bytes to " +
                          number(destination) + " from " + number(source));
}

Outcome Stream::fill(uint64_t address, uint8_t value, uint64_t bytes, Site site) {
  return session_.expect(site, success, "fill_async", session_.table.fill_async, stream_, address,
                         value, bytes);
}

Outcome Stream::synchronize(Site site) {
  return session_.expect(site, success, "stream_synchronize", session_.table.stream_synchronize,
                         stream_);
}

Outcome Fence::record(const Stream &stream, Site site) {
  return session_.expect(site, success, "fence_record", session_.table.fence_record, stream.get(),
                         &fence_);
}

Outcome Fence::destroy(Site site) {
  const weir_be_fence fence = std::exchange(fence_, 0);
  if (fence == 0) return {};
  return session_.expect(site, success, "fence_destroy", session_.table.fence_destroy, fence);
}

Outcome Fence::wait(Site site) {
  return session_.expect(site, success, "fence_wait", session_.table.fence_wait, fence_,
                         patience_ns);
}

// ---- gates

Gate::~Gate() {
  forget(*this);
  open();
  // The functions that stand at the gate use it until they have left.
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(patience_ns),
                    [this] { return left_ == expected_; });
}

Outcome Gate::hold(const Stream &stream, Site site) {
  TRY(session_.expect(site, success, "stream_host_call", session_.table.stream_host_call,
                      stream.get(), &Gate::stand, this));
  const std::lock_guard lock(mutex_);
  ++expected_;
  return {};
}

Outcome Gate::reached(Site site) {
  std::unique_lock lock(mutex_);
  const bool there = changed_.wait_for(lock, std::chrono::nanoseconds(patience_ns),
                                       [this] { return entered_ >= 1; });
  if (there) return {};
  return Outcome::failure(place(site) + ": the host function of a stream was not called");
}

void Gate::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

bool Gate::gave_up() const {
  const std::lock_guard lock(mutex_);
  return gave_up_;
}

void Gate::stand(void *gate) {
  Gate &self = *static_cast<Gate *>(gate);
  std::unique_lock lock(self.mutex_);
  ++self.entered_;
  self.changed_.notify_all();
  if (!self.changed_.wait_for(lock, std::chrono::nanoseconds(patience_ns),
                              [&self] { return self.open_; })) {
    self.gave_up_ = true;
  }
  ++self.left_;
  self.changed_.notify_all();
}

}  // namespace weir::conformance
