// SPDX-License-Identifier: Apache-2.0
//
// The shape of a snapshot is that of torch/cuda/memory.py: {"segments": [{"device", "address", "total_size", "stream", "blocks": [{"size",
// "requested_size", "state", "frames"}]}], "device_traces": [[{"action", "addr", "size", "stream", "time_us", "frames"}]]}, a list of
// events for each device. Older versions have "history" in a block where later ones have "frames".
#include "tools/weir/import/torch_snapshot.hpp"

#include "core/record/vmt_line.hpp"
#include "tools/weir/error.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace weir::tool {
namespace {

constexpr uint32_t most_torch_devices = 28;             // of a pool: weir/pool.h
constexpr uint64_t most_looked_at = uint64_t{1} << 28;  // a list may be in another a million times
constexpr uint64_t most_torch_bytes = uint64_t{1} << 44;  // as a trace may have
constexpr size_t most_stack_bytes = size_t{256} << 20;    // of all stacks; later ones are left out

bool ends_with_py(std::string_view file) { return file.ends_with(".py"); }

/// A file of PyTorch's or Python's own, as far as its place tells.
bool is_library(std::string_view file) {
  return file.find("/torch/") != file.npos || file.starts_with("<");
}

class SnapshotReader {
 public:
  explicit SnapshotReader(const Pickle &pickle) : pickle_(pickle) {
    snapshot_.names.emplace_back();
    snapshot_.stacks.emplace_back();
    name_index_.emplace("", 0);
    stack_index_.emplace("", 0);
  }

  TorchSnapshot read() {
    const PickleValue &root = pickle_.root();
    const PickleValue *segments = pickle_.find(root, "segments");
    const PickleValue *traces = pickle_.find(root, "device_traces");
    if (segments == nullptr || !pickle_.is_list(*segments))
      throw ToolError("'" + pickle_.name() +
                      "' is no memory snapshot of PyTorch: it has no list 'segments'");
    for (const PickleValue &one : pickle_.elements(*segments)) segment(one);
    if (traces != nullptr) {
      uint32_t device = 0;
      for (const PickleValue &trace : pickle_.elements(*traces)) {
        for (const PickleValue &one : pickle_.elements(trace)) event(one, device);
        ++device;
      }
    }
    // Those of a device are in time; of several they are merged.
    if (snapshot_.timed)
      std::stable_sort(
          snapshot_.events.begin(), snapshot_.events.end(),
          [](const TorchEvent &a, const TorchEvent &b) { return a.time_us < b.time_us; });
    return std::move(snapshot_);
  }

 private:
  void look() {
    if (++looked_at_ > most_looked_at)
      throw ToolError("'" + pickle_.name() + "' has more than 2^28 events, blocks and frames");
  }

  /// Nothing where it is not there, or below 0.
  std::optional<uint64_t> number(const PickleValue &dict, std::string_view key) const {
    const int64_t value = pickle_.integer(dict, key, -1);
    if (value < 0) return {};
    return static_cast<uint64_t>(value);
  }

  void segment(const PickleValue &segment) {
    look();
    const std::optional<uint64_t> address = number(segment, "address");
    const std::optional<uint64_t> total = number(segment, "total_size");
    const uint64_t device = number(segment, "device").value_or(0);
    if (!address || !total || *total > most_torch_bytes || device >= most_torch_devices) {
      ++snapshot_.left_out;
      return;
    }
    uint64_t &bytes = snapshot_.segment_bytes[static_cast<uint32_t>(device)];
    bytes = std::min(bytes + *total, most_torch_bytes);
    const PickleValue *blocks = pickle_.find(segment, "blocks");
    if (blocks == nullptr) return;
    const uint64_t stream = number(segment, "stream").value_or(0);
    uint64_t at = *address;
    for (const PickleValue &one : pickle_.elements(*blocks)) {
      look();
      const std::optional<uint64_t> size = number(one, "size");
      if (!size || *size > most_torch_bytes) {
        ++snapshot_.left_out;
        return;  // where the next would be is not known
      }
      const uint64_t start = number(one, "address").value_or(at);
      at = start + *size;
      // A block that the program has freed, and that waits for another stream's work, counts as free.
      if (pickle_.text(one, "state") != "active_allocated") continue;
      const uint64_t requested = number(one, "requested_size").value_or(*size);
      const Place place = place_of(one);
      snapshot_.blocks.push_back({static_cast<uint32_t>(device), place.name, place.stack, start,
                                  usable(requested, *size), stream});
    }
  }

  static uint64_t usable(uint64_t requested, uint64_t size) {
    return requested == 0 || requested > most_torch_bytes ? std::max<uint64_t>(size, 1) : requested;
  }

  void event(const PickleValue &event, uint32_t device) {
    look();
    const std::string_view action = pickle_.text(event, "action");
    TorchEvent one;
    if (action == "alloc")
      one.kind = TorchEvent::Kind::allocate;
    else if (action == "free_requested" || action == "free")
      one.kind = TorchEvent::Kind::free;
    else if (action == "segment_alloc" || action == "segment_map")
      one.kind = TorchEvent::Kind::segment;
    else if (action == "segment_free" || action == "segment_unmap")
      one.kind = TorchEvent::Kind::segment_end;
    else if (action == "oom")
      one.kind = TorchEvent::Kind::out_of_memory;
    else if (action == "snapshot")
      one.kind = TorchEvent::Kind::snapshot;
    else if (action == "free_completed")
      return;  // the memory was given back by then
    else
      return void(++snapshot_.left_out);
    const std::optional<uint64_t> address = number(event, "addr");
    const std::optional<uint64_t> size = number(event, "size");
    const bool marks =
        one.kind == TorchEvent::Kind::out_of_memory || one.kind == TorchEvent::Kind::snapshot;
    if (device >= most_torch_devices || (!marks && (!address || !size || *size > most_torch_bytes)))
      return void(++snapshot_.left_out);
    one.device = device;
    one.address = address.value_or(0);
    one.bytes = std::max<uint64_t>(size.value_or(0), 1);
    one.stream = number(event, "stream").value_or(0);
    const std::optional<uint64_t> time = number(event, "time_us");
    snapshot_.timed = snapshot_.timed && time.has_value();
    one.time_us = time.value_or(0);
    if (one.kind == TorchEvent::Kind::allocate) {
      const Place place = place_of(event);
      one.name = place.name;
      one.stack = place.stack;
    }
    snapshot_.events.push_back(one);
  }

  // ---- names ----

  struct Place {
    uint32_t name = 0, stack = 0;
  };

  /// Stacks are shared by many events: each is looked at once.
  Place place_of(const PickleValue &holder) {
    const PickleValue *frames = pickle_.find(holder, "frames");
    if (frames == nullptr) {
      const PickleValue *history = pickle_.find(holder, "history");
      if (history == nullptr || pickle_.elements(*history).empty()) return {};
      frames = pickle_.find(pickle_.elements(*history).front(), "frames");
    }
    if (frames == nullptr || !pickle_.is_list(*frames)) return {};
    const auto [found, fresh] = places_.try_emplace(frames->at);
    if (fresh) found->second = place_of_stack(pickle_.elements(*frames));
    return found->second;
  }

  /// The name: the innermost frame of the user's; else the innermost of Python's; else the innermost. The stack ends there.
  Place place_of_stack(const std::vector<PickleValue> &frames) {
    size_t best = frames.size();
    int best_rank = 0;
    for (size_t i = 0; i < frames.size(); ++i) {
      const PickleValue &frame = frames[i];
      look();
      const std::string_view file = pickle_.text(frame, "filename");
      const int rank = !ends_with_py(file) ? 1 : is_library(file) ? 2 : 3;
      if (rank > best_rank) {
        best = i;
        best_rank = rank;
      }
      if (rank == 3) break;
    }
    if (best == frames.size()) return {};
    const std::string name = text_of_frame(frames[best]);
    std::string stack = name;
    for (size_t i = best + 1; i < frames.size(); ++i) {
      look();
      const std::string outer = text_of_frame(frames[i]);
      if (stack.size() + outer.size() + 1 > record::vmt_longest_stack) break;
      stack = outer + ';' + stack;
    }
    if (stack_bytes_ + stack.size() > most_stack_bytes) stack.clear();
    stack_bytes_ += stack.size();
    return {number_of(name, &name_index_, &snapshot_.names),
            number_of(stack, &stack_index_, &snapshot_.stacks)};
  }

  /// "train.py:31:forward".
  std::string text_of_frame(const PickleValue &frame) const {
    std::string_view file = pickle_.text(frame, "filename");
    file = file.substr(file.find_last_of('/') + 1);
    std::string text(file.substr(0, 100));
    if (const int64_t line = pickle_.integer(frame, "line", 0); line > 0)
      text += ":" + std::to_string(line);
    if (const std::string_view function = pickle_.text(frame, "name"); !function.empty())
      text += (text.empty() ? "" : ":") + std::string(function.substr(0, 120));
    std::replace(text.begin(), text.end(), ';', ',');  // which is between frames
    return text;
  }

  using Index = std::unordered_map<std::string, uint32_t>;
  static uint32_t number_of(const std::string &text, Index *index, std::vector<std::string> *list) {
    const auto [entry, fresh] = index->try_emplace(text, static_cast<uint32_t>(list->size()));
    if (fresh) list->push_back(text);
    return entry->second;
  }

  const Pickle &pickle_;
  TorchSnapshot snapshot_;
  Index name_index_, stack_index_;
  std::unordered_map<uint64_t, Place> places_;  ///< by the list of frames
  uint64_t looked_at_ = 0;
  size_t stack_bytes_ = 0;
};

}  // namespace

TorchSnapshot read_torch_snapshot(const Pickle &pickle) { return SnapshotReader(pickle).read(); }

}  // namespace weir::tool
