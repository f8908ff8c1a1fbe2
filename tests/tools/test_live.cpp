// SPDX-License-Identifier: Apache-2.0
//
// Reading what running programs show: pages that are good, busy, garbage, of other versions or no pages at all; lines of dead
// processes. What is read was written by somebody else of the same user, who may mean ill: nothing of it is believed unchecked.
#include "tests/tools/live_home.hpp"
#include "tools/weir/live/reader.hpp"

#include <weir/weir.h>

#include <fcntl.h>
#include <sys/syscall.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

namespace {
std::function<void()> before_pread;  ///< what another process does just then
}

// The reader's, since this is the program's own.
extern "C" ssize_t pread(int file, void *to, size_t bytes, off_t offset) {
  if (before_pread) before_pread();
  return syscall(SYS_pread64, file, to, bytes, offset);
}

namespace {

using namespace weir::test;
namespace live = weir::live;
using weir::tool::live_text;
using weir::tool::LiveContext;
using weir::tool::LiveProgram;
using weir::tool::LiveReader;
using weir::tool::LiveView;
using weir::tool::read_live_page;

/// "" if it is read, else why it is refused.
std::string read(const MadeUpPage &page, LiveContext *context) {
  std::string name, reason;
  *context = {};
  if (read_live_page(page.file(), page.entry(), context, &name, &reason)) {
    assert_true(reason.empty());
    return "";
  }
  assert_false(reason.empty());
  return reason;
}

void a_good_page(void **) {
  const MadeUpPage page;
  LiveContext context;
  assert_string_equal(read(page, &context).c_str(), "");
  assert_true(context.number == 1 && context.library == "1.0.0" && context.places.size() == 2);
  assert_true(context.pools.size() == 2 && context.busy_pools == 0);
  assert_string_equal(live_text(context.pools[1].name).c_str(), "second");
  page.header().pools_without_slot = 7;
  std::memset(page.slot(5).pool.name.data(), '\x1b', live::name_bytes);  // no NUL
  assert_string_equal(read(page, &context).c_str(), "");
  assert_int_equal(context.pools_without_slot, 7);
  std::string expected;
  for (size_t i = 0; i < live::name_bytes; ++i) expected += "\\x1b";
  assert_string_equal(live_text(context.pools[1].name).c_str(), expected.c_str());
}

void each_wrong_value_is_named(void **) {
  const MadeUpPage page;
  const struct {
    std::function<void(live::Header &, live::Pool &)> spoil;
    const char *words;
  } cases[] = {
      {[](live::Header &h, live::Pool &) { h.magic = 1; }, "the mark is 1, not"},
      {[](live::Header &h, live::Pool &) { h.version = 9; }, "the version is 9, not 1"},
      {[](live::Header &h, live::Pool &) { h.header_bytes = 0; }, "header_bytes is 0, not"},
      {[](live::Header &h, live::Pool &) { h.slot_bytes = 8; }, "slot_bytes is 8, not"},
      {[](live::Header &h, live::Pool &) { h.slot_count = 1U << 31U; }, "slot_count is 2147483648"},
      {[](live::Header &h, live::Pool &) { h.process = -1; }, "process is"},
      {[](live::Header &h, live::Pool &) { h.start_time ^= 1; }, "start_time is"},
      {[](live::Header &h, live::Pool &) { h.place_count = 3; }, "place_count is 3, more than 2"},
      {[](live::Header &h, live::Pool &) { h.places = h.place_count = 65; },
       "place_count is 65, more than 64"},
      {[](live::Header &, live::Pool &p) { p.background = 2; }, "background is 2, more than 1"},
      {[](live::Header &, live::Pool &p) { p.counter_count = 4000; }, "counter_count is 4000"},
      {[](live::Header &, live::Pool &p) { p.reason_count = 17; }, "reason_count is 17"},
      {[](live::Header &, live::Pool &p) { p.duration_count = 99; }, "duration_count is 99"},
      {[](live::Header &, live::Pool &p) { p.device_count = UINT32_MAX; },
       "device_count is 4294967295, more than 28"},
      {[](live::Header &, live::Pool &p) { p.client_count = 4; }, "client_count is 4, more than 3"},
      {[](live::Header &, live::Pool &p) { p.client_count = p.clients = 70; },
       "client_count is 70, more than 64"},
      {[](live::Header &, live::Pool &p) { p.devices[1].state = 3; }, "a device's state is 3"},
  };
  for (const auto &each : cases) {
    page.be_good();
    each.spoil(page.header(), page.slot(5).pool);
    LiveContext context;
    const std::string reason = read(page, &context);
    if (!contains(reason, each.words)) fail_msg("no \"%s\" in \"%s\"", each.words, reason.c_str());
  }
}

void files_that_are_no_pages(void **) {
  LiveContext context;
  const MadeUpPage open(live::page_bytes, live::page_name, F_SEAL_SHRINK | F_SEAL_GROW);
  assert_true(contains(read(open, &context), "not sealed"));
  const MadeUpPage shrinks(live::page_bytes, live::page_name, F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  assert_true(contains(read(shrinks, &context), "not sealed"));
  const MadeUpPage small(100);
  assert_true(contains(read(small, &context), "100 bytes, less than a header"));
  const MadeUpPage large(live::page_bytes + 4096);
  assert_true(contains(read(large, &context), "the size of the page is"));
  const MadeUpPage empty(live::page_bytes);
  std::memset(empty.bytes(), 0, live::page_bytes);
  assert_true(contains(read(empty, &context), "the mark is 0"));
}

void a_slot_that_is_always_being_written_is_busy(void **) {
  const MadeUpPage page;
  page.slot(5).sequence = 7;
  LiveContext context;
  assert_string_equal(read(page, &context).c_str(), "");
  assert_true(context.busy_pools == 1 && context.pools.size() == 1);
  page.slot(5).sequence = 8;
  assert_string_equal(read(page, &context).c_str(), "");
  assert_true(context.busy_pools == 0 && context.pools.size() == 2);
}

/// A writer that never rests: what is read is one record, or it is busy; never parts of two.
void no_half_record_is_seen(void **) {
  const MadeUpPage page;
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    live::Slot &slot = page.slot(5);
    const std::atomic_ref<uint64_t> sequence(slot.sequence);
    for (uint64_t i = 1; !ends; ++i) {
      sequence.store(sequence.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);
      for (uint32_t at = 0; at < live::counter_count; ++at) slot.pool.counters[at] = i;
      slot.pool.client[2].tiers[3].used = i;
      sequence.store(sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      if (i % 4 == 0) std::this_thread::yield();
    }
  });
  uint64_t last = 0;
  for (uint32_t found = 0; found < 200;) {
    LiveContext context;
    assert_string_equal(read(page, &context).c_str(), "");
    if (context.busy_pools != 0) continue;
    ++found;
    const live::Pool &pool = context.pools[1];
    const uint64_t value = pool.counters[0];
    assert_true(value >= last && pool.client[2].tiers[3].used == value);
    for (uint32_t at = 0; at < live::counter_count; ++at) assert_true(pool.counters[at] == value);
    last = value;
  }
  ends = true;
  writer.join();
  assert_true(last != 0);
}

/// The record is changed in two halves while it is read, at each of the reads: none of them gives one with both.
void a_change_between_reads_is_noticed(void **) {
  const MadeUpPage page;
  LiveContext context;
  uint32_t reads = 0;
  before_pread = [&reads] { ++reads; };
  assert_string_equal(read(page, &context).c_str(), "");
  const uint32_t all = reads;
  for (uint32_t at = 1; at < all; ++at) {
    page.be_good();
    live::Slot &slot = page.slot(5);
    reads = 0;
    before_pread = [&] {
      ++reads;
      if (reads == at) {
        slot.sequence = 1;
        slot.pool.counters[0] = 7;
      } else if (reads == at + 1) {
        slot.pool.counters[1] = 7;
        slot.sequence = 2;
      }
    };
    assert_string_equal(read(page, &context).c_str(), "");
    assert_int_equal(context.pools.size(), 2);
    if (context.pools[1].counters[0] != context.pools[1].counters[1])
      fail_msg("half a record, by a change at read %u of %u", at, all);
  }
  before_pread = nullptr;
}

/// Bytes of a good page replaced by others, few and many, while nobody knows which: it is refused with a reason or read within bounds.
void garbage_is_refused_or_within_bounds(void **) {
  const MadeUpPage page;
  std::mt19937_64 random(24);
  const auto below = [&random](uint64_t end) { return random() % end; };
  uint32_t refused = 0, read_all = 0;
  for (uint32_t run = 0; run < 3000; ++run) {
    page.be_good();
    const uint64_t wrong = run % 3 == 0 ? 2000 : 1 + below(8);
    for (uint64_t i = 0; i < wrong; ++i) {
      // Most where it hurts: headers, and heads of slots.
      const size_t part = below(3) == 0   ? below(live::page_bytes - 8)
                          : below(2) == 0 ? below(192)
                                          : live::slot_offset(below(2) == 0 ? 0 : 5) + below(320);
      const uint64_t value = below(3) == 0 ? UINT64_MAX : random() >> below(64);
      std::memcpy(page.bytes() + part, &value, 1 + below(8));
    }
    LiveContext context;
    const std::string reason = read(page, &context);
    ++(reason.empty() ? read_all : refused);
    if (!reason.empty()) continue;
    assert_true(context.places.size() <= live::most_places);
    assert_true(context.pools.size() + context.busy_pools <= live::most_pools);
    for (const live::Pool &pool : context.pools) {
      assert_true(
          pool.counter_count <= live::most_counters && pool.reason_count <= live::most_reasons &&
          pool.duration_count <= live::most_durations && pool.device_count <= live::most_devices &&
          pool.client_count <= live::most_clients && pool.client_count <= pool.clients);
      for (const unsigned char letter : live_text(pool.name)) assert_true(letter >= 0x20);
    }
  }
  assert_true(refused > 500 && read_all > 200);
}

const LiveProgram *find(const LiveView &view, pid_t process) {
  for (const LiveProgram &program : view.programs)
    if (program.process == process) return &program;
  return nullptr;
}

weir_context new_context() {
  weir_context context = nullptr;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = "host.memory=16M";
  assert_int_equal(weir_context_create(&desc, &context), WEIR_SUCCESS);
  return context;
}

void programs_are_found(void **) {
  const LiveHome home;
  const LiveReader reader(home.where());
  assert_true(reader.look().programs.empty());
  weir_context context = new_context(), second = new_context();
  const weir_pool_device device{0, 0, uint64_t{4} << 20U, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &device;
  desc.device_count = 1;
  desc.name = "a pool";
  weir_pool pool = nullptr;
  assert_int_equal(weir_pool_create(second, &desc, &pool), WEIR_SUCCESS);
  const LiveView view = reader.look();
  assert_int_equal(view.programs.size(), 1);
  const LiveProgram *own = find(view, getpid());
  assert_non_null(own);
  if (own->state != LiveProgram::State::seen) fail_msg("%s", own->reason.c_str());
  assert_string_equal(own->name.c_str(), program_invocation_short_name);
  assert_int_equal(own->contexts.size(), 2);
  assert_true(own->contexts[0].pools.empty() && own->contexts[1].pools.size() == 1);
  assert_string_equal(live_text(own->contexts[1].pools[0].name).c_str(), "a pool");
  assert_true(reader.look(1).programs.empty() && reader.look(getpid()).programs.size() == 1);
  // The same line twice is one context.
  const live::Entry entry{getpid(), own->start_time, live::own_pid_namespace(), 999};
  home.put("7", entry.line());
  home.put("8", entry.line());
  const LiveView twice = reader.look();
  assert_int_equal(twice.programs.size(), 1);
  assert_true(twice.programs[0].state == LiveProgram::State::refused);
  assert_int_equal(weir_pool_destroy(pool), WEIR_SUCCESS);
  assert_int_equal(weir_context_destroy(context), WEIR_SUCCESS);
  assert_int_equal(weir_context_destroy(second), WEIR_SUCCESS);
}

/// A line may name whatever a process has open: nothing but a page is opened.
void lines_that_name_no_page(void **) {
  const LiveHome home;
  const LiveReader reader(home.where());
  int pipes[2] = {-1, -1};
  assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
  const MadeUpPage other(live::page_bytes, "something-else");
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (const int file : {pipes[0], null, other.file(), 12345}) {
    home.put(std::to_string(getpid()),
             live::Entry{getpid(), live::start_time_of(getpid()), live::own_pid_namespace(), file}
                 .line());
    const LiveView view = reader.look();
    assert_int_equal(view.programs.size(), 1);
    assert_true(view.programs[0].state == LiveProgram::State::refused);
    assert_true(contains(view.programs[0].reason, "/fd/" + std::to_string(file) + ": "));
    assert_false(view.programs[0].name.empty());
  }
  for (const int file : {pipes[0], pipes[1], null}) (void)close(file);
}

void lines_of_the_dead_go(void **) {
  const LiveHome home;
  const LiveReader reader(home.where());
  const uint64_t own = live::own_pid_namespace();
  const pid_t child = fork();
  if (child == 0) {
    (void)pause();
    _exit(0);
  }
  home.put(std::to_string(child), live::Entry{child, live::start_time_of(child), own, 5}.line());
  home.put("1.7", live::Entry{getpid(), 1, own, 5}.line());  // one that had our number
  home.put("99", live::Entry{99, 1, own + 1, 5}.line());     // somewhere else
  home.put("4194000", "nonsense");
  const LiveView before = reader.look();
  assert_true(find(before, child) != nullptr && find(before, getpid()) == nullptr);
  assert_true(before.elsewhere == 1 && before.unreadable == 1);
  assert_int_equal(home.files(), 3);
  assert_int_equal(kill(child, SIGKILL), 0);
  siginfo_t ended{};
  assert_int_equal(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  assert_null(find(reader.look(), child));  // though nobody has asked for its status
  assert_int_equal(home.files(), 2);
  assert_int_equal(waitpid(child, nullptr, 0), child);
  // What was never written whole goes when it is old enough.
  const timespec old[2] = {{1, 0}, {1, 0}};
  assert_int_equal(utimensat(AT_FDCWD, (home.folder_path() / "4194000").c_str(), old, 0), 0);
  const LiveView after = reader.look();
  assert_true(after.elsewhere == 1 && after.unreadable == 0);
  assert_int_equal(home.files(), 1);
}

/// A folder with other things in it: links, pipes, folders. Nothing of them is opened as a file, and nobody hangs.
void a_folder_with_other_things(void **) {
  const LiveHome home;
  const LiveReader reader(home.where());
  home.put("not-a-number", "x");
  assert_int_equal(mkfifo((home.folder_path() / "11").c_str(), 0600), 0);
  assert_int_equal(mkdir((home.folder_path() / "12").c_str(), 0700), 0);
  assert_int_equal(symlink("/etc/passwd", (home.folder_path() / "13").c_str()), 0);
  const LiveView view = reader.look();
  assert_true(view.programs.empty() && view.unreadable == 0 && home.files() == 4);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_good_page),
      cmocka_unit_test(each_wrong_value_is_named),
      cmocka_unit_test(files_that_are_no_pages),
      cmocka_unit_test(a_slot_that_is_always_being_written_is_busy),
      cmocka_unit_test(no_half_record_is_seen),
      cmocka_unit_test(a_change_between_reads_is_noticed),
      cmocka_unit_test(garbage_is_refused_or_within_bounds),
      cmocka_unit_test(programs_are_found),
      cmocka_unit_test(lines_that_name_no_page),
      cmocka_unit_test(lines_of_the_dead_go),
      cmocka_unit_test(a_folder_with_other_things),
  };
  return cmocka_run_group_tests_name("live", tests, nullptr, nullptr);
}
