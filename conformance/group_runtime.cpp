// SPDX-License-Identifier: Apache-2.0
//
// The runtime: the library's entry point, its table, starting and stopping.
#include "conformance/fixtures.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cfenv>
#include <cstring>
#include <memory>
#include <mutex>

namespace weir::conformance {
namespace {

struct Entry {
  const char *name;
  bool there;
};
#define ENTRY(entry) \
  Entry { #entry, t.table.entry != nullptr }

/// All or none of the entries.
Outcome whole(std::initializer_list<Entry> group) {
  for (const Entry &entry : group) {
    CHECK(entry.there == group.begin()->there, "of one group, ", group.begin()->name, " is ",
          group.begin()->there ? "there" : "missing", " and ", entry.name, " is ",
          entry.there ? "there" : "missing");
  }
  return {};
}

Outcome all_there(std::initializer_list<Entry> entries) {
  for (const Entry &entry : entries) CHECK(entry.there, "the table has no entry ", entry.name);
  return {};
}

/// Starts with options that cannot be understood.
Outcome refused_start(const Test &t, const std::string &options, const std::string &named) {
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = options.c_str();
  const char *reason = nullptr;
  char place_of_state = 0;
  auto *const as_before = reinterpret_cast<weir_be_state *>(&place_of_state);
  weir_be_state *state = as_before;
  const weir_result result = start_called(t.table, &desc, &state, &reason);
  if (result == WEIR_SUCCESS) stop_called(t.table, state);
  CHECK(result == WEIR_ERROR_INVALID_ARGUMENT, "start(\"", options, "\") = ", result_name(result),
        ", wanted INVALID_ARGUMENT");
  CHECK(state == as_before, "the failed start wrote a state");
  CHECK(reason != nullptr && *reason != '\0', "the failed start gave no reason");
  CHECK(std::strstr(reason, named.c_str()) != nullptr, "the reason \"", reason, "\" does not name ",
        named);
  return {};
}

/// A little of everything, which is left to stop().
Outcome leave_things(const Test &t, Session &session, uint64_t bytes) {
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  uint64_t address = 0;
  void *memory = nullptr;
  MUST_IN(session, stream_create, t.device, 0, &stream);
  MUST_IN(session, fence_record, stream, &fence);
  MUST_IN(session, plain_allocate, t.device, bytes, 4096, &address);
  MUST_IN(session, host_allocate, bytes, &memory);
  MUST_IN(session, fill_async, stream, address, 1, bytes);
  if (t.granule == 0) return {};
  weir_be_granule granule = 0;
  const uint64_t units = (bytes + t.granule - 1) / t.granule * t.granule;
  MUST_IN(session, granule_create, t.device, units, 0, &granule);
  MUST_IN(session, range_reserve, t.device, units, t.granule, &address);
  MUST_IN(session, map, t.device, address, units, granule, 0, nullptr, 0);
  return {};
}

REQUIRE("RT-001", always(),
        "The library exports weir_backend_query, which gives a table of this version.") {
  const weir_backend_table *table = t.library.query(WEIR_BACKEND_ABI_MAJOR);
  CHECK(table != nullptr, "weir_backend_query(", uint32_t{WEIR_BACKEND_ABI_MAJOR}, ") is NULL");
  CHECK(table->abi_major == WEIR_BACKEND_ABI_MAJOR, "abi_major is ", table->abi_major);
  CHECK(table->struct_size >= offsetof(weir_backend_table, fill_async) + sizeof table->fill_async,
        "struct_size ", table->struct_size, " ends before the last required entry");
  return {};
}

REQUIRE("RT-002", always(),
        "Asked for another version, the backend gives NULL or a table of that version.") {
  for (const uint32_t version : {uint32_t{WEIR_BACKEND_ABI_MAJOR} + 1, 1000U, UINT32_MAX}) {
    const weir_backend_table *table = t.library.query(version);
    CHECK(table == nullptr || table->abi_major == version, "asked for version ", version,
          " it gives a table of version ", table->abi_major);
  }
  return {};
}

REQUIRE("RT-003", always(), "The table lives and stays the same as long as the library.") {
  const weir_backend_table *first = t.library.query(WEIR_BACKEND_ABI_MAJOR);
  weir_backend_table again{};
  t.stop();
  TRY(t.library.table(&again));
  CHECK(std::memcmp(&again, &t.table, sizeof again) == 0, "a second query gives other entries");
  weir_backend_table kept{};
  std::memcpy(&kept, first, std::min<size_t>(first->struct_size, sizeof kept));
  CHECK(std::memcmp(&kept, &t.table, sizeof kept) == 0, "the table has changed");
  return {};
}

REQUIRE("RT-004", always(), "Every required entry is there.") {
  TRY(all_there({ENTRY(start), ENTRY(stop), ENTRY(runtime_version), ENTRY(last_error_code),
                 ENTRY(error_text), ENTRY(device_count), ENTRY(device_describe),
                 ENTRY(device_memory), ENTRY(link_describe), ENTRY(plain_allocate),
                 ENTRY(plain_free), ENTRY(host_allocate), ENTRY(host_free)}));
  return all_there({ENTRY(stream_create), ENTRY(stream_wrap), ENTRY(stream_destroy),
                    ENTRY(stream_native), ENTRY(stream_synchronize), ENTRY(stream_query),
                    ENTRY(fence_record), ENTRY(stream_wait), ENTRY(fence_poll), ENTRY(fence_wait),
                    ENTRY(fence_destroy), ENTRY(copy_async), ENTRY(fill_async)});
}

REQUIRE("RT-005", always(), "A group of optional entries is there in whole or not at all.") {
  TRY(whole({ENTRY(granule_create), ENTRY(granule_destroy), ENTRY(range_reserve), ENTRY(range_free),
             ENTRY(map), ENTRY(unmap)}));
  TRY(whole({ENTRY(granule_export), ENTRY(granule_import)}));
  TRY(whole({ENTRY(granule_export_fabric), ENTRY(granule_import_fabric)}));
  TRY(whole({ENTRY(map_run), ENTRY(unmap_run)}));
  return whole({ENTRY(host_register), ENTRY(host_unregister)});
}

REQUIRE("RT-006", always(),
        "The backend's name is a word of lower case, fit to be a prefix of options.") {
  CHECK(t.table.name != nullptr && *t.table.name != '\0', "the backend has no name");
  const std::string name = t.table.name;
  CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos,
        "the name is \"", name, "\"");
  return {};
}

REQUIRE("RT-007", always(), "An option that is not known is refused with a reason that names it.") {
  return refused_start(t, "weir_no_such_option=1", "weir_no_such_option");
}

REQUIRE("RT-008", always(),
        "Options that are no key=value are refused with a reason that names them.") {
  return refused_start(t, "weir_not_a_pair", "weir_not_a_pair");
}

REQUIRE("RT-009", always(),
        "A start that is refused many times leaks no descriptors and no threads.") {
  TRY(refused_start(t, "weir_no_such_option=1", "weir_no_such_option"));
  const Holdings before_all = holdings();
  for (int i = 0; i < 50; ++i)
    TRY(refused_start(t, "weir_no_such_option=1", "weir_no_such_option"));
  return holdings_back(before_all, 4);
}

REQUIRE("RT-010", always(),
        "The runtime's version is text that stays where it is while the state lives.") {
  const char *version = CALL(runtime_version);
  CHECK(version != nullptr, "the version is NULL");
  const std::string first = version;
  for (const char c : first) CHECK(c >= ' ' && c <= '~', "the version is not printable: ", first);
  Session second(t, t.device);
  TRY(second.start(t.library, t.settings.options));
  second.stop();
  CHECK(first == version, "the version \"", first, "\" has become \"", version, "\"");
  return {};
}

REQUIRE("RT-011", always(),
        "Two states exist side by side; stopping one leaves the other as it was.") {
  constexpr uint64_t bytes = 64 << 10U;
  Plain mine(t);
  Mover mover(t);
  TRY(mine.allocate(bytes));
  TRY(mover.make(bytes));
  TRY(mover.write(mine.address(), bytes, 1));
  {
    Session second(t, t.device);
    TRY(second.start(t.library, t.settings.options));
    CHECK(second.state != t.state, "the second state is the first one");
    Plain theirs(second);
    Mover other(second);
    TRY(theirs.allocate(bytes));
    TRY(other.make(bytes));
    TRY(other.write(theirs.address(), bytes, 2));
    TRY(mover.check(mine.address(), bytes, 1));
    TRY(other.check(theirs.address(), bytes, 2));
  }
  TRY(mover.check(mine.address(), bytes, 1));
  TRY(mover.write(mine.address(), bytes, 3));
  return mover.check(mine.address(), bytes, 3);
}

REQUIRE("RT-012", alone(), "Stopping frees all memory of the device that the state still owned.") {
  const uint64_t bytes = std::max<uint64_t>(t.budget / 4, t.granule);
  uint64_t before = 0;
  TRY(free_memory(t, &before));
  const uint64_t rounds = std::max<uint64_t>(3, 2 * t.slack / bytes + 1);
  for (uint64_t i = 0; i < rounds; ++i) {
    Session second(t, t.device);
    TRY(second.start(t.library, t.settings.options));
    TRY(leave_things(t, second, bytes));
  }
  return memory_back(t, before);
}

REQUIRE("RT-013", alone(),
        "Starting and stopping 50 times leaks no memory, descriptors, threads or addresses.") {
  uint64_t before = 0;
  Holdings before_all;
  constexpr uint64_t enough_ns = 25'000'000'000;
  const uint64_t began = now_ns();
  const uint64_t bytes = std::max<uint64_t>(1 << 20U, t.granule);
  t.stop();
  int rounds = 0;
  for (; rounds < 50 && now_ns() - began < enough_ns; ++rounds) {
    Session each(t, t.device);
    TRY(each.start(t.library, t.settings.options));
    TRY(leave_things(t, each, bytes));
    if (rounds == 4) {
      TRY(free_memory(each, &before));
      before_all = holdings();
    }
    if (rounds <= 4) continue;
    uint64_t now = 0;
    TRY(free_memory(each, &now));
    CHECK(now + t.slack >= before, "round ", rounds, ": ", now, " bytes are free, of ", before);
    TRY(holdings_back(before_all, 8));
  }
  if (rounds < 50) t.note(words("only ", rounds, " rounds in the time there is"));
  return {};
}

struct Log {
  std::mutex mutex;
  uint64_t lines = 0;
  std::string bad;
};
void take_line(void *user, int32_t level, const char *text) {
  Log &log = *static_cast<Log *>(user);
  const std::lock_guard hold(log.mutex);
  ++log.lines;
  if (level < WEIR_LOG_ERROR || level > WEIR_LOG_DEBUG) log.bad = words("a level of ", level);
  if (text == nullptr) {
    log.bad = "a line that is NULL";
  } else if (std::strpbrk(text, "\r\n") != nullptr) {
    log.bad = words("a line with a line end: ", text);
  }
}

REQUIRE("RT-014", always(),
        "What goes to the log is a line without a line end, of a known level, for its own user.") {
  Log log;
  {
    Session session(t, t.device);
    TRY(session.start(t.library, t.settings.options, &take_line, &log));
    uint64_t address = 0;
    EXPECT_IN(session, Want::any_error(), plain_allocate, t.device, 0, 4096, &address);
    EXPECT_IN(session, Want::any_error(), plain_allocate, t.no_device(), 4096, 4096, &address);
    weir_be_stream stream = nullptr;
    EXPECT_IN(session, Want::any_error(), stream_create, t.no_device(), 0, &stream);
    TRY(leave_things(t, session, 64 << 10U));
  }
  const std::lock_guard hold(log.mutex);
  CHECK(log.bad.empty(), "the log got ", log.bad);
  if (log.lines == 0) return t.nothing("no line came");
  t.note(words(log.lines, " lines"));
  return {};
}

REQUIRE(
    "RT-015", always(),
    "Entries leave the thread's signal mask, handlers and floating-point rounding as they were.") {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  std::fesetround(FE_UPWARD);
  struct sigaction before[NSIG] = {};
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, nullptr, &before[signal]);
  Session session(t, t.device);
  TRY(session.start(t.library, t.settings.options));
  TRY(leave_things(t, session, 64 << 10U));
  const int rounding = std::fegetround();
  session.stop();
  std::fesetround(FE_TONEAREST);
  CHECK(rounding == FE_UPWARD, "the rounding mode has become ", rounding);
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigismember(&mask, signal) < 0) continue;
    CHECK(sigismember(&mask, signal) == sigismember(&after, signal), "signal ", signal,
          " is blocked otherwise than before");
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    CHECK(now.sa_handler == before[signal].sa_handler, "signal ", signal, " has another handler");
  }
  return {};
}

REQUIRE("RT-016", always(), "A reason of a failed start stays readable until the next start.") {
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = "weir_no_such_option=1";
  const char *reason = nullptr;
  weir_be_state *state = nullptr;
  CHECK(start_called(t.table, &desc, &state, &reason) != WEIR_SUCCESS,
        "an unknown option is accepted");
  const std::string first = word(reason);
  uint64_t address = 0;
  REFUSED(plain_allocate, t.device, 0, 4096, &address);
  TRY(leave_things(t, t, 64 << 10U));
  CHECK(first == word(reason), "the reason \"", first, "\" has become \"", reason, "\"");
  return {};
}

REQUIRE("RT-035", needs(WEIR_CAP_NATIVE_MEMORY),
        "Objects of the program of a kind that the backend does not know are refused with the "
        "reason.") {
  const uint32_t unknown[4] = {sizeof unknown, UINT32_MAX, 0, 0};
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = t.settings.options.c_str();
  desc.native = unknown;
  const char *reason = nullptr;
  weir_be_state *state = nullptr;
  const weir_result result = start_called(t.table, &desc, &state, &reason);
  if (result == WEIR_SUCCESS) stop_called(t.table, state);
  CHECK(result == WEIR_ERROR_INVALID_ARGUMENT,
        "start with natives of an unknown kind = ", result_name(result),
        ", wanted INVALID_ARGUMENT");
  CHECK(state == nullptr, "the failed start wrote a state");
  CHECK(reason != nullptr && *reason != '\0', "the failed start gave no reason");
  return {};
}

REQUIRE("RT-019", always(), "A state is stopped while its streams have work to do.") {
  constexpr uint64_t bytes = 1 << 20U;
  for (int round = 0; round < 5; ++round) {
    Session session(t, t.device);
    TRY(session.start(t.library, t.settings.options));
    weir_be_stream stream = nullptr;
    uint64_t address = 0;
    void *memory = nullptr;
    MUST_IN(session, stream_create, t.device, 0, &stream);
    MUST_IN(session, plain_allocate, t.device, bytes, 4096, &address);
    MUST_IN(session, host_allocate, bytes, &memory);
    const weir_be_copy copy{address, reinterpret_cast<uintptr_t>(memory), bytes};
    for (int i = 0; i < 50; ++i) MUST_IN(session, copy_async, stream, &copy);
  }
  Plain after(t);
  return after.allocate(bytes);
}

}  // namespace
}  // namespace weir::conformance
