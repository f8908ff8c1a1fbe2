// SPDX-License-Identifier: Apache-2.0
//
// Notes as events of the Chrome trace format. Source of the format: "Trace Event Format", the document of Chromium's trace viewer.

#include "core/trace/chrome_writer.hpp"

#include "core/base/place.hpp"
#include "core/trace/stack_text.hpp"

#include <weir/lease.h>

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace weir::trace {
namespace {

constexpr size_t most_rounds = 256;
/// Of a stack in one line, and of all that are remembered.
constexpr size_t most_frames_bytes = 2800, most_stack_bytes = size_t{16} << 20U;

uint64_t key_of(uint32_t pool_id, uint32_t index) noexcept {
  return uint64_t{pool_id} << 32 | index;
}

const char *why_name(uint8_t why) noexcept {
  constexpr std::array<const char *, 4> names{"demand", "prefetch", "plan", "background"};
  return why < names.size() ? names[why] : "?";
}

/// What of the pool's events is worth an instant; nullptr: nothing, moves tell it.
const char *event_name(const Event &event) noexcept {
  switch (event.what) {
    case What::corrupt:
      return "checksum mismatch";
    case What::device_oom:
      return "device out of memory";
    case What::evict_failed:
      return "eviction failed";
    case What::device_lost:
      return "device lost";
    case What::plan_made:
      return "plan made";
    case What::plan_ended:
      return "plan ended";
    case What::trust:
      return event.how != 0 ? "trusted" : "not trusted";
    case What::won:
      return event.amount != 0 ? "defragmented" : nullptr;
    default:
      return nullptr;
  }
}

uint8_t number_of(Place place) noexcept {
  return static_cast<uint8_t>(std::countr_zero(place.bit()));
}

}  // namespace

ChromeWriter::ChromeWriter(OwnFile file, uint64_t most_bytes, uint64_t begin_ns, Pools &pools)
    : begin_ns_(begin_ns), process_(getpid()), pools_(pools), file_(std::move(file), most_bytes) {
  (void)file_.line("[");
  line_.clear();
  line_ << R"({"ph":"M","pid":)" << process_ << R"(,"name":"process_name","args":{"name":)";
  line_.quoted(std::string("weir: ") + program_invocation_short_name) << "}}";
  put();
}

// ---- lines ----

Line &ChromeWriter::begin(const char *phase, uint64_t ns, uint32_t track, std::string_view name) {
  line_.clear();
  line_ << R"({"ph":")" << std::string_view(phase) << R"(","pid":)" << process_ << R"(,"tid":)"
        << track << R"(,"ts":)";
  line_.micros(since(ns)) << R"(,"name":)";
  return line_.quoted(name);
}

Line &ChromeWriter::slice(uint64_t from_ns, uint64_t to_ns, uint32_t track, std::string_view name) {
  begin("X", from_ns, track, name) << R"(,"dur":)";
  // Of what is seen by two threads' clocks.
  return line_.micros(since(to_ns) - std::min(since(to_ns), since(from_ns)));
}

void ChromeWriter::put() {
  line_ << ",";
  if (!line_.cut()) (void)file_.line(line_.view());
}

void ChromeWriter::instant(uint64_t ns, uint32_t track, std::string_view name,
                           std::string_view of) {
  begin("i", ns, track, name) << R"(,"s":"p","cat":"weir","args":{"of":)";
  line_.quoted(of) << "}}";
  put();
}

void ChromeWriter::name_track(uint32_t track, std::string_view name, std::string_view detail,
                              uint32_t order) {
  if (!tracks_.is_new(track)) return;
  begin("M", begin_ns_, track, "thread_name") << R"(,"args":{"name":)";
  line_.quoted(std::string(name) + std::string(detail)) << "}}";
  put();
  begin("M", begin_ns_, track, "thread_sort_index") << R"(,"args":{"sort_index":)" << order << "}}";
  put();
}

void ChromeWriter::name_stream(uint32_t stream, int32_t device, uint32_t track) {
  const std::string name = "stream " + std::to_string(stream) +
                           (device >= 0 ? " of device " + std::to_string(device) : " of the CPU");
  name_track(track, name, track == Tracks::of_device(stream) ? ", device" : "", track);
}

// ---- names ----

std::string_view ChromeWriter::buffer_name(uint32_t pool_id, uint32_t index) const {
  const auto found = buffers_.find(key_of(pool_id, index));
  return found != buffers_.end() ? std::string_view(found->second.name) : std::string_view();
}

std::string ChromeWriter::lease_name(const notes::Acquire &note) {
  if (note.operation != 0) {
    std::vector<std::string> &names = operations_[note.pool_id];
    if (names.size() < note.operation) names = pools_.operations(note.pool_id);
    if (note.operation <= names.size()) return names[note.operation - 1];
  }
  weir_use first{};
  if (note.uses_told != 0)
    std::memcpy(&first, behind(note) + note.waits * sizeof(WaitSpan), sizeof first);
  const std::string_view name =
      buffer_name(note.pool_id, static_cast<uint32_t>(reinterpret_cast<uint64_t>(first.buffer)));
  return name.empty() ? "lease" : std::string(name);
}

std::string ChromeWriter::place_name(uint32_t pool_id, uint8_t place) {
  if (place == number_of(Place::host)) return "host";
  if (place == number_of(Place::compressed)) return "compressed";
  if (place == number_of(Place::storage)) return "storage";
  if (place == notes::Move::zeros) return "zeros";
  const uint32_t device = pools_.device_at(pool_id, place);
  return device != UINT32_MAX ? "device " + std::to_string(device) : "a device that has left";
}

std::string ChromeWriter::row_of(const notes::Move &note) {
  return place_name(note.pool_id, note.from) + " \u2192 " + place_name(note.pool_id, note.to);
}

// ---- leases ----

void ChromeWriter::acquire(const notes::Acquire &note) {
  const bool granted = note.result == WEIR_SUCCESS;
  std::string name = lease_name(note);
  const uint32_t track = granted ? tracks_.take(note.lease, note.stream, note.begin_ns)
                                 : Tracks::of_thread(note.thread);
  if (track == Tracks::none) {
    ++hidden_;
    return;
  }
  if (granted)
    name_stream(note.stream, note.device, track);
  else
    name_track(track, "thread ", std::to_string(note.thread), track);
  if (granted) {
    begin("B", note.begin_ns, track, name) << R"(,"cat":"lease","args":{"pool":)";
    line_.quoted(names_[note.pool_id]) << R"(,"uses":)" << note.uses << "}}";
    put();
  }
  if (note.waits != 0 || !granted) {
    slice(note.begin_ns, note.ns, track, granted ? "acquire" : "acquire (refused)")
        << R"(,"cat":"wait","args":{"pool":)";
    line_.quoted(names_[note.pool_id]) << R"(,"of":)";
    line_.quoted(name) << R"(,"uses":)" << note.uses << R"(,"result":)" << note.result;
    std::array<uint64_t, wait_reasons> ns{};
    std::vector<WaitSpan> spans(note.waits);
    if (note.waits != 0) std::memcpy(spans.data(), behind(note), note.waits * sizeof(WaitSpan));
    for (const WaitSpan &span : spans)
      ns[static_cast<size_t>(span.why)] += span.end_ns - span.begin_ns;
    for (size_t why = 0; why < wait_reasons; ++why) {
      if (ns[why] == 0) continue;
      line_ << ",\"" << std::string_view(wait_name(static_cast<Wait>(why))) << "_us\":";
      line_.micros(ns[why]);
    }
    line_ << R"(,"waits_not_shown":)" << note.waits_lost << "}}";
    put();
    for (const WaitSpan &span : spans) {
      slice(span.begin_ns, span.end_ns, track, wait_name(span.why)) << R"(,"cat":"wait"})";
      put();
      if (span.cause == 0) continue;
      const auto key = std::pair(note.pool_id, span.cause);
      const auto round = rounds_.find(key);
      if (round != rounds_.end() && round->second.end_ns != 0)
        arrow(++numbers_, round->second, span.begin_ns, track);
      else
        rounds_[key].waited.emplace_back(span.begin_ns, track);
    }
  }
  if (granted) leases_[note.lease] = {track, note.stream, note.ns, std::move(name)};
}

void ChromeWriter::fence(const notes::Fence &note) {
  const auto found = leases_.find(note.lease);
  if (found == leases_.end() || note.result != WEIR_SUCCESS) return;
  Lease &lease = found->second;
  end_lease(note.lease, lease, note.ns);
  if (note.stamp != 0)
    works_.push_back({lease.granted_ns, note.stamp, note.stream, std::move(lease.name)});
  leases_.erase(found);
}

void ChromeWriter::end_lease(uint64_t lease, const Lease &of, uint64_t ns) {
  begin("E", ns, of.track, of.name) << "}";
  put();
  tracks_.give(lease, of.stream, ns);
}

void ChromeWriter::end_leases(uint64_t ns) {
  for (const auto &[lease, of] : leases_) end_lease(lease, of, ns);
  leases_.clear();
}

/// False: the device is not done with it.
bool ChromeWriter::end_work(const Work &work) {
  if (!pools_.passed(work.stamp)) return false;
  show_work(work, steady_ns());
  return true;
}

void ChromeWriter::show_work(const Work &work, uint64_t end_ns) {
  uint64_t &free_ns = device_free_ns_[work.stream];
  const uint32_t track = Tracks::of_device(work.stream);
  name_track(track, "stream " + std::to_string(work.stream), ", device", track);
  slice(std::max(free_ns, work.granted_ns), end_ns, track, work.name) << R"(,"cat":"work"})";
  put();
  free_ns = end_ns;
}

// ---- pages ----

void ChromeWriter::evictions(const notes::Evictions &note) {
  const uint32_t track = Tracks::of_thread(note.thread);
  name_track(track, "thread ", std::to_string(note.thread), track);
  slice(note.begin_ns, note.ns, track, "evict from device " + std::to_string(note.device))
      << R"(,"cat":"evict","args":{"pool":)";
  line_.quoted(names_[note.pool_id])
      << R"(,"pages":)" << note.pages << R"(,"freed_bytes":)" << note.freed << R"(,"background":)"
      << (note.background ? 1 : 0) << "}}";
  put();
  Round &round = rounds_[{note.pool_id, note.number}];
  round.begin_ns = note.begin_ns;
  round.end_ns = note.ns;
  round.track = track;
  for (const auto &[since_ns, of] : round.waited) arrow(++numbers_, round, since_ns, of);
  round.waited.clear();
  // Of each pool the last ones: each has numbers of its own.
  for (auto first = rounds_.lower_bound({note.pool_id, 0});
       first->first.second + most_rounds < note.number;)
    first = rounds_.erase(first);
}

void ChromeWriter::arrow(uint64_t number, const Round &round, uint64_t since_ns, uint32_t track) {
  begin("s", since_ns, track, "waits for") << R"(,"cat":"flow","id":)" << number << "}";
  put();
  const uint64_t to_ns = std::clamp(since_ns, round.begin_ns, round.end_ns);
  begin("f", to_ns, round.track, "waits for") << R"(,"cat":"flow","bp":"e","id":)" << number << "}";
  put();
}

void ChromeWriter::move(const notes::Move &note) {
  const std::string row = row_of(note);
  const uint64_t number = ++numbers_;
  begin("b", note.begin_ns, 0, row) << R"(,"cat":"move","id":)" << number << R"(,"args":{"pool":)";
  line_.quoted(names_[note.pool_id]) << R"(,"buffer":)";
  line_.quoted(note.owner != UINT32_MAX ? buffer_name(note.pool_id, note.owner) : "(several)")
      << R"(,"bytes":)" << note.moved_bytes << R"(,"first_page":)" << note.first
      << R"(,"last_page":)" << note.last << R"(,"why":")" << std::string_view(why_name(note.why))
      << "\"";
  if (const auto known = buffers_.find(key_of(note.pool_id, note.owner)); known != buffers_.end())
    put_stack(known->second.stack, false);
  line_ << "}}";
  put();
  if (note.end_ns == 0) {
    coming_.push_back({number, note.stamp, row});
    return;
  }
  begin("e", note.end_ns, 0, row) << R"(,"cat":"move","id":)" << number << "}";
  put();
}

void ChromeWriter::told(const notes::Told &note) {
  const char *const name = event_name(note.what);
  if (name == nullptr) return;
  const uint32_t track = Tracks::of_thread(note.thread);
  name_track(track, "thread ", std::to_string(note.thread), track);
  instant(note.ns, track, name, names_[note.pool_id]);
}

void ChromeWriter::pool(const notes::Pool &note) {
  names_[note.pool_id] = note.name;
  // What an earlier pool with its number had.
  operations_.erase(note.pool_id);
  std::erase_if(buffers_, [&note](const auto &each) { return each.first >> 32 == note.pool_id; });
}

// ---- buffers, and by which calls they were made ----

void ChromeWriter::buffer(const notes::Buffer &note) {
  const uint64_t key = key_of(note.pool_id, static_cast<uint32_t>(note.buffer));
  const std::string_view name(reinterpret_cast<const char *>(behind(note)), note.name_bytes);
  const auto found = buffers_.find(key);
  // A new name leaves the stack as it is.
  const uint32_t stack =
      note.stack == 0 && found != buffers_.end() && found->second.handle == note.buffer
          ? found->second.stack
          : note.stack;
  if (name.empty() && stack == 0)
    buffers_.erase(key);
  else
    buffers_[key] = {note.buffer, stack, std::string(name)};
  if (note.made)
    made(note, "create " + (name.empty() ? "a buffer" : std::string(name)), "buffer", note.size,
         note.pool_id, stack);
}

/// Where its stack is known: by which calls.
void ChromeWriter::made(const Note &note, const std::string &what, std::string_view category,
                        uint64_t bytes, uint32_t pool_id, uint32_t stack) {
  if (stack == 0) return;
  const uint32_t track = Tracks::of_thread(note.thread);
  name_track(track, "thread ", std::to_string(note.thread), track);
  begin("i", note.ns, track, what)
      << R"(,"s":"t","cat":")" << category << R"(","args":{"bytes":)" << bytes << R"(,"pool":)";
  line_.quoted(names_[pool_id]);
  put_stack(stack, true);
  line_ << "}}";
  put();
}

void ChromeWriter::stack(const notes::Stack &note) {
  if (stacks_.find(note.number) != stacks_.end() || stack_bytes_ >= most_stack_bytes) return;
  std::string frames;
  each_frame({reinterpret_cast<const char *>(behind(note)), note.text_bytes},
             [&frames](const StackFrame &of) {
               Line frame;
               frame.quoted(of.line);
               if (frames.size() + frame.view().size() > most_frames_bytes) return;
               frames += frames.empty() ? "[" : ",";
               frames += frame.view();
             });
  if (frames.empty()) return;
  stack_bytes_ += frames.size();
  stacks_.emplace(note.number, frames + "]");
}

void ChromeWriter::put_stack(uint32_t stack, bool with_frames) {
  if (stack == 0) return;
  line_ << R"(,"stack":)" << stack;
  if (!with_frames) return;
  constexpr std::string_view key = R"(,"frames":)";
  const auto found = stacks_.find(stack);
  if (found == stacks_.end() || found->second.size() + key.size() + 8 > line_.room()) return;
  line_ << key << found->second;
}

void ChromeWriter::take(const Note &note) {
  if (note.after_loss != 0) end_leases(note.ns);
  switch (note.kind) {
    case notes::pool:
      pool(as<notes::Pool>(note));
      break;
    case notes::acquire:
      acquire(as<notes::Acquire>(note));
      break;
    case notes::fence:
      fence(as<notes::Fence>(note));
      break;
    case notes::buffer:
      buffer(as<notes::Buffer>(note));
      break;
    case notes::allocate: {
      const auto &of = as<notes::Allocation>(note);
      made(of, "weir_malloc", "malloc", of.size, of.pool_id, of.stack);
      break;
    }
    case notes::stack:
      stack(as<notes::Stack>(note));
      break;
    case notes::buffer_end: {
      const auto &buffer = as<notes::Buffer>(note);
      const auto found =
          buffers_.find(key_of(buffer.pool_id, static_cast<uint32_t>(buffer.buffer)));
      // Its index may be another's by now.
      if (found != buffers_.end() && found->second.handle == buffer.buffer) buffers_.erase(found);
      break;
    }
    case notes::refusal: {
      const auto &refusal = as<notes::Refusal>(note);
      name_track(note.thread, "thread ", std::to_string(note.thread), note.thread);
      instant(note.ns, note.thread, weir_result_string(refusal.result), names_[refusal.pool_id]);
      break;
    }
    case notes::round:
      evictions(as<notes::Evictions>(note));
      break;
    case notes::stretch: {
      const auto &work = as<notes::Work>(note);
      tracks_.found_worker(note.thread);
      name_track(note.thread, "weir: ", work.what, note.thread);
      slice(work.begin_ns, note.ns, note.thread, work.what) << R"(,"cat":"background"})";
      put();
      break;
    }
    case notes::move:
      move(as<notes::Move>(note));
      break;
    case notes::event:
      told(as<notes::Told>(note));
      break;
    default:
      break;
  }
}

void ChromeWriter::take(const Sample &sample) {
  Sample &last = samples_[sample.pool_id];
  const std::string &pool = names_[sample.pool_id];
  for (size_t i = 0; i < sample.tiers.size(); ++i) {
    const Sample::Tier &tier = sample.tiers[i];
    if (i < last.tiers.size() && last.tiers[i].used == tier.used &&
        last.tiers[i].budget == tier.budget)
      continue;
    std::string name = tier.name;
    if (tier.device != UINT32_MAX) name += ' ' + std::to_string(tier.device);
    begin("C", sample.ns, 0, name + " of " + pool)
        << R"(,"args":{"used":)" << tier.used << R"(,"budget":)" << tier.budget << "}}";
    put();
  }
  const uint64_t came = sample.promoted_bytes - last.promoted_bytes;
  const uint64_t back = sample.refaulted_bytes - last.refaulted_bytes;
  if (came != 0 || back != 0) {
    begin("C", sample.ns, 0, "refault percent of " + pool)
        << R"(,"args":{"percent":)"
        << (came != 0 ? std::min<uint64_t>(100, 100 * back / came) : 100) << "}}";
    put();
  }
  last = sample;
}

bool ChromeWriter::poll() {
  std::erase_if(coming_, [this](const Coming &each) {
    if (!pools_.passed(each.stamp)) return false;
    begin("e", steady_ns(), 0, each.row) << R"(,"cat":"move","id":)" << each.number << "}";
    put();
    return true;
  });
  // A stream's work ends in its order, and streams don't wait for each other.
  std::set<uint32_t> waiting;
  std::erase_if(works_, [&](Work &each) {
    if (waiting.count(each.stream) != 0) return false;
    if (end_work(each)) return true;
    waiting.insert(each.stream);
    return false;
  });
  (void)file_.flush();
  return !coming_.empty() || !works_.empty();
}

void ChromeWriter::finish(uint64_t lost) {
  (void)poll();
  const uint64_t now = steady_ns();
  end_leases(now);
  for (const Work &each : works_) show_work(each, now);  // under way still
  for (const Coming &each : coming_) {
    begin("e", now, 0, each.row) << R"(,"cat":"move","id":)" << each.number << "}";
    put();
  }
  begin("i", now, 0, ended() != nullptr ? "the trace ended early" : "the trace ended")
      << R"(,"s":"g","cat":"weir","args":{"lost_notes":)" << lost << R"(,"leases_not_shown":)"
      << hidden_ << "}}]";
  (void)file_.finish(line_.view());
}

const char *ChromeWriter::ended() const noexcept {
  if (file_.full()) return "it has come to its size";
  return file_.error() != 0 ? strerrordesc_np(file_.error()) : nullptr;
}

}  // namespace weir::trace
