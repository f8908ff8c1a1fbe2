// SPDX-License-Identifier: Apache-2.0
//
// Notes as lines of version 2.

#include "core/trace/vmt_writer.hpp"

#include "core/trace/stack_text.hpp"

#include <weir/lease.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

namespace weir::trace {
namespace {

/// What of a recording may be lost when its process is killed.
constexpr uint64_t flush_every_ns = 50'000'000;

}  // namespace

VmtWriter::VmtWriter(OwnFile file, uint64_t most_bytes, bool compressed, std::string_view head,
                     uint64_t begin_ns, Pools &pools)
    : begin_ns_(begin_ns),
      pools_(pools),
      file_(std::move(file), most_bytes, compressed),
      memory_(4 * record::vmt_longest_line),
      lines_(memory_.data(), memory_.size()) {
  file_.add(head);
  file_.flush();
}

void VmtWriter::write() {
  file_.add(lines_.text());
  lines_.clear();
}

void VmtWriter::moment(const Note &note) {
  const uint64_t since_ns = note.ns > begin_ns_ ? note.ns - begin_ns_ : 0;
  (void)moment_.at(lines_, note.thread, since_ns / 1000);
}

void VmtWriter::have_stream(uint32_t stream, int32_t device) {
  const auto found = streams_.find(stream);
  if (found != streams_.end()) {
    if (found->second == device) return;
    (void)lines_.ends(record::VmtThing::stream, stream);  // its number is another's now
  }
  streams_[stream] = device;
  (void)lines_.stream(stream, 0, device >= 0 ? static_cast<uint64_t>(device) : WEIR_DEVICE_HOST,
                      false);
}

bool VmtWriter::have_operation(uint32_t pool_id, uint32_t operation) {
  size_t &known = operations_[pool_id];
  if (operation <= known) return true;
  const std::vector<std::string> names = pools_.operations(pool_id);
  for (; known < names.size(); ++known) {
    (void)lines_.operation_name(pool_id, known + 1, names[known]);
    write();
  }
  return operation <= known;
}

void VmtWriter::acquire(const notes::Acquire &note) {
  if (note.uses_told != note.uses) return;  // from before the recording
  have_stream(note.stream, note.device);
  record::VmtAcquire line;
  line.lease = note.lease;
  line.pool = note.pool_id;
  line.stream = note.stream;
  if (note.operation != 0 && have_operation(note.pool_id, note.operation))
    line.operation.number = note.operation;
  line.uses = note.uses;
  line.timeout_ns = note.timeout_ns;
  // An acquire without a deadline needs the flag.
  if (note.timeout_ns == WEIR_INFINITE) line.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  line.async = note.async;
  line.waited_us = (note.ns - std::min(note.ns, note.begin_ns)) / 1000;
  if (note.result == WEIR_SUCCESS) {
    granted_[note.lease] = note.ns;
    still_out_.erase(note.lease);
    (void)lines_.acquire(line);
  } else {
    (void)lines_.refused(line, note.result);
  }
  const std::byte *at = behind(note) + note.waits * sizeof(WaitSpan);
  for (uint32_t i = 0; i < note.uses; ++i, at += sizeof(weir_use)) {
    weir_use use;
    std::memcpy(&use, at, sizeof use);
    const record::VmtUse told{reinterpret_cast<uint64_t>(use.buffer), use.offset, use.length,
                              use.mode, use.flags};
    if (lines_.use(told)) continue;
    write();
    (void)lines_.use(told);
  }
}

void VmtWriter::release(const notes::Release &note) {
  if (granted_.find(note.lease) == granted_.end() || still_out_.count(note.lease) != 0) return;
  (void)lines_.release(note.lease, note.stream);
}

void VmtWriter::fence(const notes::Fence &note) {
  const auto found = granted_.find(note.lease);
  if (found == granted_.end()) return;
  if (note.result != WEIR_SUCCESS) {
    still_out_.insert(note.lease);
    return;
  }
  if (note.stamp != 0)
    works_.push_back({.lease = note.lease,
                      .granted_ns = found->second,
                      .stamp = note.stamp,
                      .stream = note.stream,
                      .thread = note.thread});
  granted_.erase(found);
}

/// What another thread released meanwhile, the wait need not have been for.
void VmtWriter::synchronize(const notes::Synchronize &note) {
  for (Work &work : works_)
    if (work.stream == note.stream && work.thread == note.thread)
      work.latest_ns = std::min(work.latest_ns, note.ns);
  if (streams_.find(note.stream) == streams_.end()) return;  // of a stream without leases
  moment(note);
  (void)lines_.synchronize(note.stream);
}

void VmtWriter::allocation(const notes::Allocation &note) {
  const uint64_t stream = note.stream != UINT32_MAX ? note.stream : record::vmt_none;
  if (note.stream != UINT32_MAX) have_stream(note.stream, static_cast<int32_t>(note.stream_device));
  if (note.kind == notes::allocate) {
    allocations_.insert(note.address);
    (void)lines_.allocate(note.address, note.pool_id, note.device, stream, note.size, {},
                          note.stack);
  } else if (allocations_.erase(note.address) != 0) {  // else the call fails, or has failed
    (void)lines_.free(note.address, stream);
  }
}

/// The outermost first. What is of no file can't be found again: it keeps its place as a text.
void VmtWriter::stack(const notes::Stack &note) {
  std::string frames;
  trace::each_frame(
      {reinterpret_cast<const char *>(behind(note)), note.text_bytes}, [&](const StackFrame &of) {
        std::string frame;
        if (of.path.empty()) {
          frame = of.line;
        } else {
          const auto [found, fresh] = modules_.try_emplace(
              std::string(of.path) + '\n' + std::string(of.build_id), modules_.size());
          if (fresh) {
            (void)lines_.module(found->second, of.path, of.build_id);
            write();
          }
          frame = '@' + std::to_string(found->second) + '+' + std::to_string(of.offset);
          if (!of.function.empty()) frame += ':' + std::string(of.function);
        }
        std::replace(frame.begin(), frame.end(), ';', ',');
        frames = frames.empty() ? frame : frame + ';' + frames;
      });
  if (!frames.empty()) (void)lines_.stack(note.number, frames);
}

void VmtWriter::take(const Note &note) {
  lines_.clear();  // of a note for which there was no memory
  if (note.after_loss != 0) (void)lines_.lost(1);
  switch (note.kind) {
    case notes::acquire:
      moment(note);
      acquire(as<notes::Acquire>(note));
      break;
    case notes::release:
      moment(note);
      release(as<notes::Release>(note));
      break;
    case notes::fence:
      fence(as<notes::Fence>(note));
      break;
    case notes::allocate:
    case notes::free:
      moment(note);
      allocation(as<notes::Allocation>(note));
      break;
    case notes::stack:
      stack(as<notes::Stack>(note));
      break;
    case notes::pool:
      operations_.erase(as<notes::Pool>(note).pool_id);
      return;
    case notes::stream: {
      const auto &used = as<notes::StreamUsed>(note);
      have_stream(used.slot, used.device);
      break;
    }
    case notes::synchronize:
      synchronize(as<notes::Synchronize>(note));
      break;
    case notes::text: {
      const auto &text = as<notes::Text>(note);
      moment(note);
      write();
      file_.add({reinterpret_cast<const char *>(behind(text)), text.text_bytes});
      return;
    }
    default:
      return;
  }
  write();
}

bool VmtWriter::poll() {
  const uint64_t now = steady_ns();
  std::set<uint32_t> waiting;
  std::erase_if(works_, [&](const Work &work) {
    if (waiting.count(work.stream) != 0 || !pools_.passed(work.stamp)) {
      waiting.insert(work.stream);
      return false;
    }
    uint64_t &free_ns = device_free_ns_[work.stream];
    const uint64_t begin_ns = std::max(free_ns, work.granted_ns);
    const uint64_t end_ns = std::max(begin_ns, std::min(now, work.latest_ns));
    (void)lines_.kernel(work.lease, end_ns - begin_ns);
    write();
    free_ns = end_ns;
    return true;
  });
  if (now - flushed_ns_ >= flush_every_ns) {
    file_.flush();
    flushed_ns_ = now;
  }
  return !works_.empty();
}

void VmtWriter::finish(uint64_t lost) {
  (void)poll();
  if (lost != 0) (void)lines_.lost(lost);
  if (!file_.full()) (void)lines_.end();
  write();
  file_.finish();
}

const char *VmtWriter::ended() const noexcept {
  if (file_.full()) return "it has come to its size";
  return file_.error() != 0 ? strerrordesc_np(file_.error()) : nullptr;
}

}  // namespace weir::trace
