// SPDX-License-Identifier: Apache-2.0
//
// Devices: their memory, how it is shared, their streams and their troubles.

#include "tests/drivers/sim/machine.hpp"

#include "backends/common/fault.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weir::sim {
namespace {

using Number = unsigned long long;

/// How long a wait goes on before it looks for trouble again.
constexpr uint64_t slice_ns = 2'000'000;
/// The room of plain memory is whole pages.
constexpr uint64_t page = 4096;

std::atomic<uint64_t> machines{0};

Answer answer_of(weir_result result) {
  switch (result) {
    case WEIR_SUCCESS:
      return Answer::ok;
    case WEIR_ERROR_DEVICE_OOM:
      return Answer::out_of_memory;
    case WEIR_ERROR_OUT_OF_HOST_MEMORY:
      return Answer::out_of_host_memory;
    default:
      return Answer::system;
  }
}

/// A file of its own for memory that may leave the process. Its name tells importers which device it is of.
Answer make_shared_file(uint32_t device, uint64_t bytes, std::shared_ptr<host::Extent> *content) {
  char name[32];
  std::snprintf(name, sizeof name, "weir-sim-%u", device);
  const host::Descriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return Answer::system;
  }
  return answer_of(host::import_file(file.get(), {0, bytes}, content));
}

/// The device that a file of make_shared_file() is of; false if it is none.
bool device_of_file(int fd, uint32_t *device) {
  char link[40];
  char target[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, target, sizeof target - 1);
  if (length <= 0) return false;
  target[length] = '\0';
  return std::sscanf(target, "/memfd:weir-sim-%u", device) == 1;
}

/// What a fabric name holds. The exporter's descriptor is the way to the memory, and the inode proves it.
struct FabricContent {
  char magic[16];
  int32_t process;
  int32_t fd;
  uint64_t inode;
  unsigned char rest[32];
};
static_assert(sizeof(FabricContent) == sizeof(FabricName));
constexpr char fabric_magic[16] = "weir-sim-fabric";

}  // namespace

Machine::Machine(const Options &options)
    : options_(options),
      generation_(++machines),
      devices_(std::make_unique<Device[]>(options.devices)),
      addresses_(census_, options.granule, options.strict),
      host_(census_),
      links_(options.devices, options.link_bandwidth, options.peer_bandwidth,
             options.link_latency_ns) {}

Machine::~Machine() {
  for (uint32_t device = 0; device < devices(); ++device) lose(device);
  const std::lock_guard hold(streams_mutex_);
  ending_ = true;
}

std::string Machine::open() {
  for (uint32_t device = 0; device < devices(); ++device) {
    devices_[device].reach = device_bit(device);
    if (devices_[device].memory.open(device, options_.memory, true) != WEIR_SUCCESS) {
      const char *why = common::sentence_of(common::last_native());
      return std::string("the memory of a device: ") + (why != nullptr ? why : "refused");
    }
  }
  attachment_ = make_attachment(*this);
  return {};
}

uint64_t Machine::memory_total(uint32_t device) const noexcept {
  return devices_[device].memory.total();
}

uint64_t Machine::memory_free(uint32_t device) const { return devices_[device].memory.available(); }

Answer Machine::make_physical(uint32_t device, uint64_t bytes, Sharing sharing,
                              std::shared_ptr<Physical> *physical) {
  if (bytes == 0 || bytes % options_.granule != 0) {
    return census_.misuse("physical memory of %llu bytes, no multiple of %llu",
                          static_cast<Number>(bytes), static_cast<Number>(options_.granule));
  }
  std::shared_ptr<host::Extent> room;
  const weir_result taken = devices_[device].memory.take_low(bytes, options_.granule, &room);
  if (taken != WEIR_SUCCESS) return answer_of(taken);
  std::shared_ptr<host::Extent> content = room;
  if (sharing != share_none) {
    const Answer answer = make_shared_file(device, bytes, &content);
    if (answer != Answer::ok) return answer;
  }
  *physical = std::make_shared<Physical>(device, sharing, std::move(room), std::move(content));
  return Answer::ok;
}

Answer Machine::export_fd(const Physical &physical, int *fd) {
  if ((physical.sharing() & share_fd) == 0) {
    return census_.misuse("exporting memory that was not made for it");
  }
  return answer_of(host::export_extent(physical.extent(), fd));
}

Answer Machine::import_fd(int fd, std::shared_ptr<Physical> *physical) {
  struct stat info {};
  uint32_t device = 0;
  if (fstat(fd, &info) != 0 || !device_of_file(fd, &device) || device >= devices()) {
    return census_.misuse("importing fd %d, which is no memory of a device", fd);
  }
  std::shared_ptr<host::Extent> content;
  const weir_result result =
      host::import_file(fd, {0, static_cast<uint64_t>(info.st_size)}, &content);
  if (result != WEIR_SUCCESS) return answer_of(result);
  // Imported memory may not be exported again, as with vendors.
  *physical = std::make_shared<Physical>(device, share_none, nullptr, std::move(content));
  return Answer::ok;
}

Answer Machine::export_fabric(const Physical &physical, FabricName *name) {
  if ((physical.sharing() & share_fabric) == 0) {
    return census_.misuse("exporting memory over the fabric that was not made for it");
  }
  struct stat info {};
  if (fstat(physical.extent().fd(), &info) != 0) return Answer::system;
  FabricContent content{};
  std::memcpy(content.magic, fabric_magic, sizeof content.magic);
  content.process = getpid();
  content.fd = physical.extent().fd();
  content.inode = info.st_ino;
  std::memcpy(name->bytes, &content, sizeof content);
  return Answer::ok;
}

Answer Machine::import_fabric(const FabricName &name, std::shared_ptr<Physical> *physical) {
  FabricContent content{};
  std::memcpy(&content, name.bytes, sizeof content);
  if (std::memcmp(content.magic, fabric_magic, sizeof content.magic) != 0) {
    return census_.misuse("importing a fabric handle that nobody exported");
  }
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", content.process, content.fd);
  const host::Descriptor file(::open(path, O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || info.st_ino != content.inode) {
    return census_.misuse("importing a fabric handle whose memory is gone");
  }
  return import_fd(file.get(), physical);
}

Answer Machine::plain_allocate(uint32_t device, uint64_t bytes, uint64_t alignment,
                               uint64_t *address) {
  if (bytes == 0) return census_.misuse("an allocation of 0 bytes");
  if (bytes > memory_total(device)) return Answer::out_of_memory;
  std::shared_ptr<host::Extent> room;
  const uint64_t pages = (bytes + page - 1) / page * page;
  const weir_result taken = devices_[device].memory.take_high(pages, &room);
  if (taken != WEIR_SUCCESS) return answer_of(taken);
  auto physical = std::make_shared<Physical>(device, share_none, room, room);
  return addresses_.place(std::move(physical), bytes, alignment, address);
}

Answer Machine::plain_free(uint64_t address) { return addresses_.drop(address); }

void Machine::enable_peer(uint32_t device, uint32_t peer) noexcept {
  devices_[device].reach |= device_bit(peer);
}

void Machine::disable_peer(uint32_t device, uint32_t peer) noexcept {
  if (device != peer) devices_[device].reach &= ~device_bit(peer);
}

bool Machine::peer_enabled(uint32_t device, uint32_t peer) const noexcept {
  return (reach(device) & device_bit(peer)) != 0;
}

DeviceSet Machine::reach(uint32_t device) const noexcept { return devices_[device].reach.load(); }

std::shared_ptr<Stream> Machine::make_stream(uint32_t device) {
  host::Stream *queue = table_.open(device);
  if (queue == nullptr) return nullptr;
  std::shared_ptr<Stream> stream;
  try {
    stream = std::make_shared<Stream>(*this, queue, device);
  } catch (...) {
    table_.close(queue);
    throw;
  }
  const std::lock_guard hold(streams_mutex_);
  std::erase_if(streams_, [](const std::weak_ptr<Stream> &each) { return each.expired(); });
  streams_.push_back(stream);
  return stream;
}

void Machine::close(host::Stream *queue) noexcept {
  const std::lock_guard hold(streams_mutex_);
  if (!ending_) table_.close(queue);
}

bool Machine::passed(Point point) const noexcept {
  if (point.fence == 0) return true;
  const host::Stream *queue = table_.stream_of(point.fence);
  return queue == nullptr || queue->done(host::StreamTable::sequence_of(point.fence));
}

Answer Machine::wait(Point point, uint64_t timeout_ns) {
  const uint64_t now = host::now_ns();
  const uint64_t deadline = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
  host::Stream *queue = point.fence != 0 ? table_.stream_of(point.fence) : nullptr;
  while (true) {
    // The work's own trouble is part of its end, so it is asked for after the point has passed.
    const bool done = queue == nullptr || passed(point);
    const Answer answer = trouble(point.device);
    if (done || answer != Answer::ok) return answer;
    const uint64_t time = host::now_ns();
    if (time >= deadline) return Answer::timeout;
    queue->wait(host::StreamTable::sequence_of(point.fence), std::min(deadline, time + slice_ns));
  }
}

/// To be dropped outside the lock: a stream's end takes it.
std::vector<std::shared_ptr<Stream>> Machine::living_streams() {
  std::vector<std::shared_ptr<Stream>> streams;
  const std::lock_guard hold(streams_mutex_);
  for (const std::weak_ptr<Stream> &each : streams_) streams.push_back(each.lock());
  return streams;
}

Answer Machine::drain(uint32_t device) {
  for (const std::shared_ptr<Stream> &stream : living_streams()) {
    if (stream == nullptr || stream->device() != device) continue;
    const Answer answer = wait(stream->record(), UINT64_MAX);
    if (answer != Answer::ok) return answer;
  }
  return trouble(device);
}

Answer Machine::trouble(uint32_t device) const noexcept {
  if (device >= options_.devices) return Answer::ok;
  if (devices_[device].lost.load(std::memory_order_acquire)) return Answer::lost;
  if (devices_[device].broken.load(std::memory_order_acquire)) return Answer::illegal_address;
  return Answer::ok;
}

Answer Machine::break_device(uint32_t device, const std::string &why) noexcept {
  Device &broken = devices_[device];
  (void)census_.misuse("device %u: %s", device, why.c_str());
  {
    const std::lock_guard hold(broken.mutex);
    if (broken.broken) return Answer::illegal_address;
    try {
      broken.why = why;
    } catch (...) {
    }
    broken.broken = true;
  }
  return Answer::illegal_address;
}

void Machine::heal(uint32_t device) noexcept {
  const std::lock_guard hold(devices_[device].mutex);
  devices_[device].broken = false;
  devices_[device].code = 0;
  devices_[device].why.clear();
}

void Machine::lose(uint32_t device) noexcept { devices_[device].lost = true; }

void Machine::stuck(int64_t code) {
  if (!sticks_.exchange(false)) return;
  for (uint32_t device = 0; device < devices(); ++device) {
    const std::lock_guard hold(devices_[device].mutex);
    devices_[device].code = code;
    devices_[device].broken = true;
  }
  // What runs at the moment ends; what is enqueued does nothing. Nobody can wait for it any more who frees its memory.
  for (const std::shared_ptr<Stream> &stream : living_streams()) {
    if (stream == nullptr) continue;
    const Point point = stream->record();
    host::Stream *queue = table_.stream_of(point.fence);
    while (queue != nullptr && !passed(point)) {
      queue->wait(host::StreamTable::sequence_of(point.fence), host::now_ns() + slice_ns);
    }
  }
}

int64_t Machine::broken_with(uint32_t device) const noexcept {
  return devices_[device].code.load(std::memory_order_acquire);
}

std::string Machine::why_broken(uint32_t device) const {
  const std::lock_guard hold(devices_[device].mutex);
  return devices_[device].why;
}

}  // namespace weir::sim
