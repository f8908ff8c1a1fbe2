// SPDX-License-Identifier: Apache-2.0
//
// Starting and stopping traces, and the thread in between.

#include "core/pool/tracer.hpp"

#include "core/base/environment.hpp"
#include "core/base/own_file.hpp"
#include "core/base/signals.hpp"
#include "core/pool/context.hpp"
#include "core/pool/pool.hpp"
#include "core/pool/recorded_calls.hpp"
#include "core/trace/chrome_writer.hpp"
#include "core/trace/vmt_writer.hpp"

#include <weir/observe.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace weir::pool {
namespace {

constexpr size_t ring_bytes = size_t{4} << 20U;
constexpr uint64_t usual_bytes = uint64_t{1} << 30U, least_bytes = uint64_t{64} << 10U;
/// Between looks at the tape and at fences: what a kernel takes is known to the rest. It grows while nothing happens.
constexpr std::chrono::microseconds short_rest{250}, long_rest{4000};
constexpr uint64_t sample_every_ns = 10'000'000;
/// Notes taken before others have a turn.
constexpr size_t most_at_once = 16384;

/// WEIR_TRACE_BYTES; 0: as usual.
uint64_t wished_bytes(const Log &log) {
  const char *const text = secure_getenv("WEIR_TRACE_BYTES");
  if (text == nullptr || text[0] == '\0') return 0;
  const std::optional<uint64_t> bytes = read_size(text);
  if (!bytes.has_value()) {
    log(WEIR_LOG_WARNING,
        "WEIR_TRACE_BYTES is%s, and not read: it is a number of bytes, or one with K, M, G or T",
        QuotedName(text).c_str());
    return 0;
  }
  if (*bytes == 0 || *bytes >= least_bytes) return *bytes;
  log(WEIR_LOG_WARNING, "WEIR_TRACE_BYTES is%s, less than a trace has at least: %llu are taken",
      QuotedName(text).c_str(), llu(least_bytes));
  return least_bytes;
}

/// Where a number goes into a file's name.
size_t ending_of(const std::string &path) noexcept {
  const size_t slash = path.rfind('/');
  const size_t from = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = path.find('.', from + 1);
  return dot == std::string::npos ? path.size() : dot;
}

}  // namespace

/// What a pool's events say, on the tape.
class Tracer::EventNotes final : public EventListener {
 public:
  EventNotes(Pool &of, Tape &tape) noexcept
      : EventListener(bit_of(What::corrupt) | bit_of(What::device_oom) |
                      bit_of(What::evict_failed) | bit_of(What::device_lost) |
                      bit_of(What::plan_made) | bit_of(What::plan_ended) | bit_of(What::trust) |
                      bit_of(What::won)),
        pool(of),
        tape_(tape) {}
  void put(const Event &event) noexcept override {
    if ((tape_.wanted() & notes::timeline) == 0) return;
    notes::Told note;
    note.what = event;
    note.pool_id = pool.id();
    notes::put(tape_, notes::event, &note);
  }

  Pool &pool;

 private:
  Tape &tape_;
};

Tracer::Tracer(Context &context) : context_(context), tape_(ring_bytes, context.memory()) {}

Tracer::~Tracer() { finish(); }

// ---- start and stop ----

Status Tracer::make_writer(const Wish &wish, Trace *trace) {
  const std::string path = expand_process(wish.path);
  const size_t ending = ending_of(path);
  const bool recording = wish.kind == WEIR_TRACE_RECORDING;
  const std::string head = recording ? recorded::head(context_) : std::string();
  const uint64_t most_bytes = wish.most_bytes != 0 ? wish.most_bytes : usual_bytes;
  trace::Pools &pools = *this;
  OwnFile file(create_own_file(std::string_view(path).substr(0, ending),
                               std::string_view(path).substr(ending), wish.numbered, &trace->path));
  if (file.number() < 0)
    return fail(WEIR_ERROR_IO, {.native = errno}, "cannot create the trace's file '%s': %s",
                path.c_str(), strerrordesc_np(errno));
  if (recording)
    trace->writer = std::make_unique<trace::VmtWriter>(
        std::move(file), most_bytes, path.ends_with(".zst"), head, steady_ns(), pools);
  else
    trace->writer =
        std::make_unique<trace::ChromeWriter>(std::move(file), most_bytes, steady_ns(), pools);
  return {};
}

Status Tracer::check(const Wish &wish) {
  if (wish.most_bytes != 0 && wish.most_bytes < least_bytes)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "max_bytes is %llu, less than %llu",
                llu(wish.most_bytes), llu(least_bytes));
  // What pools have by then (clients, holds, leases) could not be told in full, and a replay refuses what it does not know.
  if (wish.kind == WEIR_TRACE_RECORDING && context_.any_pool([](Pool &) { return true; }))
    return fail(WEIR_ERROR_BUSY, "a recording begins before the context's first pool is made");
  return {};
}

Status Tracer::start(const Wish &wish) {
  std::string untold;
  const Status status = start(wish, &untold);
  log_ends(untold);
  return status;
}

Status Tracer::start(const Wish &wish, std::string *untold) {
  const Guard turn(turn_);
  WEIR_TRY(check(wish));
  if (!thread_.joinable()) {
    {
      const Guard hold(mutex_);
      stopping_ = false;
    }
    WEIR_TRY(start_thread(&thread_, "the trace's thread", [this] { run(); }));
  }
  {
    const Guard hold(mutex_);
    Trace &trace = traces_[wish.kind];
    if (trace.writes())
      return fail(WEIR_ERROR_BUSY, "a trace of that kind runs already, to '%s'",
                  trace.path.c_str());
    Trace fresh;
    WEIR_TRY(make_writer(wish, &fresh));
    if (any()) {
      (void)drain_all();  // what was told before is not for it
    } else {
      tape_.clear();
      unwritten_ = 0;
    }
    if (trace.open()) *untold = end(trace);
    trace = std::move(fresh);
    want();
    // After want(): a thread that has read what is wanted before may not put its stack on the tape.
    if (Stacks *const stacks = context_.stacks(); stacks != nullptr) stacks->tell_again();
  }
  changed_.notify_all();
  (void)context_.any_pool([this](Pool &pool) {
    attach(pool);
    return false;
  });
  return {};
}

size_t Tracer::drain_all() {
  size_t all = 0, count = 0;
  constexpr int most_turns = 64;  // others may go on
  for (int i = 0; i < most_turns && (count = drain()) != 0; ++i) all += count;
  return all;
}

/// Whether none but that kind runs.
bool Tracer::only(uint32_t kind) const noexcept {
  for (size_t other = 0; other < kinds; ++other)
    if (other != kind && traces_[other].open()) return false;
  return true;
}

Status Tracer::stop(uint32_t kind) {
  if (std::this_thread::get_id() == thread_id_.load())
    return fail(WEIR_ERROR_BUSY, "not from within a line of the trace's log");
  std::string untold;
  const Status status = stop(kind, &untold);
  log_ends(untold);
  return status;
}

Status Tracer::stop(uint32_t kind, std::string *untold) {
  const Guard turn(turn_);
  bool last = false;
  {
    const Guard hold(mutex_);
    if (traces_[kind].writer == nullptr)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "no trace of kind %u has been started", kind);
    last = stopping_ = only(kind);
  }
  if (last) {
    (void)context_.any_pool([this](Pool &pool) {
      detach(pool);
      return false;
    });
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  const Guard hold(mutex_);
  if (last) tape_.skip_gaps();  // whoever still writes a note has come too late
  (void)drain_all();
  Trace &trace = traces_[kind];
  if (trace.open()) {
    (void)if_memory([this]() WEIR_REQUIRES(mutex_) { sample(); });
    *untold = end(trace);
  }
  const char *const early = trace.writer->ended();
  const std::string why = early != nullptr ? early : "", path = trace.path;
  trace = Trace{};
  want();
  if (why.empty()) return {};
  return fail(WEIR_ERROR_IO, "the trace '%s' is not whole: %s", path.c_str(), why.c_str());
}

std::string Tracer::end(Trace &trace) {
  const bool written =
      if_memory([&]() WEIR_REQUIRES(mutex_) { trace.writer->finish(tape_.lost() + unwritten_); });
  if (!written) ++unwritten_;
  trace.told = true;
  const char *const why = trace.writer->ended();
  return why != nullptr ? "the trace '" + trace.path + "' ends here: " + why + '\n' : std::string();
}

void Tracer::log_ends(const std::string &lines) const noexcept {
  if (!lines.empty())
    context_.log()(WEIR_LOG_WARNING, "%.*s", static_cast<int>(lines.size() - 1), lines.c_str());
}

void Tracer::finish() noexcept {
  const KeepError keep;
  for (uint32_t kind = 0; kind < kinds; ++kind) (void)if_memory([&] { (void)stop(kind); });
  // None runs any more, but the thread may rest.
  const Guard turn(turn_);
  {
    const Guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string Tracer::end_with_process() noexcept {
  if (std::this_thread::get_id() == thread_id_.load()) return {};
  exiting_.store(true);
  const Guard hold(mutex_);
  return end_all();
}

std::string Tracer::end_all() noexcept {
  std::string untold;
  try {
    tape_.skip_gaps();
    (void)drain_all();
    for (Trace &trace : traces_)
      if (trace.open()) untold += end(trace);
    want();
  } catch (...) {  // the process ends as it would have
  }
  return untold;
}

void Tracer::start_wished() noexcept {
  constexpr std::array<const char *, kinds> variables{"WEIR_TRACE", "WEIR_RECORD"};
  const KeepError keep;
  for (uint32_t kind = 0; kind < kinds; ++kind) {
    const char *const path = secure_getenv(variables[kind]);
    if (path == nullptr || path[0] == '\0') continue;
    (void)if_memory([&] {
      Wish wish{.kind = kind, .path = path, .numbered = true};
      wish.most_bytes = wished_bytes(context_.log());
      if (!start(wish)) {
        context_.log()(WEIR_LOG_WARNING, "%s: no trace: %s", variables[kind], last_error().text);
        return;
      }
      std::string file;
      {
        const Guard hold(mutex_);
        file = traces_[kind].path;
      }
      context_.log()(WEIR_LOG_INFO, "%s: '%s' is written", variables[kind], file.c_str());
    });
  }
}

bool Tracer::any() const noexcept {
  return std::any_of(traces_.begin(), traces_.end(),
                     [](const Trace &trace) { return trace.open(); });
}

void Tracer::want() noexcept {
  uint32_t wanted = 0;
  for (const Trace &trace : traces_)
    if (trace.open()) wanted |= trace.writer->wants();
  tape_.want(wanted);
}

// ---- pools ----

void Tracer::add(Pool &pool) noexcept {
  const Guard turn(turn_);
  const uint32_t wanted = tape_.wanted();
  // Nobody has the pool's handle yet, so nothing of it has been told.
  if ((wanted & notes::recording) != 0) (void)if_memory([&] { recorded::pool(pool, &tape_); });
  if (wanted != 0) attach(pool);
}

void Tracer::remove(Pool &pool) noexcept {
  const Guard turn(turn_);
  detach(pool);
}

void Tracer::attach(Pool &pool) noexcept {
  notes::Pool note;
  note.pool_id = pool.id();
  std::strncpy(note.name, pool.name(), sizeof note.name - 1);
  notes::put(tape_, notes::pool, &note);
  if ((tape_.wanted() & notes::timeline) != 0) (void)if_memory([&] { tell_buffers(pool); });
  const auto is_of = [&pool](const EventNotes &each) { return &each.pool == &pool; };
  if (std::none_of(listeners_.begin(), listeners_.end(), is_of))
    (void)if_memory([&] {
      EventNotes &events = listeners_.emplace_back(pool, tape_);
      if (!pool.engine().listen(&events)) listeners_.pop_back();  // the trace has no events then
    });
  pool.engine().tap.set(&tape_);
}

void Tracer::detach(Pool &pool) noexcept {
  pool.engine().tap.set(nullptr);
  for (auto each = listeners_.begin(); each != listeners_.end(); ++each) {
    if (&each->pool != &pool) continue;
    pool.engine().ignore(&*each);
    listeners_.erase(each);
    break;
  }
}

/// Those that are there already and have names, or stacks.
void Tracer::tell_buffers(Pool &pool) {
  const uint64_t before = steady_ns();
  pool.engine().inspector().for_each_buffer([&](const BufferSight &sight) {
    if (sight.name.empty() && sight.stack == 0) return;
    notes::Buffer note;
    note.ns = before;
    note.stack = sight.stack;
    note.buffer = reinterpret_cast<uint64_t>(sight.buffer);
    note.pool_id = pool.id();
    note.name_bytes = static_cast<uint32_t>(sight.name.size());
    notes::put(tape_, notes::buffer, &note, {std::as_bytes(std::span(sight.name))});
  });
}

// ---- the thread ----

size_t Tracer::drain() {
  size_t count = 0;
  for (const Note *note = nullptr; count < most_at_once && (note = tape_.next()) != nullptr;
       ++count) {
    const bool taken = if_memory([&]() WEIR_REQUIRES(mutex_) {
      for (Trace &trace : traces_)
        if (trace.writes()) trace.writer->take(*note);
    });
    unwritten_ += taken ? 0 : 1;
    tape_.take();
  }
  return count;
}

std::string Tracer::ended_early() {
  std::string text;
  for (Trace &trace : traces_) {
    if (!trace.open()) continue;
    if (trace.writer->ended() != nullptr) text += end(trace);
  }
  if (!text.empty()) want();
  return text;
}

void Tracer::run() {
  thread_id_.store(std::this_thread::get_id());
  uint64_t sampled_ns = 0;
  std::chrono::microseconds rest = short_rest;
  for (bool ends = false; !ends;) {
    std::string early;
    {
      Guard hold(mutex_);
      bool busy = false;
      (void)if_memory([&]() WEIR_REQUIRES(mutex_) {
        busy = drain() != 0;
        if (const uint64_t now = steady_ns();
            now - sampled_ns >= sample_every_ns && any() && !exiting_.load()) {
          sample();
          sampled_ns = now;
        }
        for (Trace &trace : traces_)
          if (trace.writes()) busy = trace.writer->poll() || busy;
      });
      (void)if_memory([&]() WEIR_REQUIRES(mutex_) { early = ended_early(); });
      ends = stopping_;
      rest = busy ? short_rest : std::min(2 * rest, long_rest);
      if (!ends && early.empty()) {
        if (any())
          changed_.wait_for(hold, rest);
        else
          changed_.wait(hold);  // for the next trace, or the end
      }
      ends = stopping_;
    }
    log_ends(early);
  }
}

void Tracer::sample() {
  std::vector<trace::Sample> samples;
  (void)context_.try_any_pool([&samples](Pool &pool) {
    trace::Sample &sample = samples.emplace_back();
    sample.pool_id = pool.id();
    sample.ns = steady_ns();
    const Inspector inspector = pool.engine().inspector();
    inspector.for_each_device([&sample](const weir_pool_device_stats &of) {
      sample.tiers.push_back({of.device, "device", of.bytes - of.free_bytes, of.budget});
    });
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    inspector.stats(&stats);
    sample.tiers.push_back({UINT32_MAX, "host", stats.host_bytes, stats.host_budget});
    sample.tiers.push_back(
        {UINT32_MAX, "compressed", stats.compressed_bytes, stats.compressed_budget});
    sample.tiers.push_back({UINT32_MAX, "storage", stats.storage_bytes, stats.storage_budget});
    sample.promoted_bytes = stats.promoted_bytes;
    sample.refaulted_bytes = stats.refaulted_bytes;
    return false;
  });
  for (const trace::Sample &sample : samples)
    for (Trace &trace : traces_)
      if (trace.writes()) trace.writer->take(sample);
}

std::vector<std::string> Tracer::operations(uint32_t pool_id) {
  std::vector<std::string> names;
  (void)context_.try_any_pool([&](Pool &pool) {
    if (pool.id() != pool_id) return false;
    for (const std::string_view name : pool.engine().operation_names().all())
      names.emplace_back(name);
    return true;
  });
  return names;
}

uint32_t Tracer::device_at(uint32_t pool_id, uint8_t place) {
  uint32_t device = UINT32_MAX;
  (void)context_.try_any_pool([&](Pool &pool) {
    if (pool.id() != pool_id) return false;
    device = pool.engine().inspector().device_at(place);
    return true;
  });
  return device;
}

bool Tracer::passed(uint64_t stamp) {
  // As the process ends the runtimes may have ended before.
  return !exiting_.load() && context_.streams().passed(backend::Stamp{stamp});
}

}  // namespace weir::pool
