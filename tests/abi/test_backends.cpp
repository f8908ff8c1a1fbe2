// SPDX-License-Identifier: Apache-2.0
//
// Backends that are none, broken, hostile or stuck: each is told with its reason, and the others work on. The bad
// tables are copies of a good one, taken from the host backend's plugin, with one thing wrong.
#include "tests/abi/pool_fixture.hpp"

#include <weir/backend.h>

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>

// The address of a public function need not lie in the library: in a program that is linked to fixed addresses it may
// be the program's. The folder beside the library is found all the same.
extern "C" __attribute__((visibility("default"))) const char *weir_version_string(void) {
  return "the program's";
}

namespace weir::test {
namespace {

std::string host_plugin() {
  return std::string(std::getenv("WEIR_LIB_DIR")) + "/weir/1/libweir_backend_host.so";
}

const weir_backend_table *good_table() {
  static const weir_backend_table *table = [] {
    void *library = dlopen(host_plugin().c_str(), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *symbol = dlsym(library, WEIR_BACKEND_QUERY_SYMBOL);
    weir_backend_query_fn query = nullptr;
    std::memcpy(&query, &symbol, sizeof query);
    return query(WEIR_BACKEND_ABI_MAJOR);
  }();
  return table;
}

weir_backend_table bad_table;
const weir_backend_table *query_bad(uint32_t) { return &bad_table; }

/// A context of the built-in host backend and the bad one.
weir_result create(weir_context *context, uint64_t timeout_ns = 0, weir_log_callback log = nullptr,
                   void *user = nullptr) {
  static const weir_backend_query_fn backends[] = {query_bad};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.backends = backends;
  desc.backend_count = 1;
  desc.options = small_host;
  desc.start_timeout_ns = timeout_ns;
  desc.log = log;
  desc.log_user = user;
  return weir_context_create(&desc, context);
}

void refused_with(const char *words) {
  weir_context context = nullptr;
  expect_result(WEIR_ERROR_BACKEND, create(&context));
  assert_null(context);
  if (std::strstr(weir_last_error(), words) == nullptr)
    fail_msg("\"%s\" does not name \"%s\"", weir_last_error(), words);
}

void refused_path(const char *path, const char *words) {
  const char *paths[] = {path, nullptr};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = small_host;
  desc.backend_paths = paths;
  weir_context context = nullptr;
  expect_result(WEIR_ERROR_BACKEND, weir_context_create(&desc, &context));
  assert_null(context);
  if (std::strstr(weir_last_error(), words) == nullptr)
    fail_msg("\"%s\" does not name \"%s\"", weir_last_error(), words);
}

/// What a context says that has searched the folder beside the library.
std::string refusal_of(const char *options) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.options = options;
  weir_context context = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
  assert_null(context);
  return weir_last_error();
}

void a_bad_option_is_refused_in_the_backends_own_words(void **) {
  const std::filesystem::path folder = std::filesystem::path(host_plugin()).parent_path();
  for (const char *name : {"cuda", "hip", "level_zero"}) {
    const bool there = exists(folder / ("libweir_backend_" + std::string(name) + ".so"));
    const std::string words = refusal_of((std::string(name) + ".memry=1").c_str());
    const std::string wanted =
        there ? "backend " + std::string(name) + ": unknown option \"memry\""
              : "option \"" + std::string(name) + ".memry=1\" is for no backend of this context";
    if (words.rfind(wanted, 0) != 0)
      fail_msg("\"%s\" is not \"%s\"", words.c_str(), wanted.c_str());
  }
  assert_string_equal(refusal_of("nobody.memry=1").c_str(),
                      "option \"nobody.memry=1\" is for no backend of this context");
}

void another_abi_version_is_refused(void **) {
  bad_table = *good_table();
  bad_table.abi_major = WEIR_BACKEND_ABI_MAJOR + 1;
  refused_with("ABI");
}

void a_missing_required_entry_is_named(void **) {
  bad_table = *good_table();
  bad_table.fence_wait = nullptr;
  refused_with("fence_wait");
  // An older, smaller table has no entries beyond its end.
  bad_table = *good_table();
  bad_table.struct_size = offsetof(weir_backend_table, copy_async);
  refused_with("copy_async");
}

void half_a_group_is_refused(void **) {
  bad_table = *good_table();
  bad_table.unmap = nullptr;
  refused_with("physical memory");
  bad_table = *good_table();
  bad_table.granule_import = nullptr;
  refused_with("export");
}

void a_capability_needs_its_group(void **) {
  bad_table = *good_table();
  bad_table.copy_batch_async = nullptr;
  refused_with("copy_batch_async");
  bad_table = *good_table();
  bad_table.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
    const weir_result result = good_table()->device_describe(state, device, out);
    out->granule = 12345;
    return result;
  };
  refused_with("12345");
}

/// SHARED_RANGE has no entries of its own: it stands on those of VMM and PEER.
template <uint64_t Lacking>
void shared_ranges_without() {
  bad_table = *good_table();
  bad_table.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
    const weir_result result = good_table()->device_describe(state, device, out);
    out->capabilities = (out->capabilities | WEIR_CAP_SHARED_RANGE) & ~Lacking;
    return result;
  };
  refused_with("SHARED_RANGE, which needs VMM and PEER");
}

void shared_ranges_need_mapping_and_peers(void **) {
  shared_ranges_without<WEIR_CAP_VMM>();
  shared_ranges_without<WEIR_CAP_PEER>();
}

void a_library_that_is_no_backend_is_refused(void **) {
  const std::string library = std::string(std::getenv("WEIR_LIB_DIR")) + "/libweir.so";
  refused_path(library.c_str(), "not a Weir backend");
  refused_path("/etc/passwd", "/etc/passwd");
  refused_path("/nonexistent/libweir_backend_none.so", "No such file");
}

void a_place_where_all_may_write_is_refused(void **) {
  char name[] = "/tmp/weir-backend-XXXXXX";
  assert_non_null(mkdtemp(name));
  const std::filesystem::path folder = name;
  const std::filesystem::path inner = folder / "inner";
  std::filesystem::create_directory(inner);
  const std::filesystem::path copy = inner / "libweir_backend_copy.so";
  std::filesystem::copy_file(host_plugin(), copy);
  const std::string link = folder / "link.so";
  std::filesystem::create_symlink(copy, link);
  assert_int_equal(chmod(copy.c_str(), 0644), 0);

  assert_int_equal(chmod(inner.c_str(), 0777), 0);
  refused_path(copy.c_str(), "inner can be written by every user");
  refused_path(link.c_str(), "inner can be written by every user");  // where it leads counts
  assert_int_equal(chmod(inner.c_str(), 01777), 0);
  refused_path(copy.c_str(), "inner can be written by every user");
  assert_int_equal(chmod(inner.c_str(), 0755), 0);
  assert_int_equal(chmod(folder.c_str(), 0777), 0);
  refused_path(copy.c_str(), "can be written by every user");
  assert_int_equal(chmod(folder.c_str(), 0755), 0);
  assert_int_equal(chmod(copy.c_str(), 0666), 0);
  refused_path(copy.c_str(), "libweir_backend_copy.so can be written by every user");

  // As it should be, it is taken: /tmp above is writable, but sticky.
  assert_int_equal(chmod(copy.c_str(), 0644), 0);
  const char *paths[] = {copy.c_str(), nullptr};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_NO_HOST_BACKEND;
  desc.options = small_host;
  desc.backend_paths = paths;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  ok(weir_context_destroy(context));
  std::filesystem::remove_all(folder);
}

/// A runtime that does not come back until it is let.
struct Hang {
  std::mutex mutex;
  std::condition_variable changed;
  bool let_go = false;
  int stopped = 0;
  void end() {
    std::unique_lock hold(mutex);
    let_go = true;
    changed.notify_all();
    changed.wait(hold, [this] { return stopped != 0; });
  }
} hang;

void count_line(void *user, int32_t, const char *) { ++*static_cast<int *>(user); }

void a_runtime_that_hangs_is_given_up(void **) {
  bad_table = *good_table();
  bad_table.name = "stuck";
  bad_table.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
    std::unique_lock hold(hang.mutex);
    hang.changed.wait(hold, [] { return hang.let_go; });
    hold.unlock();
    if (desc->log != nullptr) desc->log(desc->log_user, WEIR_LOG_INFO, "nobody listens any more");
    return good_table()->start(desc, state, reason);
  };
  bad_table.stop = [](weir_be_state *state) {
    good_table()->stop(state);
    const std::lock_guard hold(hang.mutex);
    ++hang.stopped;
    hang.changed.notify_all();
  };
  weir_context context = nullptr;
  int lines = 0;
  ok(create(&context, 1'500'000'000, count_line,
            &lines));  // the good one must make it on a busy machine
  uint32_t count = 0;
  ok(weir_backend_count(context, &count));
  assert_int_equal(count, 2);
  weir_backend_info info = WEIR_BACKEND_INFO_INIT;
  ok(weir_backend_info_get(context, 1, &info));
  assert_string_equal(info.name, "stuck");
  assert_int_equal(info.available, 0);
  assert_non_null(std::strstr(info.reason, "1.5 seconds"));
  // The other one works on.
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 1);
  const int before = lines;
  ok(weir_context_destroy(context));
  // It comes back at last, when nobody needs it: it is stopped, and its log goes nowhere.
  hang.end();
  assert_int_equal(lines, before);
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_bad_option_is_refused_in_the_backends_own_words),
      cmocka_unit_test(another_abi_version_is_refused),
      cmocka_unit_test(a_missing_required_entry_is_named),
      cmocka_unit_test(half_a_group_is_refused),
      cmocka_unit_test(a_capability_needs_its_group),
      cmocka_unit_test(shared_ranges_need_mapping_and_peers),
      cmocka_unit_test(a_library_that_is_no_backend_is_refused),
      cmocka_unit_test(a_place_where_all_may_write_is_refused),
      cmocka_unit_test(a_runtime_that_hangs_is_given_up),
  };
  return cmocka_run_group_tests_name("backends", tests, nullptr, nullptr);
}
