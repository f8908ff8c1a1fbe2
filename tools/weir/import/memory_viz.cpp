// SPDX-License-Identifier: Apache-2.0
//
// One segment for each device, and one for each tier below, which stand behind the devices as further ones. Pickle's protocol 2, in
// the few operations that the page's own reader knows.
#include "tools/weir/import/memory_viz.hpp"

#include "tools/weir/import/pickle_writer.hpp"

#include <algorithm>
#include <vector>

namespace weir::tool {
namespace {

/// Addresses that JavaScript's numbers have, far enough apart.
constexpr uint64_t segment_distance = uint64_t{1} << 44;

struct VizTier {
  uint64_t SnapshotBuffer::*bytes;
  const char *name;
  const char *held;  ///< the counter of what the tier takes
};
constexpr VizTier viz_tiers[] = {
    {&SnapshotBuffer::host_bytes, "HOST", "host_bytes"},
    {&SnapshotBuffer::compressed_bytes, "COMPRESSED", "compressed_bytes"},
    {&SnapshotBuffer::storage_bytes, "STORAGE", "storage_bytes"},
};

struct VizBlock {
  const SnapshotBuffer *buffer;
  uint64_t bytes;
};

/// What stands as a device on the page.
struct VizSegment {
  std::string where;
  uint64_t total = 0;  ///< at least that of the blocks
  uint64_t used = 0;
  std::vector<VizBlock> blocks;

  void add(const SnapshotBuffer &buffer, uint64_t bytes) {
    if (bytes == 0 || bytes >= segment_distance - used) return;
    blocks.push_back({&buffer, bytes});
    used += bytes;
  }
};

std::vector<VizSegment> segments_of(const PoolSnapshot &snapshot) {
  std::vector<VizSegment> segments;
  for (const SnapshotDevice &device : snapshot.devices) {
    VizSegment &segment = segments.emplace_back();
    segment.where = "device " + std::to_string(device.device);
    for (const SnapshotBuffer &buffer : snapshot.buffers)
      if (buffer.home == device.device) segment.add(buffer, buffer.device_bytes);
    segment.total = std::max(std::min(device.bytes, segment_distance - 1), segment.used);
  }
  for (const VizTier &tier : viz_tiers) {
    VizSegment &segment = segments.emplace_back();
    segment.where = tier.name;
    for (const SnapshotBuffer &buffer : snapshot.buffers) segment.add(buffer, buffer.*tier.bytes);
    segment.total =
        std::max(std::min(snapshot.stat(tier.held), segment_distance - 1), segment.used);
  }
  return segments;
}

class VizWriter {
 public:
  VizWriter(const PoolSnapshot &snapshot, const Symbols &symbols)
      : snapshot_(snapshot), symbols_(symbols) {}

  std::string write() {
    const std::vector<VizSegment> segments = segments_of(snapshot_);
    pickle_.begin_dict();
    pickle_.key("segments");
    pickle_.begin_list();
    for (size_t i = 0; i < segments.size(); ++i)
      if (segments[i].total != 0) segment(i, segments[i]);
    pickle_.end_list();
    pickle_.key("device_traces");
    pickle_.begin_list();
    for (size_t i = 0; i < segments.size(); ++i) trace(i, segments[i]);
    pickle_.end_list();
    pickle_.key("allocator_settings");
    pickle_.begin_dict();
    pickle_.end_dict();
    pickle_.key("external_annotations");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.end_dict();
    return pickle_.take();
  }

 private:
  static uint64_t address_of(size_t place) { return segment_distance * (place + 1); }

  void field(std::string_view key, uint64_t value) {
    pickle_.key(key);
    pickle_.number(value);
  }
  void field(std::string_view key, std::string_view value) {
    pickle_.key(key);
    pickle_.text(value);
  }

  void segment(size_t place, const VizSegment &segment) {
    pickle_.begin_dict();
    field("device", place);
    field("address", address_of(place));
    field("total_size", segment.total);
    field("allocated_size", segment.used);
    field("active_size", segment.used);
    field("requested_size", segment.used);
    field("stream", uint64_t{0});
    field("segment_type", "large");
    pickle_.key("segment_pool_id");
    pickle_.pair(0, 0);
    pickle_.key("is_expandable");
    pickle_.boolean(false);
    pickle_.key("frames");
    frames(segment, nullptr);
    pickle_.key("blocks");
    pickle_.begin_list();
    uint64_t at = address_of(place);
    for (const VizBlock &one : segment.blocks) {
      block(at, one.bytes, "active_allocated", segment, one.buffer);
      at += one.bytes;
    }
    if (segment.used < segment.total)
      block(at, segment.total - segment.used, "inactive", segment, nullptr);
    pickle_.end_list();
    pickle_.end_dict();
  }

  void block(uint64_t address, uint64_t bytes, std::string_view state, const VizSegment &segment,
             const SnapshotBuffer *buffer) {
    pickle_.begin_dict();
    field("address", address);
    field("size", bytes);
    field("requested_size", bytes);
    field("state", state);
    pickle_.key("frames");
    frames(segment, buffer);
    pickle_.end_dict();
  }

  void trace(size_t place, const VizSegment &segment) {
    pickle_.begin_list();
    uint64_t time = 0;
    if (segment.total != 0)
      event("segment_alloc", address_of(place), segment.total, time, segment, nullptr);
    uint64_t at = address_of(place);
    for (const VizBlock &one : segment.blocks) {
      event("alloc", at, one.bytes, ++time, segment, one.buffer);
      at += one.bytes;
    }
    pickle_.end_list();
  }

  void event(std::string_view action, uint64_t address, uint64_t bytes, uint64_t time,
             const VizSegment &segment, const SnapshotBuffer *buffer) {
    pickle_.begin_dict();
    field("action", action);
    field("addr", address);
    field("size", bytes);
    field("stream", uint64_t{0});
    field("time_us", time);
    pickle_.key("frames");
    frames(segment, buffer);
    pickle_.end_dict();
  }

  /// The buffer's name and client first, then the stack that made it, if it was kept.
  void frames(const VizSegment &segment, const SnapshotBuffer *buffer) {
    pickle_.begin_list();
    if (buffer == nullptr) {
      frame(segment.where, "pool " + snapshot_.pool);
    } else {
      const bool named =
          buffer->client < snapshot_.clients.size() && !snapshot_.clients[buffer->client].empty();
      frame(buffer->allocation     ? "memory of weir_malloc"
            : buffer->name.empty() ? "a buffer without a name"
                                   : buffer->name,
            segment.where + (named ? ", client " + snapshot_.clients[buffer->client] : ""));
      if (const auto found = snapshot_.stacks.find(buffer->stack);
          buffer->stack != 0 && found != snapshot_.stacks.end())
        for (const SnapshotFrame &of : found->second) stack_frame(of);
    }
    pickle_.end_list();
  }
  void stack_frame(const SnapshotFrame &of) {
    const CodeSight &sight = symbols_.find(of.file, of.offset);
    if (sight.function.empty() && sight.line == 0)
      frame(of.line, "");
    else
      frame(sight.function.empty() ? of.line : sight.function,
            sight.line != 0 ? sight.file : of.file.path, sight.line);
  }
  void frame(std::string_view name, std::string_view file, uint64_t line = 0) {
    pickle_.begin_dict();
    field("name", name);
    field("filename", file);
    field("line", line);
    pickle_.end_dict();
  }

  const PoolSnapshot &snapshot_;
  const Symbols &symbols_;
  PickleWriter pickle_;
};

}  // namespace

std::string memory_viz(const PoolSnapshot &snapshot, const Symbols &symbols) {
  return VizWriter(snapshot, symbols).write();
}

Symbols symbols_of(const PoolSnapshot &snapshot) {
  Symbols symbols;
  for (const auto &[number, frames] : snapshot.stacks)
    for (const SnapshotFrame &of : frames) symbols.want(of.file, of.offset);
  symbols.look_up();
  return symbols;
}

}  // namespace weir::tool
