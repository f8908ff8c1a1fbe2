// SPDX-License-Identifier: Apache-2.0
//
// The log: lines about a pool begin with its name, those on stderr have time and thread, and what was not destroyed is told: at INFO as a
// pool ends, at the process's end where WEIR_LOG asks for it, and by the context that can't end. For the process's end the program
// runs itself.

#include "tests/abi/pool_fixture.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <regex>

namespace {

using namespace weir::test;

struct Lines {
  std::vector<std::pair<int32_t, std::string>> all;
  static void add(void *user, int32_t level, const char *text) {
    static_cast<Lines *>(user)->all.emplace_back(level, text);
  }
  bool has(int32_t level, const char *words) const {
    return std::any_of(all.begin(), all.end(), [&](const auto &line) {
      return line.first == level && line.second.find(words) != std::string::npos;
    });
  }
};

weir_context logged_context(Lines *lines) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = small_host;
  desc.log = lines != nullptr ? Lines::add : nullptr;
  desc.log_user = lines;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  return context;
}

weir_pool named_pool(weir_context context, const char *name) {
  weir_pool_device device{};
  device.budget = 8 * page_bytes;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &device;
  desc.device_count = 1;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 8 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  desc.name = name;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  return pool;
}

weir_buffer named_buffer(weir_pool pool, const char *name, uint64_t pages) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = pages * page_bytes;
  desc.name = name;
  weir_buffer buffer = nullptr;
  ok(weir_buffer_create(pool, &desc, &buffer));
  return buffer;
}

void a_pool_says_what_it_ends_with(void **) {
  Lines lines;
  weir_context context = logged_context(&lines);
  weir_pool pool = named_pool(context, "training\n");
  weir_buffer gone = named_buffer(pool, "gone", 3);
  for (const uint32_t pages : {1U, 2U, 3U, 4U, 5U, 6U})
    (void)named_buffer(pool, pages == 1 ? nullptr : ("of " + std::to_string(pages)).c_str(), pages);
  ok(weir_buffer_destroy(pool, gone));
  ok(weir_pool_destroy(pool));
  assert_true(lines.has(WEIR_LOG_INFO,
                        "pool \"training\\x0a\": ends with what was not destroyed: 6 buffers"));
  assert_true(lines.has(WEIR_LOG_INFO, "\"of 6\""));
  assert_true(lines.has(WEIR_LOG_INFO, "and 1 more"));
  assert_false(lines.has(WEIR_LOG_INFO, "gone"));
  lines.all.clear();
  pool = named_pool(context, "empty");
  ok(weir_buffer_destroy(pool, named_buffer(pool, "gone", 1)));
  ok(weir_pool_destroy(pool));
  assert_false(lines.has(WEIR_LOG_INFO, "not destroyed"));
  ok(weir_context_destroy(context));
}

void a_context_that_cannot_end_names_its_pools(void **) {
  weir_context context = logged_context(nullptr);
  weir_pool first = named_pool(context, "first"), second = named_pool(context, nullptr);
  expect_result(WEIR_ERROR_BUSY, weir_context_destroy(context));
  assert_non_null(std::strstr(weir_last_error(), "\"first\""));
  assert_non_null(std::strstr(weir_last_error(), "\"pool\""));
  ok(weir_pool_destroy(first));
  ok(weir_pool_destroy(second));
  ok(weir_context_destroy(context));
}

/// What a run of this program in that manner prints on stderr, with that in WEIR_LOG.
std::string run_self(const char *manner, const char *level) {
  int ends[2] = {-1, -1};
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    (void)dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    if (level != nullptr)
      (void)setenv("WEIR_LOG", level, 1);
    else
      (void)unsetenv("WEIR_LOG");
    (void)execl("/proc/self/exe", "test_log", manner, nullptr);
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

/// The run: "leave" leaves all, "end" ends all, "fork" leaves all in a parent that has forked.
int leave(const char *manner) {
  weir_context context = logged_context(nullptr);
  weir_pool pool = named_pool(context, "left pool");
  weir_buffer buffer = named_buffer(pool, "left buffer", 2);
  weir_stream stream = nullptr;
  ok(weir_stream_create(context, 0, 0, &stream));
  if (std::strcmp(manner, "fork") == 0 && fork() == 0) std::exit(0);  // a child that ends as usual
  if (std::strcmp(manner, "end") != 0) return 0;
  ok(weir_buffer_destroy(pool, buffer));
  ok(weir_pool_destroy(pool));
  ok(weir_stream_close(stream));
  ok(weir_context_destroy(context));
  return 0;
}

size_t count(const std::string &text, const std::string &words) {
  size_t found = 0;
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++found;
  return found;
}

void the_end_of_the_process_tells_what_is_left(void **) {
  const std::string text = run_self("leave", "warning");
  const std::regex line(
      "weir: warning: [0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3} thread [0-9]+: pool \"left "
      "pool\" was not "
      "destroyed: 1 buffer of [^\n]*\"left buffer\"[^\n]*\n");
  if (!std::regex_search(text, line)) fail_msg("%s", text.c_str());
  assert_int_equal(count(text, "a context was not destroyed; it has 1 stream: number "), 1);
  assert_string_equal(run_self("end", "warning").c_str(), "");
  assert_string_equal(run_self("leave", nullptr).c_str(), "");
  assert_string_equal(run_self("leave", "error").c_str(), "");
  // Only the parent tells of it.
  assert_int_equal(count(run_self("fork", "warning"), "left buffer"), 1);
}

}  // namespace

int main(int argc, char **argv) {
  if (!Target::get().host()) return 77;  // the log is the context's, whatever the backend
  if (argc > 1) return leave(argv[1]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_pool_says_what_it_ends_with),
      cmocka_unit_test(a_context_that_cannot_end_names_its_pools),
      cmocka_unit_test(the_end_of_the_process_tells_what_is_left),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
