// SPDX-License-Identifier: Apache-2.0
//
// Several states at once: with options of their own, logs of their own, and texts of their own; and stopped by any thread. What is
// left to stop() is made by calls, not by fixtures, which would end it themselves. Measures of what is left are taken alone.
#include "conformance/process.hpp"
#include "conformance/registered.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <thread>

namespace weir::conformance {
namespace {

// ---- what states say of the machine

/// The run's options, none, and the run's with one left out. A backend need not start with all of them.
std::vector<std::string> options_of_states(const Test &t) {
  std::vector<std::string> pieces, all{t.settings.options};
  std::string rest = t.settings.options;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    pieces.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  for (size_t left_out = 0; left_out < pieces.size() && left_out < 6; ++left_out) {
    std::string text;
    for (size_t i = 0; i < pieces.size(); ++i)
      if (i != left_out) text += (text.empty() ? "" : ";") + pieces[i];
    all.push_back(text);
  }
  if (!t.settings.options.empty()) all.emplace_back();
  return all;
}

/// All that a state says of its devices and links, byte by byte.
Outcome said_by(Session &session, std::vector<uint8_t> *said) {
  said->clear();
  const auto add = [said](const auto &what) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(&what);
    said->insert(said->end(), bytes, bytes + sizeof what);
  };
  uint32_t count = 0;
  MUST_IN(session, device_count, &count);
  add(count);
  for (uint32_t i = 0; i < count; ++i) {
    weir_be_device about{};
    about.struct_size = sizeof about;
    uint64_t free_bytes = 0, total = 0;
    MUST_IN(session, device_describe, i, &about);
    MUST_IN(session, device_memory, i, &free_bytes, &total);
    add(about);
    add(total);
    weir_be_link link{};
    link.struct_size = sizeof link;
    MUST_IN(session, link_describe, i, WEIR_DEVICE_HOST, &link);
    add(link);
    MUST_IN(session, link_describe, i, (i + 1) % count, &link);
    add(link);
  }
  return {};
}

/// The last device of a state is there to be used, and none behind it.
Outcome uses_last_device(Session &session) {
  uint32_t count = 0;
  uint64_t address = 0;
  MUST_IN(session, device_count, &count);
  Plain plain(session, count - 1);
  Mover mover(session, count - 1);
  TRY(plain.allocate(4 * kib));
  TRY(mover.make(4 * kib));
  TRY(mover.write(plain.address(), 4 * kib, 1));
  TRY(mover.check(plain.address(), 4 * kib, 1));
  EXPECT_IN(session, invalid(), plain_allocate, count, 4 * kib, 4096, &address);
  return {};
}

REQUIRE("DV-027", always(),
        "Each state has its own devices, whatever states with other options there are, and "
        "whichever of them end.") {
  struct One {
    One(Test &t, std::string options_) : options(std::move(options_)), session(t, 0) {}
    std::string options;
    Session session;
    std::vector<uint8_t> alone;
  };
  std::vector<std::unique_ptr<One>> living;
  t.stop();
  for (const std::string &options : options_of_states(t)) {
    auto one = std::make_unique<One>(t, options);
    if (!one->session.start(t.library, options).passed()) continue;
    TRY(said_by(one->session, &one->alone));
    one->session.stop();
    living.push_back(std::move(one));
  }
  CHECK(!living.empty(), "no state starts");
  if (living.size() == 1) t.note("there is one way to start only");
  const auto all_as_alone = [&](const std::string &when) -> Outcome {
    for (const auto &one : living) {
      if (one->session.state == nullptr) continue;
      std::vector<uint8_t> now;
      TRY(said_by(one->session, &now));
      CHECK(now == one->alone, "the state with \"", one->options,
            "\" says something else of its devices ", when);
      TRY(in_shape(words("the state with \"", one->options, "\" ", when),
                   uses_last_device(one->session)));
    }
    return {};
  };
  for (const auto &one : living) {
    TRY(one->session.start(t.library, one->options));
    TRY(all_as_alone(words("beside one with \"", one->options, "\"")));
  }
  TRY(in_threads(2, [&](uint32_t) { return all_as_alone("on other threads"); }));
  while (living.size() > 1) {
    const auto next = living.begin() + static_cast<std::ptrdiff_t>(t.random.below(living.size()));
    const std::string options = (*next)->options;
    living.erase(next);
    TRY(all_as_alone(words("after the end of one with \"", options, "\"")));
  }
  return {};
}

// ---- texts

REQUIRE("RT-029", always(),
        "A state tells its version, at the same place, whichever other states start and stop.") {
  struct One {
    explicit One(Test &t) : session(t, t.device) {}
    Session session;
    const char *version = nullptr;
    std::string text;
  };
  std::vector<std::unique_ptr<One>> living;
  const auto look = [&](const char *when) -> Outcome {
    for (const auto &one : living) {
      CHECK(one->text == one->version, "the version \"", one->text, "\" has become \"",
            one->version, "\" ", when);
      const char *again = t.table.runtime_version(one->session.state);
      CHECK(again != nullptr && one->text == again, "the version \"", one->text,
            "\", asked for again, is \"", again, "\" ", when);
    }
    return {};
  };
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < 4; ++i) {
      living.push_back(std::make_unique<One>(t));
      One &one = *living.back();
      TRY(one.session.start(t.library, t.settings.options));
      one.version = t.table.runtime_version(one.session.state);
      CHECK(one.version != nullptr, "the version is NULL");
      one.text = one.version;
      TRY(look("after a start"));
    }
    while (!living.empty()) {
      const size_t next = round == 0   ? 0
                          : round == 1 ? living.size() - 1
                                       : t.random.below(living.size());
      const std::unique_ptr<One> ended = std::move(living[next]);
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(next));
      TRY(in_threads(1, [&](uint32_t) -> Outcome {
        if (living.size() % 2 == 0) ended->session.stop();
        return {};
      }));
      ended->session.stop();
      TRY(look("after the end of another state"));
      TRY(in_threads(1, [&](uint32_t) { return look("on another thread"); }));
    }
  }
  return {};
}

/// Codes that calls of this thread left, and numbers that may be codes.
Outcome codes_of_failures(Test &t, std::vector<int64_t> *codes) {
  std::set<int64_t> found{0,   1,   2,   3,   12, 13,         22,       100,
                          201, 700, 712, 999, -1, 0x78000001, INT64_MAX};
  uint64_t address = 0;
  void *memory = nullptr;
  weir_be_stream stream = nullptr;
  const auto note = [&] { found.insert(t.table.last_error_code(t.state)); };
  REFUSED(plain_allocate, t.device, 0, 4096, &address);
  note();
  REFUSED_SOMEHOW(host_allocate, uint64_t{1} << 60U, &memory);
  note();
  REFUSED(stream_create, t.no_device(), 0, &stream);
  note();
  ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, t.device, 2 * t.about.memory_total, 4096,
          &address);
  note();
  codes->assign(found.begin(), found.end());
  return {};
}

REQUIRE("RT-030", always(),
        "The texts of several codes that a thread asks for stay as they are until its next "
        "failure, whatever is asked for after them.") {
  return in_threads(3, [&](uint32_t index) -> Outcome {
    std::vector<int64_t> codes;
    TRY(codes_of_failures(t, &codes));
    for (uint64_t round = 0; round < codes.size(); ++round) {
      std::rotate(codes.begin(), codes.begin() + 1, codes.end());
      if (index == 2) std::reverse(codes.begin(), codes.end());
      std::vector<const char *> texts;
      std::vector<std::string> were;
      for (const int64_t code : codes) {
        texts.push_back(t.table.error_text(t.state, code));
        CHECK(texts.back() != nullptr, "the text of code ", code, " is NULL");
        were.emplace_back(texts.back());
        for (size_t i = 0; i < texts.size(); ++i)
          CHECK(were[i] == texts[i], "the text \"", were[i], "\" of code ", codes[i],
                " has become \"", texts[i], "\" when that of ", code, " was asked for");
      }
    }
    return {};
  });
}

// ---- logs

/// What one state's log was given.
struct OwnLog {
  std::mutex mutex;
  std::vector<std::string> lines;
  static void take(void *user, int32_t, const char *text) {
    OwnLog &log = *static_cast<OwnLog *>(user);
    const std::lock_guard hold(log.mutex);
    log.lines.emplace_back(text != nullptr ? text : "");
  }
  uint64_t count() {
    const std::lock_guard hold(mutex);
    return lines.size();
  }
  /// A line from number `from` on that is one of `other`'s; "" if none is.
  std::string shared_with(OwnLog &other, uint64_t from) {
    const std::lock_guard hold(mutex);
    const std::lock_guard hold_other(other.mutex);
    for (uint64_t i = from; i < lines.size(); ++i)
      if (std::find(other.lines.begin(), other.lines.end(), lines[i]) != other.lines.end())
        return lines[i];
    return {};
  }
};

/// Calls that a backend may have something to say of.
Outcome give_cause_for_lines(Test &t, Session &session) {
  uint64_t address = 0;
  weir_be_stream stream = nullptr;
  EXPECT_IN(session, invalid(), plain_allocate, t.device, 0, 4096, &address);
  EXPECT_IN(session, invalid(), plain_allocate, t.no_device(), 4096, 4096, &address);
  EXPECT_IN(session, invalid(), stream_create, t.no_device(), 0, &stream);
  EXPECT_IN(session, Want::any_error(), plain_allocate, t.device, uint64_t{1} << 62U, 4096,
            &address);
  return {};
}

REQUIRE("RT-031", always(),
        "What a state has to say goes to its own log, whichever states with and without a log "
        "there are.") {
  constexpr size_t count = 4;
  OwnLog logs[count], first;
  uint64_t usual = 0;
  // What one state says of these calls. The second counts: something may be told once a process.
  for (int i = 0; i < 2; ++i) {
    Session session(t, t.device);
    TRY(session.start(t.library, t.settings.options, &OwnLog::take, &first));
    const uint64_t started = first.count();
    TRY(give_cause_for_lines(t, session));
    usual = first.count() - started;
  }
  if (usual == 0) t.note("the backend has nothing to say of refused calls");
  std::vector<std::unique_ptr<Session>> states;
  for (size_t i = 0; i < count; ++i) {
    states.push_back(std::make_unique<Session>(t, t.device));
    // One in their midst and the last have no log.
    const bool has_log = i % 2 == 0;
    TRY(states[i]->start(t.library, t.settings.options, has_log ? &OwnLog::take : nullptr,
                         has_log ? &logs[i] : nullptr));
  }
  const uint64_t finished = first.count();
  for (uint32_t round = 0; round < 2; ++round) {
    for (size_t i = 0; i < count; ++i) {
      uint64_t before[count];
      for (size_t k = 0; k < count; ++k) before[k] = logs[k].count();
      const auto calls = [&](uint32_t) { return give_cause_for_lines(t, *states[i]); };
      TRY(round == 0 ? calls(0) : in_threads(1, calls));
      // What is told once a state need not be told in the second round.
      const uint64_t more = logs[i].count() - before[i];
      CHECK(i % 2 != 0 || round != 0 || more >= usual, "state ", uint64_t{i}, " has told its log ",
            more, " lines of calls of which a state alone tells ", usual);
      for (size_t k = 0; k < count; ++k) {
        const std::string line = k != i ? logs[k].shared_with(first, before[k]) : "";
        CHECK(line.empty(), "the log of state ", uint64_t{k}, " got the line \"", line,
              "\" of a call of state ", uint64_t{i});
      }
    }
  }
  CHECK(first.count() == finished, "the log of a state that has stopped gets lines");
  return {};
}

// ---- the thread that stops

/// A state, and things of every kind that are left to its stop().
struct Estate {
  Estate(Test &test, uint32_t on) : t(test), session(test, on), pages(64 * kib) {}
  Outcome start() {
    TRY(session.start(t.library, t.settings.options));
    about.struct_size = sizeof about;
    MUST_IN(session, device_describe, session.device, &about);
    return {};
  }
  bool has(uint64_t capability) const { return (about.capabilities & capability) != 0; }
  Outcome fill() {
    const uint32_t device = session.device;
    const uint64_t bytes = about.memory_total / 32;
    weir_be_stream stream = nullptr, wrapper = nullptr;
    weir_be_fence fence = 0;
    uint64_t address = 0;
    void *memory = nullptr, *native = nullptr;
    MUST_IN(session, plain_allocate, device, bytes, 4096, &address);
    MUST_IN(session, host_allocate, 64 * kib, &memory);
    MUST_IN(session, stream_create, device, 0, &stream);
    MUST_IN(session, stream_native, stream, &native);
    MUST_IN(session, stream_wrap, device, native, &wrapper);
    MUST_IN(session, fill_async, stream, address, 1, 4 * kib);
    MUST_IN(session, fence_record, stream, &fence);
    if (has(WEIR_CAP_HOST_REGISTER)) MUST_IN(session, host_register, pages.get(), 64 * kib);
    if (!has(WEIR_CAP_VMM)) return {};
    const uint64_t unit = about.granule, size = (bytes + unit - 1) / unit * unit;
    weir_be_granule granule = 0;
    MUST_IN(session, granule_create, device, size, 0, &granule);
    MUST_IN(session, range_reserve, device, size, unit, &address);
    MUST_IN(session, map, device, address, size, granule, 0, nullptr, 0);
    return {};
  }
  Test &t;
  Session session;
  const Pages pages;
  weir_be_device about{};
};

/// Starts, fills and stops a state, each on the thread that `who` names: its digits are the thread of each of the three.
Outcome by_threads(Test &t, uint32_t device, const char *who) {
  Estate estate(t, device);
  Meeting meeting(3);
  TRY(in_threads(3, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    const auto turn = [&](int step) { return who[step] == static_cast<char>('0' + index); };
    Outcome outcome;
    if (turn(0)) outcome = estate.start();
    guest.wait();
    if (turn(1) && estate.session.state != nullptr) outcome = estate.fill();
    guest.wait();
    if (turn(2) && outcome.passed()) estate.session.stop();
    guest.wait();
    return outcome;
  }));
  // What was registered is the caller's again, for any state.
  if (!estate.has(WEIR_CAP_HOST_REGISTER)) return {};
  Registered again(t);
  return again.begin(estate.pages.get(), 64 * kib);
}

REQUIRE("RT-032", alone(),
        "What a state owned is free when it has stopped, on whichever threads it was started, used "
        "and stopped.") {
  const char *const patterns[] = {"000", "001", "010", "011", "012"};
  for (uint32_t device = 0; device < t.device_count; ++device) {
    DeviceFacts facts;
    TRY(t.describe(device, &facts.about));
    uint64_t before = 0;
    TRY(by_threads(t, device, "000"));
    TRY(free_bytes_of(t, device, &before));
    const Holdings held = holdings();
    for (const char *who : patterns) {
      const auto body = [&]() -> Outcome {
        for (int round = 0; round < 3; ++round) TRY(by_threads(t, device, who));
        const uint64_t give_up = now_ns() + patience_ns / 4;
        uint64_t after = 0;
        do {
          TRY(free_bytes_of(t, device, &after));
        } while (after + t.slack < before && now_ns() < give_up);
        CHECK(after + t.slack >= before, "of ", before, " free bytes ", after, " are left");
        return holdings_back(held, 4);
      };
      TRY(in_shape(words("device ", device, ", started, used and stopped by threads ", who),
                   body()));
    }
  }
  return {};
}

/// Imports of its own exports and of another's, mapped and not, which are left to stop().
Outcome leave_imports(Test &t, uint32_t device, int foreign, uint64_t bytes, uint64_t unit) {
  Session session(t, device);
  TRY(session.start(t.library, t.settings.options));
  weir_be_granule granule = 0;
  int32_t fd = -1;
  MUST_IN(session, granule_create, device, bytes, WEIR_BE_GRANULE_EXPORT_FD, &granule);
  MUST_IN(session, granule_export, device, granule, &fd);
  const Descriptor own(fd);
  for (const int from : {own.get(), foreign}) {
    for (const bool mapped : {false, true}) {
      weir_be_granule imported = 0;
      uint64_t address = 0;
      MUST_IN(session, granule_import, device, from, bytes, &imported);
      if (!mapped) continue;
      MUST_IN(session, range_reserve, device, bytes, unit, &address);
      MUST_IN(session, map, device, address, bytes, imported, 0, nullptr, 0);
    }
  }
  return in_threads(1, [&](uint32_t) -> Outcome {
    session.stop();
    return {};
  });
}

REQUIRE("RT-033", alone(needs(WEIR_CAP_EXPORT_FD)),
        "A state that stops with exports and imports leaves no descriptors and no memory of them, "
        "and the exporter's memory as it is.") {
  return each_device(t, WEIR_CAP_EXPORT_FD, [&](const DeviceFacts &device) -> Outcome {
    const uint64_t bytes =
        std::max(device.about.memory_total / 32 / device.unit, uint64_t{1}) * device.unit;
    Granule granule(t, device.index);
    Range range(t, device.index);
    Map map(t, device.index);
    Mover mover(t, device.index);
    int32_t fd = -1;
    uint64_t before = 0, after = 0;
    TRY(granule.create(bytes, WEIR_BE_GRANULE_EXPORT_FD));
    TRY(range.reserve(bytes, device.unit));
    TRY(map.map(range.address(), bytes, granule));
    TRY(mover.make(end_bytes));
    TRY(write_ends(mover, range.address(), bytes, 1));
    MUST(granule_export, device.index, granule.get(), &fd);
    const Descriptor exported(fd);
    TRY(leave_imports(t, device.index, exported.get(), bytes, device.unit));
    TRY(free_bytes_of(t, device.index, &before));
    const Holdings held = holdings();
    for (int round = 0; round < 10; ++round)
      TRY(leave_imports(t, device.index, exported.get(), bytes, device.unit));
    TRY(holdings_back(held, 4));
    const uint64_t give_up = now_ns() + patience_ns / 4;
    do {
      TRY(free_bytes_of(t, device.index, &after));
    } while (after + device.slack < before && now_ns() < give_up);
    CHECK(after + device.slack >= before, "of ", before, " free bytes ", after, " are left");
    return check_ends(mover, range.address(), bytes, 1);
  });
}

}  // namespace
}  // namespace weir::conformance
