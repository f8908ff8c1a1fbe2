// SPDX-License-Identifier: Apache-2.0
//
// A snapshot has the end of a history, and what was there then. Going back from there, event by event, leads to what was there before.
#include "tools/weir/import/import_trace.hpp"

#include "tools/weir/error.hpp"
#include "tools/weir/import/trace_writer.hpp"

#include <weir/weir.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace weir::tool {
namespace {

using EventKind = TorchEvent::Kind;
using record::VmtLines;

constexpr uint64_t import_granule = uint64_t{2} << 20;
constexpr uint64_t most_live = uint64_t{1} << 44;  // trace_reader.hpp
constexpr size_t most_streams = 4096;

struct LiveBlock {
  uint64_t bytes = 0;
  uint64_t stream = 0;
  uint64_t number = 0;
  uint32_t name = 0;
  uint32_t stack = 0;
};
/// By device and address.
using LiveMap = std::map<std::pair<uint32_t, uint64_t>, LiveBlock>;

/// What is allocated before the first event. An event that does not fit what is known there is not believed.
LiveMap before(const TorchSnapshot &snapshot, std::vector<bool> *fits) {
  LiveMap live;
  for (const TorchBlock &block : snapshot.blocks)
    live[{block.device, block.address}] = {block.bytes, block.stream, 0, block.name, block.stack};
  fits->assign(snapshot.events.size(), true);
  for (size_t i = snapshot.events.size(); i-- > 0;) {
    const TorchEvent &event = snapshot.events[i];
    const auto place = std::make_pair(event.device, event.address);
    if (event.kind == EventKind::allocate)
      (*fits)[i] = live.erase(place) != 0;
    else if (event.kind == EventKind::free)
      (*fits)[i] = live.insert({place, {event.bytes, event.stream, 0, 0, 0}}).second;
  }
  return live;
}

/// What segments come to: their bytes at the end are known, and each event's.
std::map<uint32_t, uint64_t> peak_reserved(const TorchSnapshot &snapshot) {
  std::map<uint32_t, uint64_t> now = snapshot.segment_bytes;
  std::map<uint32_t, uint64_t> peak = now;
  for (size_t i = snapshot.events.size(); i-- > 0;) {
    const TorchEvent &event = snapshot.events[i];
    uint64_t &bytes = now[event.device];
    if (event.kind == EventKind::segment) bytes -= std::min(bytes, event.bytes);
    if (event.kind == EventKind::segment_end) bytes = std::min(bytes + event.bytes, most_live);
    peak[event.device] = std::max(peak[event.device], bytes);
  }
  return peak;
}

class Importer {
 public:
  Importer(const TorchSnapshot &snapshot, const std::string &name, bool compressed)
      : snapshot_(snapshot), name_(name), writer_(compressed) {}

  ImportResult run() {
    std::vector<bool> fits;
    const LiveMap first = before(snapshot_, &fits);
    measure(first, fits);
    header(first);
    for (const auto &[place, block] : first) allocate(place, block);
    result_.before = result_.allocations;
    for (size_t i = 0; i < snapshot_.events.size(); ++i) event(snapshot_.events[i], fits[i]);
    writer_.say([](VmtLines &lines) { return lines.end(); });
    result_.left_out += snapshot_.left_out;
    result_.trace = writer_.take();
    return std::move(result_);
  }

 private:
  /// Devices, streams and the most that is allocated on each device at a time.
  void measure(const LiveMap &first, const std::vector<bool> &fits) {
    std::map<uint32_t, uint64_t> live, peak;
    std::map<std::pair<uint32_t, uint64_t>, uint64_t> bytes;
    uint64_t all = 0;
    const auto add = [&](uint32_t device, uint64_t address, uint64_t size, uint64_t stream) {
      if (size > most_live - all)
        throw ToolError("the snapshot has more than 2^44 bytes (16 TiB) allocated at once");
      bytes[{device, address}] = size;
      all += size;
      live[device] += size;
      peak[device] = std::max(peak[device], live[device]);
      result_.peak_live_bytes = std::max(result_.peak_live_bytes, all);
      streams_.try_emplace({device, stream}, 0);
      if (streams_.size() > most_streams)
        throw ToolError("the snapshot has more than 4096 streams");
    };
    for (const auto &[place, block] : first)
      add(place.first, place.second, block.bytes, block.stream);
    for (size_t i = 0; i < snapshot_.events.size(); ++i) {
      const TorchEvent &event = snapshot_.events[i];
      if (!fits[i]) continue;
      if (event.kind == EventKind::allocate)
        add(event.device, event.address, event.bytes, event.stream);
      if (event.kind != EventKind::free) continue;
      const auto found = bytes.find({event.device, event.address});
      all -= found->second;
      live[event.device] -= found->second;
      bytes.erase(found);
      streams_.try_emplace({event.device, event.stream}, 0);
    }
    for (const auto &[device, reserved] : peak_reserved(snapshot_)) {
      peak[device] = std::max(peak[device], reserved);
      result_.peak_reserved_bytes += reserved;
    }
    for (const auto &[device, most] : peak)
      budgets_[device] =
          (std::max<uint64_t>(most, 1) + import_granule - 1) / import_granule * import_granule;
    if (budgets_.empty()) throw ToolError("the snapshot has neither segments nor allocations");
    result_.devices = budgets_.size();
    result_.streams = streams_.size();
  }

  void header(const LiveMap &first) {
    writer_.say([&](VmtLines &lines) { return lines.begin() && lines.header("name", name_); });
    writer_.say([](VmtLines &lines) {
      return lines.header("source", "a memory snapshot of PyTorch, by weir import");
    });
    writer_.say([&](VmtLines &lines) {
      return lines.header("pre_existing_blocks", std::to_string(first.size()));
    });
    writer_.say([](VmtLines &lines) { return lines.context(0, {}); });
    for (const auto &[device, budget] : budgets_)
      writer_.say([&, device = device, budget = budget](VmtLines &lines) {
        return lines.device({0, device, {}, {}, budget, import_granule, 0});
      });
    record::VmtPool pool;
    pool.name = name_;
    pool.flags = WEIR_POOL_NO_BACKGROUND;
    pool.host_budget = WEIR_NONE;  // nothing that is allocated so leaves its device
    pool.page_size = pool.large_page_size = import_granule;
    pool.policy = "lru-window";
    writer_.say([&](VmtLines &lines) { return lines.pool(pool); });
    for (const auto &[device, budget] : budgets_)
      writer_.say([device = device, budget = budget](VmtLines &lines) {
        return lines.pool_device(0, device, budget);
      });
    uint64_t number = 0;
    for (auto &[place, stream] : streams_) {
      stream = number++;
      writer_.say([device = place.first, stream = stream](VmtLines &lines) {
        return lines.stream(stream, 0, device, true);
      });
    }
  }

  void allocate(const std::pair<uint32_t, uint64_t> &place, LiveBlock block) {
    block.number = result_.allocations++;
    const uint64_t stream = streams_.at({place.first, block.stream});
    have_stack(block.stack);
    writer_.say([&](VmtLines &lines) {
      return lines.allocate(block.number, 0, place.first, stream, block.bytes,
                            snapshot_.names[block.name], block.stack);
    });
    live_[place] = block;
  }

  /// Its line is written before what it made.
  void have_stack(uint32_t stack) {
    if (stack == 0 || !told_stacks_.insert(stack).second) return;
    writer_.say([&](VmtLines &lines) { return lines.stack(stack, snapshot_.stacks[stack]); });
  }

  void event(const TorchEvent &event, bool fits) {
    if (!fits) {
      ++result_.left_out;
      return;
    }
    if (snapshot_.timed) {
      if (first_time_ == UINT64_MAX) first_time_ = event.time_us;
      writer_.say(
          [&](VmtLines &lines) { return moment_.at(lines, 0, event.time_us - first_time_); });
    }
    const auto place = std::make_pair(event.device, event.address);
    switch (event.kind) {
      case EventKind::allocate:
        return allocate(place, {event.bytes, event.stream, 0, event.name, event.stack});
      case EventKind::free: {
        const auto found = live_.find(place);
        const uint64_t stream = streams_.at({event.device, event.stream});
        writer_.say([&](VmtLines &lines) { return lines.free(found->second.number, stream); });
        live_.erase(found);
        ++result_.frees;
        return;
      }
      case EventKind::out_of_memory:
      case EventKind::snapshot:
        return writer_.say([&](VmtLines &lines) {
          return lines.phase(event.kind == EventKind::snapshot ? "snapshot" : "out_of_memory");
        });
      default:
        return;
    }
  }

  const TorchSnapshot &snapshot_;
  const std::string &name_;
  TraceWriter writer_;
  ImportResult result_;
  std::map<uint32_t, uint64_t> budgets_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> streams_;  ///< numbers in the trace
  LiveMap live_;
  std::set<uint32_t> told_stacks_;
  record::VmtMoment moment_;
  uint64_t first_time_ = UINT64_MAX;
};

}  // namespace

ImportResult import_trace(const TorchSnapshot &snapshot, const std::string &name, bool compressed) {
  return Importer(snapshot, name, compressed).run();
}

}  // namespace weir::tool
