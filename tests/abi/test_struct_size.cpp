// SPDX-License-Identifier: Apache-2.0
//
// The rules of struct_size, for every struct of the C ABI that may grow: programs of yesterday (a smaller struct, down to
// what it was in version 1.0.0), of today and of tomorrow (a larger one). A descriptor lies in memory whose bytes behind the
// caller's size are not zero, so that reading past it is seen; an output struct in memory that must stay as it is behind
// that size. The sizes of 1.0.0 stand here as numbers: they are promised, whatever becomes of the structs.
//
// `--list` names the structs; scripts/check-abi --covers compares the list with the headers, so none can be forgotten.
// Tables of backends have the same rules, and their tests are here too.
#include "tests/abi/pool_fixture.hpp"

#include <weir/backend.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <functional>

namespace weir::test {
namespace {

constexpr uint8_t behind = 0xa5;
using Bytes = std::vector<uint8_t>;
using Call = std::function<weir_result(void *)>;

struct Descriptor {
  const char *name;
  uint32_t first;  ///< its size in version 1.0.0
  Bytes good;      ///< accepted as it is
  Call call;
};
struct Output {
  const char *name;
  uint32_t first;
  uint32_t size;
  Call call;
};

template <class T>
Bytes bytes_of(const T &value) {
  Bytes bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// The bytes as a struct of `size`: its prefix or, with zeros, its extension, and what is not zero behind.
Bytes sized(const Bytes &good, uint32_t size) {
  Bytes bytes(size, 0);
  const auto *own = reinterpret_cast<const unsigned char *>(&size);
  std::copy_n(good.begin(), std::min<size_t>(size, good.size()), bytes.begin());
  std::copy_n(own, std::min<size_t>(size, sizeof size), bytes.begin());
  bytes.resize(size + 256, behind);
  return bytes;
}

/// What all cases are about; made once, ended by the last test.
struct Things {
  weir_context context =
      make_context("host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=2");
  weir_pool_device device{};
  weir_pool pool = nullptr;
  weir_pool background = nullptr;  ///< has the threads that background work needs
  weir_client client = nullptr;
  weir_buffer buffer = nullptr;
  weir_stream stream = nullptr;
  weir_arena arena = nullptr;
  Bytes blob = Bytes(weir_compress_bound(4096));
  uint64_t blob_bytes = 0;

  Things() {
    device.budget = UINT64_C(1) << 20U;
    weir_pool_desc desc = pool_desc();
    ok(weir_pool_create(context, &desc, &pool));
    desc.flags = 0;
    device.device = 1;
    ok(weir_pool_create(context, &desc, &background));
    device.device = 0;
    const weir_client_desc no_client = WEIR_CLIENT_DESC_INIT;
    ok(weir_client_create(pool, &no_client, &client));
    const weir_buffer_desc wanted = buffer_desc();
    ok(weir_buffer_create(pool, &wanted, &buffer));
    ok(weir_stream_create(context, 0, 0, &stream));
    const weir_arena_desc numbers = arena_desc();
    ok(weir_arena_create(&numbers, &arena));
    const Bytes zeros(4096, 0);
    ok(weir_compress(nullptr, zeros.data(), zeros.size(), blob.data(), blob.size(), &blob_bytes));
  }
  void close() {
    weir_arena_destroy(arena);
    ok(weir_buffer_destroy(pool, buffer));
    ok(weir_client_destroy(client));
    ok(weir_stream_close(stream));
    ok(weir_pool_destroy(pool));
    ok(weir_pool_destroy(background));
    ok(weir_context_destroy(context));
  }
  weir_pool_desc pool_desc() const {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = UINT64_C(1) << 20U;
    return desc;
  }
  static weir_buffer_desc buffer_desc() {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = 100000;
    return desc;
  }
  static weir_arena_desc arena_desc() {
    weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
    desc.size = 1000;
    return desc;
  }
  static weir_context_desc context_desc() {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH;
    desc.options = small_host;
    return desc;
  }
};

Things *things;

template <class T>
const T *as(void *given) {
  return static_cast<const T *>(given);
}

/// Calls, and undoes what a success has made.
weir_result make_and_end_context(void *given) {
  weir_context made = nullptr;
  const weir_result result = weir_context_create(as<weir_context_desc>(given), &made);
  if (result == WEIR_SUCCESS) ok(weir_context_destroy(made));
  return result;
}
weir_result make_and_end_pool(void *given) {
  weir_pool made = nullptr;
  const weir_result result = weir_pool_create(things->context, as<weir_pool_desc>(given), &made);
  if (result == WEIR_SUCCESS) ok(weir_pool_destroy(made));
  return result;
}
weir_result make_and_end_client(void *given) {
  weir_client made = nullptr;
  const weir_result result = weir_client_create(things->pool, as<weir_client_desc>(given), &made);
  if (result == WEIR_SUCCESS) ok(weir_client_destroy(made));
  return result;
}
weir_result make_and_end_buffer(void *given) {
  weir_buffer made = nullptr;
  const weir_result result = weir_buffer_create(things->pool, as<weir_buffer_desc>(given), &made);
  if (result == WEIR_SUCCESS) ok(weir_buffer_destroy(things->pool, made));
  return result;
}
weir_result make_and_end_sharded(void *given) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = 100000;
  desc.shards = as<weir_shard_desc>(given);
  return make_and_end_buffer(&desc);
}
weir_result lease_and_release(void *given) {
  weir_use use = WEIR_USE(things->buffer, WEIR_READ);
  weir_lease lease = nullptr;
  const weir_result result =
      weir_acquire(things->pool, things->stream, &use, 1, as<weir_acquire_options>(given), &lease);
  if (result == WEIR_SUCCESS) ok(weir_release(lease, things->stream));
  return result;
}
weir_result make_and_end_arena(void *given) {
  weir_arena made = nullptr;
  const weir_result result = weir_arena_create(as<weir_arena_desc>(given), &made);
  if (result == WEIR_SUCCESS) weir_arena_destroy(made);
  return result;
}
weir_result compress_some(void *given) {
  const Bytes in(4096, 7);
  Bytes out(weir_compress_bound(in.size()));
  uint64_t bytes = 0;
  return weir_compress(as<weir_compress_desc>(given), in.data(), in.size(), out.data(), out.size(),
                       &bytes);
}

const std::string &trace_path() {
  static const std::string path =
      std::string(spill_folder()) + "/weir-struct-size-" + std::to_string(getpid()) + ".json";
  return path;
}
weir_result trace_and_stop(void *given) {
  const weir_result result = weir_trace_start(things->context, as<weir_trace_desc>(given));
  if (result == WEIR_SUCCESS) {
    ok(weir_trace_stop(things->context, WEIR_TRACE_TIMELINE));
    assert_int_equal(unlink(trace_path().c_str()), 0);
  }
  return result;
}

std::vector<Descriptor> descriptors() {
  const auto whole = [](uint32_t first, const char *name, const auto &desc, Call call) {
    return Descriptor{name, first, bytes_of(desc), std::move(call)};
  };
  weir_calibrate_desc calibrate = WEIR_CALIBRATE_DESC_INIT;
  calibrate.flags = WEIR_CALIBRATE_NO_CACHE;
  calibrate.max_ns = 1;
  static constexpr weir_device first = 0;
  weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
  shards.devices = &first;
  shards.device_count = 1;
  weir_trace_desc trace = WEIR_TRACE_DESC_INIT;
  trace.path = trace_path().c_str();
  const weir_client_desc client = WEIR_CLIENT_DESC_INIT;
  const weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  const weir_compress_desc compress = WEIR_COMPRESS_DESC_INIT;
  const weir_defragment_desc defragment = WEIR_DEFRAGMENT_DESC_INIT;
  const weir_defragmentation_desc background = WEIR_DEFRAGMENTATION_DESC_INIT;
  return {
      whole(112, "weir_context_desc", Things::context_desc(), make_and_end_context),
      whole(160, "weir_pool_desc", things->pool_desc(), make_and_end_pool),
      whole(48, "weir_client_desc", client, make_and_end_client),
      whole(80, "weir_buffer_desc", Things::buffer_desc(), make_and_end_buffer),
      whole(40, "weir_shard_desc", shards, make_and_end_sharded),
      whole(32, "weir_acquire_options", options, lease_and_release),
      whole(24, "weir_arena_desc", Things::arena_desc(), make_and_end_arena),
      whole(32, "weir_compress_desc", compress, compress_some),
      whole(64, "weir_defragment_desc", defragment,
            [](void *given) {
              return weir_pool_defragment(things->pool, as<weir_defragment_desc>(given), nullptr);
            }),
      whole(32, "weir_defragmentation_desc", background,
            [](void *given) {
              return weir_pool_set_defragmentation(things->background,
                                                   as<weir_defragmentation_desc>(given));
            }),
      whole(32, "weir_calibrate_desc", calibrate,
            [](void *given) {
              return weir_topology_calibrate(things->context, as<weir_calibrate_desc>(given),
                                             nullptr);
            }),
      whole(24, "weir_trace_desc", trace, trace_and_stop),
  };
}

template <class T>
Output output(uint32_t first, const char *name, weir_result (*call)(T *)) {
  return {name, first, sizeof(T), [call](void *out) { return call(static_cast<T *>(out)); }};
}

std::vector<Output> outputs() {
  return {
      output<weir_error_info>(56, "weir_error_info", weir_last_error_info),
      output<weir_backend_info>(
          48, "weir_backend_info",
          [](weir_backend_info *out) { return weir_backend_info_get(things->context, 0, out); }),
      output<weir_device_info>(
          176, "weir_device_info",
          [](weir_device_info *out) { return weir_device_info_get(things->context, 0, out); }),
      output<weir_link_info>(
          56, "weir_link_info",
          [](weir_link_info *out) { return weir_link_info_get(things->context, 0, 1, out); }),
      output<weir_calibrate_report>(40, "weir_calibrate_report",
                                    [](weir_calibrate_report *out) {
                                      weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
                                      desc.flags = WEIR_CALIBRATE_NO_CACHE;
                                      desc.max_ns = 1;
                                      return weir_topology_calibrate(things->context, &desc, out);
                                    }),
      output<weir_client_stats>(
          40, "weir_client_stats",
          [](weir_client_stats *out) { return weir_client_stats_get(things->client, out); }),
      output<weir_defragment_report>(136, "weir_defragment_report",
                                     [](weir_defragment_report *out) {
                                       const weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
                                       return weir_pool_defragment(things->pool, &desc, out);
                                     }),
      output<weir_pool_stats>(
          528, "weir_pool_stats",
          [](weir_pool_stats *out) { return weir_pool_stats_get(things->pool, out); }),
      output<weir_codec_stats>(
          1032, "weir_codec_stats",
          [](weir_codec_stats *out) { return weir_pool_codec_stats_get(things->pool, out); }),
      output<weir_pool_device_stats>(88, "weir_pool_device_stats",
                                     [](weir_pool_device_stats *out) {
                                       return weir_pool_device_stats_get(things->pool, 0, out);
                                     }),
      output<weir_buffer_info>(112, "weir_buffer_info",
                               [](weir_buffer_info *out) {
                                 return weir_buffer_info_get(things->pool, things->buffer, 0,
                                                             WEIR_WHOLE, out);
                               }),
      output<weir_arena_stats>(
          56, "weir_arena_stats",
          [](weir_arena_stats *out) { return weir_arena_stats_get(things->arena, out); }),
      output<weir_arena_report>(
          2120, "weir_arena_report",
          [](weir_arena_report *out) { return weir_arena_report_get(things->arena, out); }),
      output<weir_compressed_info>(552, "weir_compressed_info",
                                   [](weir_compressed_info *out) {
                                     return weir_compressed_info_get(things->blob.data(),
                                                                     things->blob_bytes, out);
                                   }),
  };
}

/// Filled in by the library in memory of its own, so no size is the caller's; tests/unit/test_membership.cpp has it.
constexpr const char *given_by_the_library[] = {"weir_device_loss"};

void expect_of(const char *name, uint32_t size, weir_result wanted, weir_result got) {
  if (got != wanted)
    fail_msg("%s with struct_size %u: got %d (%s)", name, size, got, weir_last_error());
}
void expect_words(const char *name, uint32_t size, const std::string &words) {
  if (std::strstr(weir_last_error(), words.c_str()) == nullptr)
    fail_msg("%s with struct_size %u: \"%s\" does not name \"%s\"", name, size, weir_last_error(),
             words.c_str());
}

/// Sizes that no version of a struct has had: too small, or never set.
std::vector<uint32_t> no_sizes(uint32_t first) {
  return {0, 1, 7, 8, first - 8, first - 1, 65537, 0xa5a5a5a5};
}

void a_size_that_is_none_is_refused(void **) {
  for (const Descriptor &of : descriptors()) {
    for (const uint32_t size : no_sizes(of.first)) {
      Bytes bytes = sized(of.good, static_cast<uint32_t>(of.good.size()));
      std::memcpy(bytes.data(), &size, sizeof size);
      expect_of(of.name, size, WEIR_ERROR_INVALID_ARGUMENT, of.call(bytes.data()));
      expect_words(of.name, size, "struct_size is " + std::to_string(size));
    }
  }
  for (const Output &of : outputs()) {
    for (const uint32_t size : no_sizes(of.first)) {
      Bytes bytes(of.size + 256, behind);
      std::memcpy(bytes.data(), &size, sizeof size);
      const Bytes before = bytes;
      expect_of(of.name, size, WEIR_ERROR_INVALID_ARGUMENT, of.call(bytes.data()));
      expect_words(of.name, size, "struct_size is " + std::to_string(size));
      if (bytes != before) fail_msg("%s with struct_size %u was written", of.name, size);
    }
  }
}

void a_smaller_descriptor_is_extended_with_zeros(void **) {
  for (const Descriptor &of : descriptors()) {
    assert_in_range(of.good.size(), of.first, 65536);
    for (auto size = of.first; size <= of.good.size(); size += 8) {
      Bytes bytes = sized(of.good, size);
      const Bytes before = bytes;
      expect_of(of.name, size, WEIR_SUCCESS, of.call(bytes.data()));
      if (bytes != before) fail_msg("%s was written, and is const", of.name);
    }
  }
}

void a_larger_descriptor_may_be_zero_behind_what_is_known(void **) {
  for (const Descriptor &of : descriptors()) {
    const auto known = static_cast<uint32_t>(of.good.size());
    for (const uint32_t more : {1U, 8U, 200U}) {
      Bytes bytes = sized(of.good, known + more);
      expect_of(of.name, known + more, WEIR_SUCCESS, of.call(bytes.data()));
      for (const uint32_t at : {known, known + more - 1}) {
        bytes[at] = 1;
        expect_of(of.name, known + more, WEIR_ERROR_INVALID_ARGUMENT, of.call(bytes.data()));
        expect_words(of.name, known + more, "struct_size " + std::to_string(known + more));
        expect_words(of.name, known + more, "non-zero byte at " + std::to_string(at));
        bytes[at] = 0;
      }
    }
  }
}

void an_output_is_as_large_as_the_caller_says(void **) {
  for (const Output &of : outputs()) {
    for (uint32_t size = of.first; size <= of.size + 64; size += 4) {
      Bytes bytes(of.size + 256, behind);
      std::memcpy(bytes.data(), &size, sizeof size);
      expect_of(of.name, size, WEIR_SUCCESS, of.call(bytes.data()));
      uint32_t kept = 0;
      std::memcpy(&kept, bytes.data(), sizeof kept);
      if (kept != size) fail_msg("%s: struct_size was %u, became %u", of.name, size, kept);
      for (size_t at = of.size; at < bytes.size(); ++at) {
        if (bytes[at] != (at < size ? 0 : behind))
          fail_msg("%s with struct_size %u: byte %zu is %u", of.name, size, at, bytes[at]);
      }
      if (std::memcmp(bytes.data() + 4, Bytes(4, behind).data(), 4) == 0)
        fail_msg("%s with struct_size %u: nothing was written", of.name, size);
    }
  }
}

// ---- tables of backends ----

struct LargerTable {
  weir_backend_table known;
  void (*unknown[4])();
};
LargerTable table;
const weir_backend_table *query_table(uint32_t) { return &table.known; }

const weir_backend_table *good_table() {
  const std::string path =
      std::string(std::getenv("WEIR_LIB_DIR")) + "/weir/1/libweir_backend_host.so";
  static void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  void *symbol = dlsym(library, WEIR_BACKEND_QUERY_SYMBOL);
  weir_backend_query_fn query = nullptr;
  std::memcpy(&query, &symbol, sizeof query);
  return query(WEIR_BACKEND_ABI_MAJOR);
}

void works_with(uint32_t struct_size) {
  table.known.struct_size = struct_size;
  const weir_backend_query_fn queries[] = {query_table};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_NO_HOST_BACKEND;
  desc.backends = queries;
  desc.backend_count = 1;
  desc.options = "host.memory=4M;host.granule=16K;host.granule_large=0";
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  uint32_t devices = 0;
  ok(weir_device_count(context, &devices));
  assert_int_equal(devices, 1);
  ok(weir_context_destroy(context));
}

weir_result describe_first_version(weir_be_state *state, uint32_t device,
                                   weir_be_device *description) {
  const weir_result result = good_table()->device_describe(state, device, description);
  if (result == WEIR_SUCCESS) {
    description->capabilities &=
        ~(WEIR_CAP_MAP_RUN | WEIR_CAP_ACCESS_LATER | WEIR_CAP_TRANSFER_STREAM);
  }
  return result;
}

/// Of yesterday: what lies behind its end is not looked at, even where it is no function. A group that ends in the middle
/// is left out by the backend too.
void a_smaller_table_has_no_entries_beyond_its_end(void **) {
  struct End {
    size_t at, half_group;
  };
  const End ends[] = {
      {offsetof(weir_backend_table, granule_export_fabric), 0},
      {offsetof(weir_backend_table, granule_import_fabric),
       offsetof(weir_backend_table, granule_export_fabric)},
      {offsetof(weir_backend_table, map_run), 0},
      {offsetof(weir_backend_table, unmap_run), offsetof(weir_backend_table, map_run)},
      {offsetof(weir_backend_table, access_add), 0},
      {offsetof(weir_backend_table, native_memory), 0},
  };
  for (const End &end : ends) {
    table.known = *good_table();
    table.known.device_describe = describe_first_version;
    auto *const bytes = reinterpret_cast<uint8_t *>(&table.known);
    std::memset(bytes + end.at, behind, sizeof table - end.at);
    if (end.half_group != 0) std::memset(bytes + end.half_group, 0, end.at - end.half_group);
    works_with(static_cast<uint32_t>(end.at));
  }
}

/// Of tomorrow.
void a_larger_table_is_taken(void **) {
  table.known = *good_table();
  std::memset(reinterpret_cast<uint8_t *>(table.unknown), behind, sizeof table.unknown);
  works_with(sizeof table);
}

int list() {
  Things made;
  things = &made;
  for (const Descriptor &of : descriptors()) std::printf("%s\n", of.name);
  for (const Output &of : outputs()) std::printf("%s\n", of.name);
  for (const char *name : given_by_the_library) std::printf("%s\n", name);
  made.close();
  return 0;
}

int set_up(void **) {
  things = new Things;
  return 0;
}
int tear_down(void **) {
  things->close();
  delete things;
  return 0;
}

}  // namespace
}  // namespace weir::test

int main(int argc, char **argv) {
  using namespace weir::test;
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) return list();
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_size_that_is_none_is_refused),
      cmocka_unit_test(a_smaller_descriptor_is_extended_with_zeros),
      cmocka_unit_test(a_larger_descriptor_may_be_zero_behind_what_is_known),
      cmocka_unit_test(an_output_is_as_large_as_the_caller_says),
      cmocka_unit_test(a_smaller_table_has_no_entries_beyond_its_end),
      cmocka_unit_test(a_larger_table_is_taken),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
