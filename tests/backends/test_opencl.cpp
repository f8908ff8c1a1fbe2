// SPDX-License-Identifier: Apache-2.0
//
// The OpenCL backend at work: whichever call of the runtime fails once, nothing is lost, leaked or left hanging; a call that blocks;
// queues and contexts of the program's own. Devices that are lost are in test_opencl_losses.cpp.

#include "tests/backends/opencl_fixture.hpp"
#include "tests/support/watchdog.hpp"

#include <weir/opencl.h>

#include <sys/mman.h>

#include <atomic>
#include <thread>

namespace {

using namespace opencl_test;

/// Makes a call until it goes well, at most three times. What it answers must be one that headers know.
template <class Call>
void insist(const Backend &backend, const char *what, Call call) {
  weir_result result = WEIR_SUCCESS;
  for (int i = 0; i < 3; ++i) {
    result = call();
    if (result == WEIR_SUCCESS) return;
    if (table().last_error_code(backend.state) == 0) fail_msg("%s failed without a code", what);
    if (result == WEIR_ERROR_DEVICE_LOST) break;
  }
  fail_msg("%s = %d after %s failed: %s", what, result, shim().weir_shim_failed(),
           backend.error().c_str());
}
#define INSIST(call) insist(backend, #call, [&] { return (call); })

/// One of everything, with the bytes looked at. Every call is made again where it failed.
void scenario(const Backend &backend) {
  weir_be_state *s = backend.state;
  const weir_backend_table &t = table();
  uint64_t device = 0;
  void *pinned = nullptr;
  weir_be_stream one = nullptr, two = nullptr;
  INSIST(t.plain_allocate(s, 0, size, 2 * MiB, &device));
  assert_int_equal(device % (2 * MiB), 0);
  INSIST(t.host_allocate(s, size, &pinned));
  assert_int_equal(reinterpret_cast<uintptr_t>(pinned) % 4096, 0);
  void *own = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  INSIST(t.host_register(s, own, size));
  INSIST(t.stream_create(s, 0, 0, &one));
  INSIST(t.stream_create(s, 0, 0, &two));
  std::memset(own, 7, size);
  std::memset(pinned, 1, size);
  std::atomic<int> ran{0};
  const auto count = [](void *user) { ++*static_cast<std::atomic<int> *>(user); };
  const weir_be_copy in{device, reinterpret_cast<uintptr_t>(own), size};
  const weir_be_copy out{reinterpret_cast<uintptr_t>(pinned), device, size};
  INSIST(t.copy_async(s, one, &in));
  INSIST(t.fill_async(s, one, device + 16, 9, 64));
  INSIST(t.fill_async(s, one, device + 101, 8, 3));
  INSIST(t.stream_host_call(s, one, count, &ran));
  weir_be_fence fence = 0, end = 0;
  INSIST(t.fence_record(s, one, &fence));
  INSIST(t.stream_wait(s, two, fence));
  INSIST(t.copy_async(s, two, &out));
  INSIST(t.fence_record(s, two, &end));
  INSIST(t.fence_wait(s, end, UINT64_MAX));
  const auto *bytes = static_cast<const unsigned char *>(pinned);
  for (uint64_t i = 0; i < size; ++i) {
    const int wanted = i >= 16 && i < 80 ? 9 : i >= 101 && i < 104 ? 8 : 7;
    if (bytes[i] != wanted)
      fail_msg("byte %llu is %d, not %d", (unsigned long long)i, bytes[i], wanted);
  }
  assert_int_equal(ran.load(), 1);
  INSIST(t.fence_poll(s, fence));
  INSIST(t.stream_query(s, one));
  INSIST(t.stream_synchronize(s, one));
  INSIST(t.stream_query(s, two));
  INSIST(t.fence_destroy(s, fence));
  INSIST(t.fence_destroy(s, end));
  INSIST(t.stream_destroy(s, one));
  INSIST(t.stream_destroy(s, two));
  INSIST(t.host_unregister(s, own, size));
  munmap(own, size);
  INSIST(t.host_free(s, pinned, size));
  INSIST(t.plain_free(s, 0, device, size));
  uint64_t free_bytes = 0, total = 0;
  INSIST(t.device_memory(s, 0, &free_bytes, &total));
  assert_int_equal(free_bytes, total);
}

void any_call_fails_once(void **) {
  weir::test::Watchdog watchdog;
  for (const char *kind : {"usm=1", "usm=1;host_usm=0", "usm=0"}) {
    for (const cl_int code : {CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES, CL_INVALID_VALUE}) {
      uint64_t nth = 1;
      for (;; ++nth) {
        watchdog.at(kind);
        shim().weir_shim_reset();
        assert_int_equal(shim().weir_shim_pretend(kind), 0);
        Backend backend;
        OK(backend.result);
        shim().weir_shim_fail(nullptr, nth, code);
        scenario(backend);
        const bool done = shim().weir_shim_failed()[0] == '\0';
        backend.stop();
        shim().weir_shim_fail(nullptr, 0, 0);
        // What ends an object is made twice; a failure of a second one in a row is not seen here.
        nothing_is_left();
        if (done) break;
      }
      assert_true(nth > 25);
    }
  }
  watchdog.stop();
}

void memory_has_an_end(void **) {
  Backend backend("memory=4M");
  OK(backend.result);
  uint64_t first = 0, second = 0, free_bytes = 0, total = 0;
  OK(table().plain_allocate(backend.state, 0, 3 * MiB, 4096, &first));
  WANT(WEIR_ERROR_DEVICE_OOM, table().plain_allocate(backend.state, 0, 3 * MiB, 4096, &second));
  OK(table().plain_free(backend.state, 0, first, 3 * MiB));
  OK(table().device_memory(backend.state, 0, &free_bytes, &total));
  assert_int_equal(free_bytes, 4 * MiB);
  assert_int_equal(total, 4 * MiB);
  WANT(WEIR_ERROR_INVALID_ARGUMENT, table().plain_free(backend.state, 0, first, 3 * MiB));
  backend.stop();
  nothing_is_left();
}

/// A driver that does not come back from one stream's call holds up that stream's users and nobody else.
void a_call_that_blocks(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a call that blocks");
  Backend backend;
  OK(backend.result);
  weir_be_state *s = backend.state;
  weir_be_stream one = nullptr, two = nullptr;
  uint64_t device = 0, other = 0;
  weir_be_fence fence = 0;
  OK(table().stream_create(s, 0, 0, &one));
  OK(table().stream_create(s, 0, 0, &two));
  OK(table().plain_allocate(s, 0, size, 4096, &device));
  shim().weir_shim_block("clEnqueueBarrierWithWaitList");
  std::atomic<int> ran{0};
  weir_result called = WEIR_ERROR_BACKEND;
  std::thread blocked([&] {
    called = table().stream_host_call(
        s, one, [](void *user) { ++*static_cast<std::atomic<int> *>(user); }, &ran);
  });
  while (shim().weir_shim_blocked() == 0) std::this_thread::yield();
  OK(table().plain_allocate(s, 0, size, 4096, &other));
  OK(table().fill_async(s, two, other, 3, size));
  OK(table().fence_record(s, two, &fence));
  OK(table().fence_wait(s, fence, UINT64_MAX));
  OK(table().stream_synchronize(s, two));
  OK(table().plain_free(s, 0, other, size));
  shim().weir_shim_resume();
  blocked.join();
  assert_int_equal(called, WEIR_SUCCESS);
  OK(table().stream_synchronize(s, one));
  assert_int_equal(ran.load(), 1);
  backend.stop();
  nothing_is_left();
  watchdog.stop();
}

// ---- the program's own queues and context

struct Own {
  cl_context context = nullptr;
  cl_device_id device = nullptr;
  std::vector<cl_command_queue> queues;

  explicit Own() {
    cl_platform_id platform = nullptr;
    cl_int code = CL_SUCCESS;
    assert_int_equal(shim().clGetPlatformIDs(1, &platform, nullptr), CL_SUCCESS);
    assert_int_equal(shim().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr),
                     CL_SUCCESS);
    context = shim().clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    assert_int_equal(code, CL_SUCCESS);
  }
  cl_command_queue queue(cl_command_queue_properties properties = 0) {
    const cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, properties, 0};
    cl_int code = CL_SUCCESS;
    cl_command_queue made = shim().clCreateCommandQueueWithProperties(context, device, list, &code);
    if (code != CL_SUCCESS) return nullptr;
    queues.push_back(made);
    return made;
  }
  void end() {
    for (const cl_command_queue each : queues) shim().clReleaseCommandQueue(each);
    shim().clReleaseContext(context);
  }
  std::string option() const {
    char text[64];
    std::snprintf(text, sizeof text, "memory=64M;context=%p", static_cast<void *>(context));
    return text;
  }
};

void a_context_of_the_programs_own(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("a context of the program's own");
  Own own;
  Backend backend(own.option().c_str());
  OK(backend.result);
  const weir_backend_table &t = table();
  weir_be_state *s = backend.state;
  const cl_command_queue queue = own.queue();
  weir_be_stream stream = nullptr;
  void *native = nullptr;
  OK(t.stream_wrap(s, 0, queue, &stream));
  OK(t.stream_native(s, stream, &native));
  assert_ptr_equal(native, queue);
  // What the program has enqueued is waited for, and seen by a query.
  cl_int code = CL_SUCCESS;
  cl_event go = shim().clCreateUserEvent(own.context, &code);
  assert_int_equal(shim().clEnqueueBarrierWithWaitList(queue, 1, &go, nullptr), CL_SUCCESS);
  weir_be_fence fence = 0;
  OK(t.fence_record(s, stream, &fence));
  WANT(WEIR_NOT_READY, t.stream_query(s, stream));
  WANT(WEIR_NOT_READY, t.fence_poll(s, fence));
  assert_int_equal(shim().clSetUserEventStatus(go, CL_COMPLETE), CL_SUCCESS);
  OK(t.fence_wait(s, fence, UINT64_MAX));
  OK(t.stream_synchronize(s, stream));
  OK(t.fence_destroy(s, fence));
  OK(t.stream_destroy(s, stream));
  shim().clReleaseEvent(go);
  backend.stop();
  own.end();
  nothing_is_left();
  watchdog.stop();
}

/// weir/opencl.h: the context handed over, and what an address lies in.
void natives(void **) {
  for (const char *kind : {"usm=1", "usm=0"}) {
    shim().weir_shim_reset();
    assert_int_equal(shim().weir_shim_pretend(kind), 0);
    Own own;
    weir_opencl_context mine = WEIR_OPENCL_CONTEXT_INIT(own.context);
    Backend backend("memory=64M", &mine);
    OK(backend.result);
    weir_be_stream stream = nullptr;
    OK(table().stream_wrap(backend.state, 0, own.queue(), &stream));
    uint64_t address = 0;
    OK(table().plain_allocate(backend.state, 0, size, 2 * MiB, &address));
    weir_opencl_memory memory = WEIR_OPENCL_MEMORY_INIT;
    const auto ask = [&](uint64_t at, uint32_t which) {
      return table().native_memory(backend.state, 0, at, which, &memory);
    };
    OK(ask(address + 100, WEIR_OPENCL_MEMORY));
    assert_int_equal(memory.type,
                     std::strcmp(kind, "usm=1") == 0 ? WEIR_OPENCL_USM : WEIR_OPENCL_SVM);
    assert_ptr_equal(memory.context, own.context);
    assert_int_equal(reinterpret_cast<uintptr_t>(memory.base) + memory.offset, address + 100);
    assert_true(memory.offset + size - 100 <= memory.bytes);
    WANT(WEIR_ERROR_INVALID_ARGUMENT, ask(address + size, WEIR_OPENCL_MEMORY));
    WANT(WEIR_ERROR_INVALID_ARGUMENT, ask(address, 9));
    memory.struct_size = sizeof memory - 1;
    WANT(WEIR_ERROR_INVALID_ARGUMENT, ask(address, WEIR_OPENCL_MEMORY));
    backend.stop();
    own.end();
    nothing_is_left();
  }
}

/// What is handed over and can't be used is refused; the backend makes nothing of its own instead.
void natives_that_are_refused(void **) {
  Own own;
  weir_opencl_context mine = WEIR_OPENCL_CONTEXT_INIT(own.context);
  const auto refused = [&](const char *options, weir_result wanted, const char *word) {
    const Backend backend(options, &mine);
    WANT(wanted, backend.result);
    if (backend.reason.find(word) == std::string::npos)
      fail_msg("\"%s\" is not in: %s", word, backend.reason.c_str());
  };
  refused(own.option().c_str(), WEIR_ERROR_INVALID_ARGUMENT, "both name a cl_context");
  refused("platform=0", WEIR_ERROR_INVALID_ARGUMENT, "platform");
  mine.kind = 7;
  refused("", WEIR_ERROR_INVALID_ARGUMENT, "kind 7");
  mine = weir_opencl_context WEIR_OPENCL_CONTEXT_INIT(nullptr);
  refused("", WEIR_ERROR_INVALID_ARGUMENT, "NULL");
  mine = weir_opencl_context WEIR_OPENCL_CONTEXT_INIT(own.context);
  mine.struct_size = 8;
  refused("", WEIR_ERROR_INVALID_ARGUMENT, "struct_size is 8");
  mine = weir_opencl_context WEIR_OPENCL_CONTEXT_INIT(own.context);
  assert_int_equal(shim().weir_shim_pretend("usm=0;svm=0"), 0);
  refused("", WEIR_ERROR_NOT_SUPPORTED, "no device that suffices");
  own.end();
  nothing_is_left();
}

void queues_that_are_refused(void **) {
  Own own, foreign;
  Backend backend(own.option().c_str());
  OK(backend.result);
  weir_be_stream stream = nullptr;
  WANT(WEIR_ERROR_INVALID_ARGUMENT, table().stream_wrap(backend.state, 0, nullptr, &stream));
  WANT(WEIR_ERROR_INVALID_ARGUMENT,
       table().stream_wrap(backend.state, 0, foreign.queue(), &stream));
  assert_true(backend.error().find("cl_context") != std::string::npos);
  const cl_command_queue unordered = own.queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  if (unordered != nullptr) {
    WANT(WEIR_ERROR_INVALID_ARGUMENT, table().stream_wrap(backend.state, 0, unordered, &stream));
    assert_true(backend.error().find("out of order") != std::string::npos);
  }
  assert_null(stream);
  backend.stop();
  own.end();
  foreign.end();
  nothing_is_left();
}

}  // namespace

int main(int argc, char **) {
  const int cannot = prepare(argc);
  if (cannot != 0) return cannot;
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(any_call_fails_once, fresh),
      cmocka_unit_test_setup(memory_has_an_end, fresh),
      cmocka_unit_test_setup(a_call_that_blocks, fresh),
      cmocka_unit_test_setup(a_context_of_the_programs_own, fresh),
      cmocka_unit_test_setup(natives, fresh),
      cmocka_unit_test_setup(natives_that_are_refused, fresh),
      cmocka_unit_test_setup(queues_that_are_refused, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
