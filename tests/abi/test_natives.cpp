// SPDX-License-Identifier: Apache-2.0
//
// What a program has of a runtime already: its objects reach the backend that they are for, or the context is refused with what is
// wrong; and weir_native_memory. The backend is the host's with another name, which takes objects of kind 1 and can't work with those of
// kind 2.
#include "tests/abi/pool_fixture.hpp"

#include <weir/backend.h>

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

namespace weir::test {
namespace {

struct Handles {
  uint32_t struct_size = sizeof(Handles), kind = 1;
  uint64_t words[2] = {11, 12};
};
struct Memory {
  uint32_t struct_size = sizeof(Memory), reserved = 0;
  uint64_t object = 0, offset = 0;
};

/// What start() got, in order; an entry of kind 0 is a start without natives. A start that the context gave up appends to it from its
/// own thread, so every access takes the mutex.
class Seen {
 public:
  void add(const Handles &handles) {
    const std::lock_guard lock(mutex_);
    list_.push_back(handles);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    list_.clear();
  }
  std::vector<Handles> list() const {
    const std::lock_guard lock(mutex_);
    return list_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Handles> list_;
};
Seen seen;
std::atomic<bool> stuck{false}, go_on{false};

const weir_backend_table &host_table() {
  static const weir_backend_table *table = [] {
    const std::string path =
        std::string(std::getenv("WEIR_LIB_DIR")) + "/weir/1/libweir_backend_host.so";
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *symbol = dlsym(library, WEIR_BACKEND_QUERY_SYMBOL);
    weir_backend_query_fn query = nullptr;
    std::memcpy(&query, &symbol, sizeof query);
    return query(WEIR_BACKEND_ABI_MAJOR);
  }();
  return *table;
}

weir_result start(const weir_be_start *desc, weir_be_state **state, const char **reason) {
  Handles handles;
  handles.kind = 0;
  if (stuck.exchange(false))
    while (!go_on.load()) std::this_thread::yield();
  if (desc->native != nullptr) std::memcpy(&handles, desc->native, sizeof handles);
  if (handles.kind == 2) {
    *reason = "queue family 3 has no transfers";
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  if (handles.kind > 2) {
    *reason = "natives of kind 3 are unknown";
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  seen.add(handles);
  weir_be_start own = *desc;
  own.options = "memory=16M;granule=16K;granule_large=0";
  own.native = nullptr;
  return host_table().start(&own, state, reason);
}

weir_result native_memory(weir_be_state *, uint32_t device, uint64_t address, uint32_t kind,
                          void *out) {
  if (kind != 1) return WEIR_ERROR_INVALID_ARGUMENT;
  Memory told;
  std::memcpy(&told.struct_size, out, sizeof told.struct_size);
  told.object = 100 + device;
  told.offset = address;
  std::memcpy(out, &told, std::min<size_t>(told.struct_size, sizeof told));
  return WEIR_SUCCESS;
}

weir_backend_table table;
const weir_backend_table *query(uint32_t) { return &table; }

/// The table as it should be.
void prepare() {
  table = host_table();
  table.name = "adopter";
  table.start = start;
  table.native_memory = native_memory;
  table.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
    const weir_result result = host_table().device_describe(state, device, out);
    out->capabilities |= WEIR_CAP_NATIVE_MEMORY;
    return result;
  };
  seen.clear();
}

weir_context_desc desc_with(const std::vector<weir_native> &natives) {
  static const weir_backend_query_fn backends[] = {query};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_NO_HOST_BACKEND;
  desc.backends = backends;
  desc.backend_count = 1;
  desc.natives = natives.data();
  desc.native_count = static_cast<uint32_t>(natives.size());
  return desc;
}

void refused(const weir_context_desc &desc, weir_result wanted, const char *words) {
  weir_context context = nullptr;
  expect_result(wanted, weir_context_create(&desc, &context));
  assert_null(context);
  if (std::strstr(weir_last_error(), words) == nullptr)
    fail_msg("\"%s\" does not say \"%s\"", weir_last_error(), words);
}
void refused(const std::vector<weir_native> &natives, weir_result wanted, const char *words) {
  refused(desc_with(natives), wanted, words);
}

void a_backend_gets_what_is_for_it(void **) {
  prepare();
  weir_context context = nullptr;
  weir_context_desc desc = desc_with({});
  ok(weir_context_create(&desc, &context));
  ok(weir_context_destroy(context));
  assert_int_equal(seen.list().back().kind, 0);  // none, which is no pointer
  auto handles = std::make_unique<Handles>();
  const std::vector<weir_native> natives = {{"adopter", handles.get()}};
  desc = desc_with(natives);
  ok(weir_context_create(&desc, &context));
  assert_int_equal(seen.list().size(), 2);
  assert_int_equal(seen.list()[1].kind, 1);
  assert_int_equal(seen.list()[1].words[1], 12);
  handles.reset();  // it was read during the call alone
  ok(weir_context_destroy(context));
}

void what_can_not_be_used_refuses_the_context(void **) {
  prepare();
  Handles good, other, unable, unknown;
  unable.kind = 2;
  unknown.kind = 3;
  refused({{"adopter", &unable}}, WEIR_ERROR_BACKEND, "queue family 3 has no transfers");
  refused({{"adopter", &unknown}}, WEIR_ERROR_INVALID_ARGUMENT, "natives of kind 3 are unknown");
  refused({{"adopter", &good}, {"nobody", &other}}, WEIR_ERROR_INVALID_ARGUMENT,
          "natives[1] is for backend \"nobody\"");
  refused({{"adopter", &good}, {"adopter", &other}}, WEIR_ERROR_INVALID_ARGUMENT,
          "natives[0] and natives[1] are both for backend \"adopter\"");
  refused({{nullptr, &good}}, WEIR_ERROR_INVALID_ARGUMENT, "natives[0].backend is NULL");
  refused({{"", &good}}, WEIR_ERROR_INVALID_ARGUMENT, "natives[0].backend is \"\"");
  refused({{"adopter", nullptr}}, WEIR_ERROR_INVALID_ARGUMENT, "natives[0].handles is NULL");
  for (const uint32_t size : {0U, 7U, 65537U}) {
    good.struct_size = size;
    refused({{"adopter", &good}}, WEIR_ERROR_INVALID_ARGUMENT,
            ("struct_size of " + std::to_string(size)).c_str());
  }
  weir_context_desc desc = desc_with({});
  desc.native_count = 1;
  desc.natives = nullptr;
  refused(desc, WEIR_ERROR_INVALID_ARGUMENT, "native_count is 1 and natives is NULL");
  desc.native_count = 65;
  refused(desc, WEIR_ERROR_INVALID_ARGUMENT, "native_count is 65");
  desc.native_count = 0;
  desc.reserved = 5;
  refused(desc, WEIR_ERROR_INVALID_ARGUMENT, "desc.reserved is 5");
}

void a_backend_that_takes_none_is_told(void **) {
  prepare();
  table.native_memory = nullptr;
  table.device_describe = host_table().device_describe;
  Handles handles;
  refused({{"adopter", &handles}}, WEIR_ERROR_NOT_SUPPORTED, "backend adopter takes no natives");
  // A backend of an earlier version, whose table ends before the group.
  table.native_memory = native_memory;
  table.struct_size = offsetof(weir_backend_table, native_memory);
  refused({{"adopter", &handles}}, WEIR_ERROR_NOT_SUPPORTED, "backend adopter takes no natives");
  assert_int_equal(seen.list().size(), 0);
  // The built-in host backend.
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  const weir_native native = {"host", &handles};
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = small_host;
  desc.natives = &native;
  desc.native_count = 1;
  refused(desc, WEIR_ERROR_NOT_SUPPORTED, "backend host takes no natives");
}

/// A library of the search folder that can't be loaded is told in the log otherwise; not where the program counts on it.
void a_vendors_backend_that_takes_none_is_told_too(void **) {
  const std::filesystem::path folder =
      std::filesystem::path(std::getenv("WEIR_LIB_DIR")) / "weir" / "1";
  if (!exists(folder / "libweir_backend_cuda.so")) skip();
  Handles handles;
  const weir_native native = {"cuda", &handles};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.options = small_host;
  desc.natives = &native;
  desc.native_count = 1;
  refused(desc, WEIR_ERROR_NOT_SUPPORTED, "backend cuda takes no natives");
}

/// The thread that was given up reads its own copy.
void a_start_that_is_given_up_has_a_copy(void **) {
  prepare();
  go_on = false;
  stuck = true;
  auto handles = std::make_unique<Handles>();
  const std::vector<weir_native> natives = {{"adopter", handles.get()}};
  weir_context_desc desc = desc_with(natives);
  desc.start_timeout_ns = 10'000'000;
  refused(desc, WEIR_ERROR_BACKEND, "was given up");
  handles.reset();
  go_on = true;
  while (seen.list().empty()) std::this_thread::yield();
  assert_int_equal(seen.list()[0].words[1], 12);
}

void objects_behind_addresses_are_told(void **) {
  prepare();
  weir_context context = nullptr;
  weir_context_desc desc = desc_with({});
  ok(weir_context_create(&desc, &context));
  Memory told;
  ok(weir_native_memory(context, 0, 4096, 1, &told));
  assert_int_equal(told.object, 100);
  assert_int_equal(told.offset, 4096);
  assert_int_equal(told.struct_size, sizeof told);
  told = {};
  told.struct_size = 16;  // yesterday's
  ok(weir_native_memory(context, 0, 4096, 1, &told));
  assert_int_equal(told.object, 100);
  assert_int_equal(told.offset, 0);
  const auto refuse = [&](weir_result wanted, weir_device device, uint32_t kind, void *out,
                          const char *words) {
    expect_result(wanted, weir_native_memory(context, device, 4096, kind, out));
    if (std::strstr(weir_last_error(), words) == nullptr)
      fail_msg("\"%s\" does not say \"%s\"", weir_last_error(), words);
  };
  told = {};
  refuse(WEIR_ERROR_INVALID_ARGUMENT, 1, 1, &told, "device is 1; there are 1");
  refuse(WEIR_ERROR_INVALID_ARGUMENT, 0, 9, &told, "native_memory failed");
  refuse(WEIR_ERROR_INVALID_ARGUMENT, 0, 1, nullptr, "out");
  refuse(WEIR_ERROR_NOT_SUPPORTED, WEIR_DEVICE_HOST, 1, &told, "WEIR_DEVICE_HOST");
  told.struct_size = 4;
  refuse(WEIR_ERROR_INVALID_ARGUMENT, 0, 1, &told, "struct_size is 4");
  ok(weir_context_destroy(context));
  context = make_context(small_host);
  told = {};
  weir_device_info about = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(context, 0, &about));
  // Of a backend that can tell, the struct is another one.
  const bool able = (about.capabilities & WEIR_CAP_NATIVE_MEMORY) != 0;
  expect_result(able ? WEIR_ERROR_INVALID_ARGUMENT : WEIR_ERROR_NOT_SUPPORTED,
                weir_native_memory(context, 0, 4096, 1, &told));
  ok(weir_context_destroy(context));
}

void the_capability_needs_its_entry(void **) {
  prepare();
  table.native_memory = nullptr;
  refused(desc_with({}), WEIR_ERROR_BACKEND, "the runtime's own objects");
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_backend_gets_what_is_for_it),
      cmocka_unit_test(what_can_not_be_used_refuses_the_context),
      cmocka_unit_test(a_backend_that_takes_none_is_told),
      cmocka_unit_test(a_vendors_backend_that_takes_none_is_told_too),
      cmocka_unit_test(a_start_that_is_given_up_has_a_copy),
      cmocka_unit_test(objects_behind_addresses_are_told),
      cmocka_unit_test(the_capability_needs_its_entry),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
