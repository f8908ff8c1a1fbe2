// SPDX-License-Identifier: Apache-2.0
//
// Ranges through the C ABI: what profilers are told of slow acquires, their waits, evictions and moves, under threads, refusals and to
// the process's end; nothing where nobody asked. The profilers' libraries are fakes that note what they are told (tests/drivers).
//
// A process loads NVTX's library once, so the first test is the one in which nobody asks for it.

#include "tests/abi/pool_fixture.hpp"
#include "tests/drivers/ranges/range_log.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

namespace {

using namespace weir::test;

std::string driver_path(const std::string &name) {
  const char *folder = std::getenv("WEIR_LIB_DIR");
  return std::string(folder != nullptr ? folder : "lib") + "/drivers/lib" + name + ".so";
}
/// Whether the library under test has been built with NVTX's header: then there is a fake, too.
bool has_nvtx() {
#ifdef WEIR_TEST_NVTX
  return true;
#else
  return false;
#endif
}

void *loaded(const std::string &name) {
  return dlopen(driver_path(name).c_str(), RTLD_NOW | RTLD_NOLOAD);
}

/// What a fake has noted, once it is loaded.
RangeLog &log_of(const std::string &name) {
  void *const library = loaded(name);
  if (library == nullptr) fail_msg("%s is not loaded", name.c_str());
  using Get = RangeLog *();
  return *reinterpret_cast<Get *>(dlsym(library, "weir_test_range_log"))();
}
/// Of both, or of roctx's alone.
std::vector<RangeLog *> logs() {
  std::vector<RangeLog *> all{&log_of("weir_watched_roctx")};
  if (has_nvtx()) all.push_back(&log_of("weir_watched_nvtx"));
  return all;
}

void ask(bool on) {
  for (const char *variable : {"WEIR_NVTX", "WEIR_ROCTX"})
    on ? (void)setenv(variable, "1", 1) : (void)unsetenv(variable);
}

World watched_world(const Setup &setup) {
  ask(true);
  World world(setup);
  ask(false);
  for (RangeLog *log : logs()) log->clear();
  return world;
}

weir_buffer named(World &world, const char *name, uint64_t bytes) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = bytes;
  desc.name = name;
  weir_buffer made = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &made));
  return made;
}

void end(World &world) {
  world.close();
  for (RangeLog *log : logs()) {
    assert_string_equal(log->wrong().c_str(), "");
    assert_int_equal(log->pushes(), log->pops());
  }
}

/// roctx's texts begin with "weir: ", which is taken off here.
std::string text_of(const RangeEvent &event) {
  if (!event.domain.empty()) {
    assert_string_equal(event.domain.c_str(), "weir");
    return event.text;
  }
  assert_int_equal(event.text.rfind("weir: ", 0), 0);
  return event.text.substr(6);
}

/// The names of the ranges that were open as one with that beginning began, the outermost first; {} if none did.
std::vector<std::string> stack_at(const RangeLog &log, const std::string &beginning) {
  std::map<uint32_t, std::vector<std::string>> open;
  for (const RangeEvent &event : log.events()) {
    std::vector<std::string> &own = open[event.thread];
    if (!event.begins) {
      own.pop_back();
      continue;
    }
    own.push_back(text_of(event));
    if (own.back().rfind(beginning, 0) == 0) return own;
  }
  return {};
}

std::string all_of(const RangeLog &log) {
  std::string text;
  for (const RangeEvent &event : log.events())
    text += (event.begins ? "+" : "-") + event.text + "\n";
  return text;
}

void nobody_asked(void **) {
  ask(false);
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer first = world.buffer(3 * page_bytes), second = world.buffer(3 * page_bytes);
  world.fill(first, 3 * page_bytes, 1);
  world.fill(second, 3 * page_bytes, 2);
  world.check(first, 3 * page_bytes, 1);
  assert_true(world.stats().demoted_bytes > 0);
  world.close();
  assert_null(loaded("weir_watched_nvtx"));
  assert_null(loaded("weir_watched_roctx"));
}

void an_acquire_that_waits_names_its_buffer_and_why(void **) {
  World world = watched_world({.device_pages = 4, .host_pages = 16});
  weir_buffer first = named(world, "first", 3 * page_bytes);
  weir_buffer second = named(world, "second", 3 * page_bytes);
  world.fill(first, 3 * page_bytes, 1);
  world.fill(second, 3 * page_bytes, 2);
  for (RangeLog *log : logs()) log->clear();
  world.check(first, 3 * page_bytes, 1);  // of which a page is there still
  for (RangeLog *log : logs()) {
    const std::vector<std::string> round = stack_at(*log, "evict ");
    const std::vector<std::string> fill = stack_at(*log, "fill ");
    if (round.size() != 3 || fill.size() < 2) fail_msg("ranges: %s", all_of(*log).c_str());
    assert_string_equal(round[0].c_str(), "acquire \"first\", pool \"pool\"");
    assert_string_equal(round[1].c_str(), "eviction");
    assert_non_null(std::strstr(round[2].c_str(), " pages, device 0, pool \"pool\""));
    assert_string_equal(fill[0].c_str(), "acquire \"first\", pool \"pool\"");
    // Where copies take their time, as those of large pages do, a page comes up as soon as there is room for it, within the eviction.
    if (fill.size() == 2)
      assert_string_equal(fill[1].c_str(), "fill 2 pages, device 0, demand, pool \"pool\"");
    assert_non_null(std::strstr(fill.back().c_str(), " pages, device 0, demand, pool \"pool\""));
  }
  // What is there is the hit path's, which tells nothing.
  for (RangeLog *log : logs()) log->clear();
  for (int i = 0; i < 3; ++i) world.check(first, 3 * page_bytes, 1);
  for (RangeLog *log : logs()) assert_string_equal(all_of(*log).c_str(), "");
  end(world);
}

void sets_and_names_as_they_are(void **) {
  World world = watched_world({.device_pages = 4, .host_pages = 16});
  weir_buffer hostile = named(world, "a\nb\x1b[31m", page_bytes);
  weir_buffer plain = world.buffer(page_bytes);
  weir_use uses[2] = {WEIR_USE(hostile, WEIR_READ), WEIR_USE(plain, WEIR_READ)};
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  for (RangeLog *log : logs()) {
    const std::vector<std::string> found = stack_at(*log, "acquire");
    assert_true(!found.empty());
    assert_string_equal(found[0].c_str(), "acquire \"a\\x0ab\\x1b[31m\", 2 buffers, pool \"pool\"");
  }
  end(world);
}

void refusals_end_their_ranges(void **) {
  World world = watched_world({.device_pages = 4, .host_pages = 16});
  weir_buffer large = world.buffer(8 * page_bytes), held = world.buffer(3 * page_bytes);
  weir_buffer wanted = world.buffer(3 * page_bytes), gone = world.buffer(page_bytes);
  ok(weir_buffer_destroy(world.pool, gone));
  weir_lease lease = nullptr, none = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &none));
  expect_result(WEIR_ERROR_INVALID_HANDLE, world.acquire(gone, WEIR_READ, &none));
  ok(world.acquire(held, WEIR_READ, &lease));
  weir_use use = WEIR_USE(wanted, WEIR_READ);
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.timeout_ns = 0;
  expect_result(WEIR_ERROR_WOULD_BLOCK,
                weir_acquire(world.pool, world.streams[0], &use, 1, &options, &none));
  options.timeout_ns = 1'000'000;
  expect_result(WEIR_ERROR_TIMEOUT,
                weir_acquire(world.pool, world.streams[0], &use, 1, &options, &none));
  for (RangeLog *log : logs()) {
    assert_true(stack_at(*log, "room").size() >= 2);
    assert_string_equal(log->wrong().c_str(), "");  // by now, not only at the end
  }
  ok(weir_release(lease, world.streams[0]));
  end(world);
}

void threads_nest_their_own(void **) {
  // Two threads' buffers do not fit on the device, nor all of them into HOST.
  World world = watched_world(
      {.device_pages = 8, .host_pages = 8, .flags = 0, .compressed_pages = 8, .storage_pages = 64});
  constexpr size_t threads = 6, turns = 40;
  std::vector<weir_buffer> buffers;
  std::vector<weir_stream> streams(threads, nullptr);
  for (size_t i = 0; i < threads; ++i) {
    buffers.push_back(world.buffer(3 * page_bytes));
    world.fill(buffers.back(), 3 * page_bytes, static_cast<uint32_t>(i));
    ok(weir_stream_create(world.context, 0, 0, &streams[i]));
  }
  std::vector<std::thread> all;
  std::atomic<uint32_t> wrong{0};
  for (size_t i = 0; i < threads; ++i)
    all.emplace_back([&, i] {
      for (size_t turn = 0; turn < turns; ++turn) {
        weir_use use = WEIR_USE(buffers[(i + turn) % threads], WEIR_READ);
        weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
        options.timeout_ns = turn % 3 == 0 ? 0 : UINT64_C(60'000'000'000);
        weir_lease lease = nullptr;
        const weir_result got = weir_acquire(world.pool, streams[i], &use, 1, &options, &lease);
        if (got == WEIR_SUCCESS ? weir_release(lease, streams[i]) != WEIR_SUCCESS
                                : got != WEIR_ERROR_WOULD_BLOCK)
          ++wrong;
      }
    });
  for (std::thread &thread : all) thread.join();
  assert_int_equal(wrong.load(), 0);
  for (size_t i = 0; i < threads; ++i) {
    world.check_read(buffers[i], 3 * page_bytes, static_cast<uint32_t>(i));
    ok(weir_stream_close(streams[i]));
  }
  std::vector<RangeLog *> told = logs();
  for (RangeLog *log : told) {
    std::vector<uint32_t> seen;
    for (const RangeEvent &event : log->events()) seen.push_back(event.thread);
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    assert_true(seen.size() > threads);  // those, and at least this one
    assert_true(!stack_at(*log, "demote ").empty());
    assert_true(!stack_at(*log, "evict ").empty());
  }
  end(world);
}

void an_asynchronous_acquire_tells_it_where_it_runs(void **) {
  World world = watched_world({.device_pages = 4, .host_pages = 16});
  weir_buffer buffer = named(world, "later", 3 * page_bytes);
  struct Answer {
    weir_lease lease = nullptr;
    weir_result result = WEIR_NOT_READY;
  } answer;
  const auto callback = [](void *user, weir_result result, weir_lease lease) {
    *static_cast<Answer *>(user) = {lease, result};
  };
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_request request = nullptr;
  ok(weir_acquire_async(world.pool, world.streams[0], &use, 1, nullptr, callback, &answer,
                        &request));
  ok(weir_request_wait(request, nullptr));
  weir_request_close(request);
  ok(answer.result);
  ok(weir_release(answer.lease, world.streams[0]));
  for (RangeLog *log : logs()) assert_true(!stack_at(*log, "acquire \"later\"").empty());
  end(world);
}

void who_asked_is_told_and_nobody_else(void **) {
  World watched = watched_world({.device_pages = 4, .host_pages = 16});
  World other({.device_pages = 4, .host_pages = 16});
  weir_buffer buffer = named(other, "unseen", 3 * page_bytes);
  weir_lease lease = nullptr;
  ok(other.acquire(buffer, WEIR_READ, &lease));
  ok(weir_release(lease, other.streams[0]));
  for (RangeLog *log : logs()) assert_string_equal(all_of(*log).c_str(), "");
  weir_buffer seen = named(watched, "seen", 3 * page_bytes);
  ok(watched.acquire(seen, WEIR_READ, &lease));
  ok(weir_release(lease, watched.streams[0]));
  for (RangeLog *log : logs()) assert_true(!stack_at(*log, "acquire \"seen\"").empty());
  other.close();
  end(watched);
}

/// Of buffers about that large, every fourth stays; then the pool is defragmented.
weir_defragment_report thin_out(uint64_t buffer_bytes, size_t count) {
  World world = watched_world({.device_pages = 64, .host_pages = 128});
  std::vector<weir_buffer> buffers;
  for (size_t i = 0; i < count; ++i) {
    weir_lease lease = nullptr;
    buffers.push_back(world.buffer(buffer_bytes + 300 * i));
    ok(world.acquire(buffers.back(), WEIR_DISCARD_WRITE, &lease));
    ok(weir_release(lease, world.streams[0]));
  }
  for (size_t i = 0; i < count; ++i)
    if (i % 4 != 1) ok(weir_buffer_destroy(world.pool, buffers[i]));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, nullptr));
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.flags = WEIR_DEFRAGMENT_WAIT;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  for (RangeLog *log : logs()) {
    const bool places = all_of(*log).find(" places, device 0, pool") != std::string::npos;
    const bool parts = !stack_at(*log, "compact a part of a buffer, device 0").empty();
    if (places != (report.copy_moves > 0) || parts != (report.remap_moves > 0))
      fail_msg("%s", all_of(*log).c_str());
  }
  end(world);
  return report;
}

void compacting_has_ranges(void **) {
  const weir_defragment_report slabs = thin_out(page_bytes / 16, 20);
  const weir_defragment_report parts = thin_out(page_bytes + page_bytes / 8, 40);
  if (!Target::get().host()) return;  // others' pages may not be shared
  assert_true(slabs.copy_moves > 0);
  assert_true(parts.remap_moves > 0);
}

// ---- what the log is told, and the process's end: in processes of their own ----

/// Runs this program so with these variables, and returns what came on stderr.
std::string run_self(const char *manner,
                     const std::vector<std::pair<const char *, std::string>> &environment) {
  int ends[2] = {-1, -1};
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    (void)dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    ask(false);
    for (const auto &[name, value] : environment)
      value.empty() ? (void)unsetenv(name) : (void)setenv(name, value.c_str(), 1);
    (void)execl("/proc/self/exe", "test_profilers", manner, nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t got = 0; (got = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("%s: status %#x: %s", manner, static_cast<unsigned>(status), text.c_str());
  return text;
}

/// The run: some work; "leave" leaves everything as it is.
int work(const char *manner) {
  const bool leaves = std::strcmp(manner, "leave") == 0;
  // A thread of the pool's own could be within a range as the process ends.
  const uint64_t flags = leaves ? WEIR_POOL_NO_BACKGROUND : 0;
  World world({.device_pages = 4, .host_pages = 16, .flags = flags});
  weir_buffer first = world.buffer(3 * page_bytes), second = world.buffer(3 * page_bytes);
  world.fill(first, 3 * page_bytes, 1);
  world.fill(second, 3 * page_bytes, 2);
  if (!leaves) world.close();
  return 0;
}

void expect_words(const std::string &text, const std::string &words) {
  if (text.find(words) == std::string::npos)
    fail_msg("'%s' is not in: %s", words.c_str(), text.c_str());
}

void the_log_says_why_there_are_none(void **) {
  const std::string wrong = run_self("end", {{"WEIR_LOG", "warning"}, {"WEIR_NVTX", "yes"}});
  expect_words(wrong, "weir: warning: ");
  expect_words(wrong, "WEIR_NVTX is \"yes\", and not read: it is 1 or 0");
  const std::string off =
      run_self("end", {{"WEIR_LOG", "info"}, {"WEIR_NVTX", "0"}, {"WEIR_ROCTX", ""}});
  if (off.find("TX") != std::string::npos) fail_msg("%s", off.c_str());
}

void roctx_is_not_there(void **) {
  const std::string missing = "/there/is/no/libroctx64.so";
  expect_words(
      run_self("end",
               {{"WEIR_LOG", "warning"}, {"WEIR_ROCTX", "1"}, {"WEIR_ROCTX_LIBRARY", missing}}),
      "WEIR_ROCTX: no ranges: " + missing);
  const std::string another = driver_path("weir_hip_bare");
  expect_words(
      run_self("end",
               {{"WEIR_LOG", "warning"}, {"WEIR_ROCTX", "1"}, {"WEIR_ROCTX_LIBRARY", another}}),
      another + " has no roctxRangePushA and roctxRangePop");
}

void nvtx_has_no_profiler(void **) {
  const char *const injection = "NVTX_INJECTION64_PATH";
  if (!has_nvtx()) {
    expect_words(run_self("end", {{"WEIR_LOG", "warning"}, {"WEIR_NVTX", "1"}}),
                 "WEIR_NVTX: no ranges: this library was built without NVTX's header");
    return;
  }
  const std::string none =
      run_self("end", {{"WEIR_LOG", "info"}, {"WEIR_NVTX", "1"}, {injection, ""}});
  expect_words(none, "weir: info: ");
  expect_words(none, "WEIR_NVTX: no ranges: no profiler that takes NVTX is in this process");
  const std::string bad = run_self(
      "end", {{"WEIR_LOG", "warning"}, {"WEIR_NVTX", "1"}, {injection, "/there/is/none.so"}});
  expect_words(bad,
               "WEIR_NVTX: no ranges: the library of NVTX_INJECTION64_PATH, '/there/is/none.so'");
}

/// Pushes and pops by the file that a fake has left.
void check_report(const std::string &path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  unsigned long long pushes = 0, pops = 0;
  if (std::sscanf(text.c_str(), "pushes %llu pops %llu", &pushes, &pops) != 2)
    fail_msg("%s: '%s'", path.c_str(), text.c_str());
  assert_true(pushes > 0);
  assert_int_equal(pushes, pops);
  expect_words(text, "wrong ''");
}

void the_end_of_the_process_finds_all_ended(void **) {
  const std::string folder = spill_folder();
  const std::string base = folder + "/weir_ranges_" + std::to_string(getpid());
  for (const char *manner : {"end", "leave"}) {
    // A simulated machine is to be left empty.
    if (std::strcmp(manner, "leave") == 0 && !Target::get().host()) continue;
    (void)run_self(manner, {{"WEIR_NVTX", "1"},
                            {"WEIR_ROCTX", "1"},
                            {"WEIR_TEST_NVTX_REPORT", base + ".nvtx"},
                            {"WEIR_TEST_ROCTX_REPORT", base + ".roctx"}});
    check_report(base + ".roctx");
    if (has_nvtx()) check_report(base + ".nvtx");
    (void)unlink((base + ".roctx").c_str());
    (void)unlink((base + ".nvtx").c_str());
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) return work(argv[1]);
  (void)setenv("NVTX_INJECTION64_PATH", driver_path("weir_watched_nvtx").c_str(), 1);
  (void)setenv("WEIR_ROCTX_LIBRARY", driver_path("weir_watched_roctx").c_str(), 1);
  const CMUnitTest tests[] = {
      cmocka_unit_test(nobody_asked),
      cmocka_unit_test(an_acquire_that_waits_names_its_buffer_and_why),
      cmocka_unit_test(sets_and_names_as_they_are),
      cmocka_unit_test(refusals_end_their_ranges),
      cmocka_unit_test(threads_nest_their_own),
      cmocka_unit_test(an_asynchronous_acquire_tells_it_where_it_runs),
      cmocka_unit_test(who_asked_is_told_and_nobody_else),
      cmocka_unit_test(compacting_has_ranges),
      cmocka_unit_test(the_log_says_why_there_are_none),
      cmocka_unit_test(roctx_is_not_there),
      cmocka_unit_test(nvtx_has_no_profiler),
      cmocka_unit_test(the_end_of_the_process_finds_all_ended),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
