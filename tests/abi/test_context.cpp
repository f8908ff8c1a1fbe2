// SPDX-License-Identifier: Apache-2.0
//
// Contexts, backends, devices, links, streams and errors through the C ABI: what is offered, what is refused
// and with which words. It must not look behind the public headers.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

void versions_and_words(void **) {
  assert_string_equal(weir_version_string(), "1.0.0");
  assert_string_equal(weir_result_string(WEIR_SUCCESS), "success");
  assert_string_equal(weir_result_string(WEIR_ERROR_OVER_BUDGET), "over budget");
  assert_string_equal(weir_result_string(-9999), "unknown result");
  for (weir_result r = -20; r <= 1; ++r) {
    if (r != -19) assert_string_not_equal(weir_result_string(r), "unknown result");
  }
}

/// What a backend tells of itself and of its devices; the host backend and simulated machines are made as the options say.
void devices_are_as_configured(void **) {
  weir_context context =
      make_context("host.devices=2;host.memory=4M;host.granule=16K;host.granule_large=0");
  const Target &target = Target::get();
  uint32_t backends = 0;
  ok(weir_backend_count(context, &backends));
  assert_int_equal(backends, 1);
  weir_backend_info backend = WEIR_BACKEND_INFO_INIT;
  ok(weir_backend_info_get(context, 0, &backend));
  assert_int_equal(backend.available, 1);
  assert_int_equal(backend.first_device, 0);
  assert_string_equal(backend.name, target.name().c_str());
  assert_string_equal(backend.reason, "");
  assert_string_equal(backend.path, target.host() ? "built-in" : "linked");
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_backend_info_get(context, 1, &backend));
  uint32_t count = 0;
  ok(weir_device_count(context, &count));
  assert_int_equal(count, backend.device_count);
  assert_true(target.real() ? count >= 1 : count == 2);
  weir_device_info device = WEIR_DEVICE_INFO_INIT;
  for (weir_device each = 0; each < count; ++each) {
    ok(weir_device_info_get(context, each, &device));
    assert_int_equal(device.backend, 0);
    const bool vmm = (device.capabilities & WEIR_CAP_VMM) != 0;
    assert_true(vmm ? device.granule != 0 && page_bytes % device.granule == 0
                    : device.granule == 0);
    assert_true(device.memory_total >= page_bytes);
    assert_true(device.name[0] != '\0');
  }
  if (target.host()) {
    assert_int_equal(device.memory_total, 4U << 20U);
    assert_int_equal(device.granule, page_bytes);
    assert_true((device.capabilities & WEIR_CAP_HOST_ACCESS) != 0);
  }
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_device_info_get(context, count, &device));
  assert_non_null(std::strstr(weir_last_error(), std::to_string(count).c_str()));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_device_count(context, nullptr));
  ok(weir_context_destroy(context));
}

void links_between_places(void **) {
  weir_context context = make_context(
      "host.devices=2;host.memory=4M;host.granule=16K;host.granule_large=0;"
      "host.link_bandwidth=5G;host.link_latency_ns=700");
  uint32_t count = 0;
  ok(weir_device_count(context, &count));
  weir_link_info link = WEIR_LINK_INFO_INIT;
  ok(weir_link_info_get(context, WEIR_DEVICE_HOST, 0, &link));
  assert_int_not_equal(link.kind, WEIR_LINK_NONE);
  if (Target::get().host()) {
    assert_int_equal(link.bandwidth, 5000000000U);
    assert_int_equal(link.latency_ns, 700);
  }
  const weir_device last = count - 1;
  ok(weir_link_info_get(context, 0, last, &link));
  ok(weir_link_info_get(context, last, last, &link));
  assert_int_equal(link.kind, WEIR_LINK_SAME);
  ok(weir_link_info_get(context, WEIR_DEVICE_HOST, WEIR_DEVICE_HOST, &link));
  const weir_device none = count + 5;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_link_info_get(context, 0, none, &link));
  assert_non_null(std::strstr(weir_last_error(), std::to_string(none).c_str()));
  ok(weir_context_destroy(context));
}

/// A context that must not come to be; the message must name the value at fault.
void refused(const char *options, const char *named) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = options;
  auto *const untouched = reinterpret_cast<weir_context>(uintptr_t{0x10});
  weir_context context = untouched;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
  assert_ptr_equal(context, untouched);
  if (std::strstr(weir_last_error(), named) == nullptr)
    fail_msg("\"%s\" does not name \"%s\"", weir_last_error(), named);
}

void wrong_options_are_named(void **) {
  refused("host.memroy=4M", "memroy");
  refused("nobody.key=1", "nobody");
  refused("host.memory", "memory");
}

void wrong_descriptors_are_refused(void **) {
  weir_context context = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(nullptr, nullptr));
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.options = small_host;
  desc.flags = UINT64_C(1) << 40U;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.allocator.allocate = [](void *, size_t, size_t) -> void * { return nullptr; };
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
  desc.allocator.deallocate = [](void *, void *, size_t, size_t) {};
  expect_result(WEIR_ERROR_OUT_OF_HOST_MEMORY, weir_context_create(&desc, &context));
  for (void *&reserved : desc.allocator.reserved) {
    reserved = &context;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
    assert_non_null(std::strstr(weir_last_error(), "reserved"));
    reserved = nullptr;
  }
  desc.allocator = {};
  desc.struct_size = 2;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
  assert_null(context);
}

struct Warnings {
  std::vector<std::string> lines;
  static void note(void *user, int32_t level, const char *text) {
    if (level == WEIR_LOG_WARNING) static_cast<Warnings *>(user)->lines.emplace_back(text);
  }
};

/// A program's options win over the environment's, but not in silence; the same ones, or none, are no news.
void options_that_are_not_read_are_told(void **) {
  struct {
    const char *environment, *given;
    bool told;
  } const cases[] = {
      {"host.devices=3", "host.memory=4M", true},
      {"host.devices=3", "", true},
      {"host.memory=4M", "host.memory=4M", false},
      {"host.memory=4M", nullptr, false},
      {"", "host.memory=4M", false},
      {nullptr, "host.memory=4M", false},
  };
  for (const auto &each : cases) {
    if (each.environment != nullptr)
      assert_int_equal(setenv("WEIR_OPTIONS", each.environment, 1), 0);
    else
      assert_int_equal(unsetenv("WEIR_OPTIONS"), 0);
    Warnings warnings;
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH;
    desc.options = each.given;
    desc.log = Warnings::note;
    desc.log_user = &warnings;
    weir_context context = nullptr;
    uint32_t count = 0;
    ok(weir_context_create(&desc, &context));
    ok(weir_device_count(context, &count));
    assert_int_equal(count, 1);
    ok(weir_context_destroy(context));
    std::vector<std::string> &lines = warnings.lines;
    std::erase_if(lines, [](const auto &line) { return line.find("WEIR_OPTIONS") == line.npos; });
    assert_int_equal(lines.size(), each.told ? 1 : 0);
    if (!each.told) continue;
    assert_true(lines[0].find(each.environment) != std::string::npos);
    assert_true(lines[0].find(each.given) != std::string::npos);
  }
  assert_int_equal(unsetenv("WEIR_OPTIONS"), 0);
}

/// What goes to stderr while a context asks for a device by a wish (INFO) and ignores WEIR_OPTIONS (WARNING).
std::string logged_with(const char *level) {
  assert_int_equal(setenv("WEIR_LOG", level, 1), 0);
  std::FILE *file = std::tmpfile();
  assert_non_null(file);
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  assert_true(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
  weir_context context = make_context("host.memory=4M");
  weir_device device = 0;
  const weir_result found = weir_device_find(context, Target::get().name().c_str(), &device);
  std::fflush(stderr);
  assert_true(dup2(before, STDERR_FILENO) >= 0);
  close(before);
  ok(found);
  ok(weir_context_destroy(context));
  assert_int_equal(unsetenv("WEIR_LOG"), 0);
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  assert_int_equal(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

void weir_log_names_a_level(void **) {
  assert_int_equal(setenv("WEIR_OPTIONS", "host.devices=3", 1), 0);
  struct {
    const char *level;
    bool warnings, info;
  } const cases[] = {{"1", true, false},     {"", true, false},    {"warning", true, false},
                     {"INFO", true, false},  {"info", true, true}, {"debug", true, true},
                     {"error", false, false}};
  for (const auto &each : cases) {
    const std::string text = logged_with(each.level);
    assert_int_equal(text.find("weir: warning: ") != text.npos, each.warnings);
    assert_int_equal(text.find("weir: info: ") != text.npos, each.info);
  }
  assert_int_equal(unsetenv("WEIR_OPTIONS"), 0);
}

void options_come_from_the_environment(void **) {
  assert_int_equal(setenv("WEIR_OPTIONS", "host.devices=3;host.memory=4M", 1), 0);
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  weir_context context = nullptr;
  uint32_t count = 0;
  ok(weir_context_create(&desc, &context));
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 3);
  ok(weir_context_destroy(context));
  desc.options = "host.memory=4M";  // given ones are not mixed with it
  ok(weir_context_create(&desc, &context));
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 1);
  ok(weir_context_destroy(context));
  assert_int_equal(unsetenv("WEIR_OPTIONS"), 0);
}

void missing_arguments_are_named(void **) {
  World world;
  weir_stream stream = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_backend_count(world.context, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_device_info_get(world.context, 0, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_backend_info_get(world.context, 0, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_link_info_get(world.context, 0, 0, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_stream_create(world.context, 0, 0, nullptr));
  // NULL is the default stream of CUDA and HIP.
  const std::string &backend = Target::get().name();
  if (backend != "cuda" && backend != "hip")
    expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                  weir_stream_wrap(world.context, 0, nullptr, 0, &stream));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_stream_native(world.streams[0], nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_last_error_info(nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_stats_get(world.pool, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_device_stats_get(world.pool, 0, nullptr));
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.backend_count = 1;
  weir_context context = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
  assert_null(context);
  world.close();
}

/// An error is its thread's own.
void errors_belong_to_their_thread(void **) {
  World world;
  uint32_t count = 0;
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_device_count(nullptr, &count));
  std::string other = "unset";
  std::thread([&other] { other = weir_last_error(); }).join();
  assert_string_equal(other.c_str(), "");
  assert_int_equal(last_error().result, WEIR_ERROR_INVALID_HANDLE);
  world.close();
}

void a_missing_backend_library_is_told(void **) {
  const char *paths[] = {"/nonexistent/libweir_backend_none.so", nullptr};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = small_host;
  desc.backend_paths = paths;
  weir_context context = nullptr;
  expect_result(WEIR_ERROR_BACKEND, weir_context_create(&desc, &context));
  assert_non_null(std::strstr(weir_last_error(), "libweir_backend_none.so"));
}

void no_host_backend_means_no_devices(void **) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_NO_HOST_BACKEND;
  desc.options = "";
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  uint32_t count = 9;
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 0);
  ok(weir_context_destroy(context));
}

void handles_are_checked(void **) {
  uint32_t count = 0;
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_device_count(nullptr, &count));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_stream_synchronize(nullptr));
  ok(weir_context_destroy(nullptr));
  ok(weir_stream_close(nullptr));
  ok(weir_pool_destroy(nullptr));
  ok(weir_client_destroy(nullptr));
  weir_request_close(nullptr);
}

void a_context_in_use_is_busy(void **) {
  weir_context context = make_context(small_host);
  weir_stream stream = nullptr;
  ok(weir_stream_create(context, 0, 0, &stream));
  expect_result(WEIR_ERROR_BUSY, weir_context_destroy(context));
  assert_non_null(std::strstr(weir_last_error(), "still has 1 stream: number "));
  assert_non_null(std::strstr(weir_last_error(), " on device 0"));
  weir_stream more[9];
  for (weir_stream &each : more) ok(weir_stream_create(context, WEIR_DEVICE_HOST, 0, &each));
  expect_result(WEIR_ERROR_BUSY, weir_context_destroy(context));
  assert_non_null(std::strstr(weir_last_error(), "10 streams: "));
  assert_non_null(std::strstr(weir_last_error(), " of the CPU and 2 more"));
  ok(weir_stream_close(stream));
  for (weir_stream each : more) ok(weir_stream_close(each));
  ok(weir_context_destroy(context));
}

struct Order {
  std::atomic<bool> go{false};
  std::atomic<int> ran{0};
  static void hold(void *user) {
    auto *self = static_cast<Order *>(user);
    self->go.wait(false);
    self->ran.store(1);
  }
  static void next(void *user) {
    auto *self = static_cast<Order *>(user);
    if (self->ran.load() == 1) self->ran.store(2);
  }
};

void streams_run_in_order(void **) {
  weir_context context = make_context(small_host);
  weir_stream stream = nullptr;
  ok(weir_stream_create(context, 0, 0, &stream));
  ok(weir_stream_query(stream));
  Order order;
  ok(weir_stream_host_call(stream, Order::hold, &order));
  ok(weir_stream_host_call(stream, Order::next, &order));
  expect_result(WEIR_NOT_READY, weir_stream_query(stream));
  order.go.store(true);
  order.go.notify_all();
  ok(weir_stream_synchronize(stream));
  assert_int_equal(order.ran.load(), 2);
  ok(weir_stream_query(stream));
  ok(weir_stream_close(stream));
  ok(weir_context_destroy(context));
}

void native_streams_can_be_wrapped(void **) {
  weir_context context = make_context(small_host);
  weir_stream stream = nullptr;
  weir_stream wrapped = nullptr;
  void *native = nullptr;
  ok(weir_stream_create(context, 0, 0, &stream));
  ok(weir_stream_native(stream, &native));
  assert_non_null(native);
  ok(weir_stream_wrap(context, 0, native, 0, &wrapped));
  Order order;
  order.ran.store(1);
  ok(weir_stream_host_call(wrapped, Order::next, &order));
  ok(weir_stream_synchronize(stream));
  assert_int_equal(order.ran.load(), 2);
  ok(weir_stream_close(wrapped));
  ok(weir_stream_synchronize(stream));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_stream_wrap(context, 0, native, 1, &wrapped));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_stream_wrap(context, 3, native, 0, &wrapped));
  expect_result(WEIR_ERROR_NOT_SUPPORTED,
                weir_stream_wrap(context, WEIR_DEVICE_HOST, native, 0, &wrapped));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_stream_create(context, 0, UINT64_C(1) << 30U, &wrapped));
  ok(weir_stream_close(stream));
  ok(weir_context_destroy(context));
}

uint64_t capabilities_of_first(weir_context context) {
  weir_device_info device = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(context, 0, &device));
  return device.capabilities;
}

/// A thread of Weir's may not touch a wrapped stream that only its own threads may use.
void wrapped_streams_may_be_for_their_threads_only(void **) {
  World world({.options = std::string(small_host) + ";host.any_thread=0"});
  if ((capabilities_of_first(world.context) & WEIR_CAP_STREAM_ANY_THREAD) != 0) {
    print_message("skipped: streams of %s are any thread's\n", Target::get().name().c_str());
    world.close();
    skip();
  }
  weir_buffer buffer = world.buffer(page_bytes);
  void *native = nullptr;
  weir_stream wrapped = nullptr;
  ok(weir_stream_native(world.streams[0], &native));
  ok(weir_stream_wrap(world.context, 0, native, 0, &wrapped));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  const auto callback = [](void *, weir_result, weir_lease) {};
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_acquire_async(world.pool, wrapped, &use, 1, nullptr,
                                                             callback, nullptr, nullptr));
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, wrapped, &use, 1, nullptr, &lease));
  ok(weir_release(lease, wrapped));
  ok(weir_stream_close(wrapped));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void host_calls_may_be_missing(void **) {
  weir_context context = make_context("host.memory=4M;host.host_call=0");
  if ((capabilities_of_first(context) & WEIR_CAP_HOST_CALL) != 0) {
    print_message("skipped: %s always has host calls\n", Target::get().name().c_str());
    ok(weir_context_destroy(context));
    skip();
  }
  weir_stream stream = nullptr;
  ok(weir_stream_create(context, 0, 0, &stream));
  Order order;
  expect_result(WEIR_ERROR_NOT_SUPPORTED, weir_stream_host_call(stream, Order::next, &order));
  ok(weir_stream_close(stream));
  ok(weir_context_destroy(context));
}

void after_fork_the_child_is_refused(void **) {
  World world;
  weir_buffer buffer = world.buffer(page_bytes);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    // The exit status is the number of the first call that was not refused.
    uint32_t count = 0;
    weir_lease lease = nullptr;
    weir_context fresh = nullptr;
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    if (weir_device_count(world.context, &count) != WEIR_ERROR_FORKED) _exit(1);
    if (world.acquire(buffer, WEIR_READ, &lease) != WEIR_ERROR_FORKED) _exit(2);
    if (weir_stream_synchronize(world.streams[0]) != WEIR_ERROR_FORKED) _exit(3);
    if (weir_buffer_destroy(world.pool, buffer) != WEIR_ERROR_FORKED) _exit(4);
    if (weir_pool_destroy(world.pool) != WEIR_ERROR_FORKED) _exit(5);
    if (weir_context_destroy(world.context) != WEIR_ERROR_FORKED) _exit(6);
    if (weir_context_create(&desc, &fresh) != WEIR_ERROR_FORKED) _exit(7);
    _exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  world.fill(buffer, page_bytes, 1);  // the parent goes on as before
  world.check(buffer, page_bytes, 1);
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(versions_and_words),
      cmocka_unit_test(devices_are_as_configured),
      cmocka_unit_test(links_between_places),
      cmocka_unit_test(wrong_options_are_named),
      cmocka_unit_test(wrong_descriptors_are_refused),
      cmocka_unit_test(options_come_from_the_environment),
      cmocka_unit_test(options_that_are_not_read_are_told),
      cmocka_unit_test(weir_log_names_a_level),
      cmocka_unit_test(missing_arguments_are_named),
      cmocka_unit_test(errors_belong_to_their_thread),
      cmocka_unit_test(a_missing_backend_library_is_told),
      cmocka_unit_test(no_host_backend_means_no_devices),
      cmocka_unit_test(handles_are_checked),
      cmocka_unit_test(a_context_in_use_is_busy),
      cmocka_unit_test(streams_run_in_order),
      cmocka_unit_test(native_streams_can_be_wrapped),
      cmocka_unit_test(wrapped_streams_may_be_for_their_threads_only),
      cmocka_unit_test(host_calls_may_be_missing),
      cmocka_unit_test(after_fork_the_child_is_refused),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
