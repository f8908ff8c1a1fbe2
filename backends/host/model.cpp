// SPDX-License-Identifier: Apache-2.0
//
// The device model's calls: what they demand of their arguments, and how the parts below answer them.
// Addresses become views of physical memory when an operation is enqueued, so a worker meets no bad one.

#include "backends/host/model.hpp"

#include "backends/common/undo.hpp"
#include "backends/host/fault.hpp"
#include "backends/host/machine_options.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace weir::host {
namespace {

using Number = unsigned long long;
constexpr uint64_t page_bytes = 4096;
constexpr uint64_t most_plain_alignment = uint64_t{2} << 20U;

bool touch(const std::byte *a, const std::byte *b, uint64_t bytes) noexcept {
  const uintptr_t x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y ? y - x < bytes : x - y < bytes;
}

}  // namespace

Model::Model(const Options &options)
    : options_(options),
      space_(options.granule, options.contents),
      links_(options.devices, options.link_bandwidth, options.peer_bandwidth,
             options.link_latency_ns) {
  links_.share(cards_of(options_));
  for (const LinkOption &link : options_.links) {
    PathFacts facts;
    facts.direct = link.direct;
    facts.kind = link.kind;
    facts.hops = link.hops;
    facts.bandwidth = link.bandwidth;
    facts.latency_ns = link.latency_ns;
    links_.set(link.a, link.b, facts, options_.link_slowdown);
  }
}

weir_result Model::open() {
  if (options_.link_log && !links_.log_to(*options_.link_log))
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "link_log=%d: there is no such file open",
                  *options_.link_log);
  memory_.reserve(options_.devices);
  std::vector<std::shared_ptr<Room>> rooms(options_.devices);
  for (uint32_t device = 0; device < options_.devices; ++device) {
    auto memory = std::make_unique<DeviceMemory>();
    // The first of the devices that share one memory makes the room; a device with memory of its own needs none.
    const uint32_t with = options_.memory_with.empty() ? device : options_.memory_with[device];
    if (std::count(options_.memory_with.begin(), options_.memory_with.end(), with) > 1)
      rooms[device] = with == device ? std::make_shared<Room>(options_.memory) : rooms[with];
    WEIR_BACKEND_TRY(memory->open(device, options_.memory, options_.punch_hole && options_.contents,
                                  rooms[device]));
    memory_.push_back(std::move(memory));
  }
  return WEIR_SUCCESS;
}

weir_result Model::check_device(uint32_t device) const noexcept {
  if (device < options_.devices) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "there is no device %u, only %u of them", device,
                options_.devices);
}

uint64_t Model::capabilities(uint32_t device) const noexcept {
  const uint64_t all = options_.capabilities();
  return reaches_another(device)
             ? all
             : all & ~(WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE | WEIR_CAP_ACCESS_LATER);
}

bool Model::shares_ranges(uint32_t device) const noexcept {
  return (capabilities(device) & WEIR_CAP_SHARED_RANGE) != 0;
}

/// True also where there is no other device.
bool Model::reaches_another(uint32_t device) const noexcept {
  for (uint32_t other = 0; other < options_.devices; ++other)
    if (other != device && links_.facts(device, other).direct) return true;
  return options_.devices == 1;
}

weir_result Model::check_vmm(uint32_t device) const noexcept {
  if (!options_.vmm)
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "virtual-memory management is off (vmm=0)");
  return check_device(device);
}

weir_result Model::check_granule_size(uint64_t bytes) const noexcept {
  if (bytes != 0 && bytes % options_.granule == 0) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                "a granule of %#llx bytes, not a positive multiple of %#llx",
                static_cast<Number>(bytes), static_cast<Number>(options_.granule));
}

weir_result Model::granule_create(uint32_t device, uint64_t bytes, uint64_t flags,
                                  weir_be_granule *granule) {
  WEIR_BACKEND_TRY(check_vmm(device));
  const uint64_t known = exports() ? WEIR_BE_GRANULE_EXPORT_FD : 0;
  if ((flags & ~known) != 0) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "granule flags %#llx, of which %#llx are known",
                  static_cast<Number>(flags), static_cast<Number>(known));
  }
  WEIR_BACKEND_TRY(check_granule_size(bytes));
  std::shared_ptr<Extent> extent;
  WEIR_BACKEND_TRY(memory_[device]->take_low(bytes, page_bytes, &extent));
  *granule = granules_.add(device, std::move(extent), (flags & WEIR_BE_GRANULE_EXPORT_FD) != 0);
  return WEIR_SUCCESS;
}

weir_result Model::granule_destroy(uint32_t device, weir_be_granule granule) {
  WEIR_BACKEND_TRY(check_vmm(device));
  return granules_.remove(device, granule);
}

weir_result Model::granule_export(uint32_t device, weir_be_granule granule, int32_t *fd) {
  WEIR_BACKEND_TRY(check_vmm(device));
  if (!exports())
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "export is off (export_fd=0 or contents=0)");
  std::shared_ptr<Extent> extent;
  WEIR_BACKEND_TRY(granules_.find_exportable(device, granule, &extent));
  return export_extent(*extent, fd);
}

weir_result Model::granule_import(uint32_t device, int32_t fd, uint64_t bytes,
                                  weir_be_granule *granule) {
  WEIR_BACKEND_TRY(check_vmm(device));
  if (!exports())
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "import is off (export_fd=0 or contents=0)");
  WEIR_BACKEND_TRY(check_granule_size(bytes));
  DeviceMemory::Place place;
  WEIR_BACKEND_TRY(exported_place(fd, bytes, &place));
  for (uint32_t other = 0; other < options_.devices; ++other) {
    if (other == device || !memory_[other]->owns(fd)) continue;
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "fd %d is memory of device %u, not %u", fd, other,
                  device);
  }
  std::shared_ptr<Extent> extent;
  if (memory_[device]->owns(fd)) {
    extent = memory_[device]->find(place);
    if (extent == nullptr) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                    "fd %d names memory of device %u that is a granule no longer", fd, device);
    }
  } else {
    WEIR_BACKEND_TRY(import_file(fd, place, &extent));
  }
  *granule = granules_.add(device, std::move(extent), false);
  return WEIR_SUCCESS;
}

weir_result Model::range_reserve(uint32_t device, uint64_t bytes, uint64_t alignment,
                                 uint64_t *address) {
  WEIR_BACKEND_TRY(check_vmm(device));
  return space_.reserve(device, bytes, alignment, shares_ranges(device), address);
}

weir_result Model::range_free(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_vmm(device));
  return space_.free(device, address, bytes);
}

weir_result Model::check_peers(uint32_t device, const uint32_t *peers,
                               uint32_t peer_count) const noexcept {
  if (peer_count != 0 && !options_.peer)
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "peers are off (peer=0)");
  if (peer_count != 0 && peers == nullptr) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peers is NULL and peer_count %u", peer_count);
  }
  uint64_t named = 0;  // there are at most 64 devices
  for (uint32_t i = 0; i < peer_count; ++i) {
    WEIR_BACKEND_TRY(check_device(peers[i]));
    const uint64_t bit = uint64_t{1} << peers[i];
    if (peers[i] == device || (named & bit) != 0) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peers[%u] is device %u, which is %s", i, peers[i],
                    peers[i] == device ? "the one that maps" : "named already");
    }
    named |= bit;
  }
  return WEIR_SUCCESS;
}

weir_result Model::map_piece(uint32_t device, uint64_t address, const weir_be_piece &piece) {
  std::shared_ptr<Extent> extent;
  WEIR_BACKEND_TRY(granules_.pin(device, piece.granule, options_.multi_map, &extent));
  if (!options_.map_part && (piece.offset != 0 || piece.bytes != extent->bytes())) {
    granules_.unpin(piece.granule);
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "mapping [%llu, +%llu) of a granule of %llu bytes: parts are off (map_part=0)",
                  static_cast<Number>(piece.offset), static_cast<Number>(piece.bytes),
                  static_cast<Number>(extent->bytes()));
  }
  weir_result result = WEIR_ERROR_OUT_OF_HOST_MEMORY;
  try {
    result = space_.map({device, shares_ranges(device)}, address, piece.bytes, std::move(extent),
                        piece.offset, options_.prefault, piece.granule);
  } catch (...) {
    granules_.unpin(piece.granule);
    throw;
  }
  if (result != WEIR_SUCCESS) granules_.unpin(piece.granule);
  return result;
}

weir_result Model::map(uint32_t device, uint64_t address, uint64_t bytes, weir_be_granule granule,
                       uint64_t offset, const uint32_t *peers, uint32_t peer_count) {
  WEIR_BACKEND_TRY(check_vmm(device));
  WEIR_BACKEND_TRY(check_peers(device, peers, peer_count));
  wait_as_asked(device);
  return map_piece(device, address, {granule, offset, bytes});
}

weir_result Model::unmap(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_vmm(device));
  wait_as_asked(device);
  uint64_t granule = 0;
  WEIR_BACKEND_TRY(space_.unmap(device, address, bytes, &granule));
  granules_.unpin(granule);
  return WEIR_SUCCESS;
}

weir_result Model::check_capability(uint32_t device, uint64_t capability,
                                    const char *off) const noexcept {
  WEIR_BACKEND_TRY(check_vmm(device));
  if ((capabilities(device) & capability) != 0) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u has no such call: it is off (%s)", device,
                off);
}

weir_result Model::map_run(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                           uint32_t count, const uint32_t *peers, uint32_t peer_count) {
  WEIR_BACKEND_TRY(check_capability(device, WEIR_CAP_MAP_RUN, "map_run=0"));
  WEIR_BACKEND_TRY(check_peers(device, peers, peer_count));
  if (pieces == nullptr || count == 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "pieces=%p with count=%u",
                  static_cast<const void *>(pieces), count);
  }
  wait_as_asked(device);
  uint64_t at = address;
  uint32_t mapped = 0;
  common::Undo undo([&] {
    while (mapped-- > 0) {
      at -= pieces[mapped].bytes;
      uint64_t granule = 0;
      // A system that refuses this has nothing left to give; the piece stays, and stop() ends it.
      if (space_.unmap(device, at, pieces[mapped].bytes, &granule) == WEIR_SUCCESS)
        granules_.unpin(granule);
    }
  });
  for (; mapped < count; ++mapped) {
    WEIR_BACKEND_TRY(map_piece(device, at, pieces[mapped]));
    at += pieces[mapped].bytes;
  }
  undo.dismiss();
  return WEIR_SUCCESS;
}

weir_result Model::unmap_run(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_capability(device, WEIR_CAP_MAP_RUN, "map_run=0"));
  wait_as_asked(device);
  std::vector<uint64_t> granules;
  WEIR_BACKEND_TRY(space_.unmap_run(device, address, bytes, &granules));
  for (const uint64_t granule : granules) granules_.unpin(granule);
  return WEIR_SUCCESS;
}

weir_result Model::access_add(uint32_t device, uint64_t address, uint64_t bytes,
                              const uint32_t *peers, uint32_t peer_count) const {
  WEIR_BACKEND_TRY(check_capability(device, WEIR_CAP_ACCESS_LATER, "peer=0 or access_later=0"));
  WEIR_BACKEND_TRY(check_peers(device, peers, peer_count));
  if (peer_count == 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peer_count=0");
  return space_.check_run(device, address, bytes);
}

void Model::wait_as_asked(uint32_t device) noexcept {
  if (options_.map_may_block) streams_.drain_device(device);
}

weir_result Model::plain_allocate(uint32_t device, uint64_t bytes, uint64_t alignment,
                                  uint64_t *address) {
  WEIR_BACKEND_TRY(check_device(device));
  if (bytes == 0 || bytes > UINT64_MAX - page_bytes) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "plain memory of %llu bytes",
                  static_cast<Number>(bytes));
  }
  if (!std::has_single_bit(alignment) || alignment > most_plain_alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "alignment %#llx is no power of two of at most 2 MiB",
                  static_cast<Number>(alignment));
  }
  std::shared_ptr<Extent> extent;
  WEIR_BACKEND_TRY(
      memory_[device]->take_high((bytes + page_bytes - 1) / page_bytes * page_bytes, &extent));
  return space_.place(device, std::move(extent), alignment < page_bytes ? page_bytes : alignment,
                      address);
}

weir_result Model::plain_free(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_device(device));
  return space_.drop(device, address, (bytes + page_bytes - 1) / page_bytes * page_bytes);
}

weir_result Model::resolve(const weir_be_copy &copy, Operation *operation) {
  Physical to, from;
  WEIR_BACKEND_TRY(space_.translate(copy.destination, copy.bytes, &to));
  WEIR_BACKEND_TRY(space_.translate(copy.source, copy.bytes, &from));
  if (touch(to.memory, from.memory, copy.bytes)) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "the %llu bytes at %#llx and %#llx are partly the same memory",
                  static_cast<Number>(copy.bytes), static_cast<Number>(copy.destination),
                  static_cast<Number>(copy.source));
  }
  const bool across =
      to.device != from.device && to.device != WEIR_DEVICE_HOST && from.device != WEIR_DEVICE_HOST;
  if (across && !options_.peer) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "a copy from device %u to device %u: peers are off (peer=0)", from.device,
                  to.device);
  }
  operation->kind = Operation::Kind::copy;
  operation->destination = options_.contents ? to.memory : nullptr;
  operation->source = from.memory;
  operation->bytes = copy.bytes;
  operation->link = links_.path(from.device, to.device);
  operation->enqueued_ns = operation->link != nullptr ? now_ns() : 0;
  return WEIR_SUCCESS;
}

weir_result Model::copy(Stream &stream, const weir_be_copy *copies, uint32_t count) {
  if (count == 1) {
    Operation single;
    WEIR_BACKEND_TRY(resolve(*copies, &single));
    single.with_latency = true;
    stream.enqueue(&single, 1);
    return WEIR_SUCCESS;
  }
  std::vector<Operation> batch(count);
  const LinkMeter *previous = nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    WEIR_BACKEND_TRY(resolve(copies[i], &batch[i]));
    // One start-up a run on one link: that is what a batch is for.
    batch[i].with_latency = batch[i].link != previous;
    previous = batch[i].link;
  }
  stream.enqueue(batch.data(), batch.size());
  return WEIR_SUCCESS;
}

weir_result Model::fill(Stream &stream, uint64_t address, uint8_t value, uint64_t bytes) {
  Physical to;
  WEIR_BACKEND_TRY(space_.translate(address, bytes, &to));
  if (to.device == WEIR_DEVICE_HOST) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "fill: %#llx is no device address",
                  static_cast<Number>(address));
  }
  Operation operation;
  operation.kind = Operation::Kind::fill;
  operation.destination = options_.contents ? to.memory : nullptr;
  operation.bytes = bytes;
  operation.value = value;
  stream.enqueue(&operation, 1);
  return WEIR_SUCCESS;
}

weir_result Model::call(Stream &stream, weir_host_function function, void *user) {
  if (!options_.host_call)
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "host calls are off (host_call=0)");
  if (function == nullptr) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "the host function is NULL");
  Operation operation;
  operation.kind = Operation::Kind::call;
  operation.function = function;
  operation.user = user;
  stream.enqueue(&operation, 1);
  return WEIR_SUCCESS;
}

weir_result Model::wait(Stream &stream, weir_be_fence fence) {
  Stream *other = streams_.stream_of(fence);
  if (other == nullptr) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is no fence", static_cast<Number>(fence));
  }
  // A fence of the stream itself lies before whatever is enqueued next.
  if (other == &stream || other->done(StreamTable::sequence_of(fence))) return WEIR_SUCCESS;
  Operation operation;
  operation.kind = Operation::Kind::wait;
  operation.fence = fence;
  stream.enqueue(&operation, 1);
  return WEIR_SUCCESS;
}

}  // namespace weir::host
