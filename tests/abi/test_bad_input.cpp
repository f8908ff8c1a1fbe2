// SPDX-License-Identifier: Apache-2.0
//
// Bad input, function by function: NULL, 0, absurd counts, numbers that name nothing. Each call is refused with the result
// that the headers promise and a sentence that names the culprit; it changes nothing; and what weir_last_error_info tells is
// about that call: before each another error is made, of whose figures none may be left. Then what a capacity of 0 asks for.

#include <functional>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t untouched = 0x1234567;
constexpr size_t many = SIZE_MAX;
constexpr uint64_t none = UINT64_MAX;
constexpr weir_device nowhere = 4242;

struct Case {
  const char *name;
  weir_result wanted;
  const char *words;  ///< that the sentence has
  std::function<weir_result()> call;
  uint64_t use_index = none;
};

struct Bad : World {
  weir_stream cpu = nullptr;
  weir_buffer buffer = nullptr, huge = nullptr;
  weir_client client = nullptr;
  // What calls may write to: kept at 0 or untouched.
  weir_context no_context = nullptr;
  weir_pool no_pool = nullptr;
  weir_stream no_stream = nullptr;
  weir_buffer no_buffer = nullptr;
  weir_client no_client = nullptr;
  weir_lease no_lease = nullptr;
  weir_request no_request = nullptr;
  uint64_t number = untouched;
  size_t count = untouched;
  uint32_t small_count = 77;
  char text[8] = "";
  weir_use use{}, uses[2]{};

  Bad() {
    ok(weir_stream_create(context, WEIR_DEVICE_HOST, 0, &cpu));
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    ok(weir_client_create(pool, &desc, &client));
    buffer = this->World::buffer(2 * page_bytes);
    huge = this->World::buffer(9 * page_bytes);
    fill(buffer, 2 * page_bytes, 1);
    use = use_of(buffer);
    uses[0] = uses[1] = use;
  }
  static weir_use use_of(weir_buffer of) {
    weir_use made = WEIR_USE(of, WEIR_READ);
    made.address = untouched;
    return made;
  }
  /// An error with figures, which are not to be seen again.
  void poison() {
    weir_use too_large = WEIR_USE(huge, WEIR_READ);
    expect_result(WEIR_ERROR_OVER_BUDGET,
                  weir_acquire(pool, streams[0], &too_large, 1, nullptr, &no_lease));
    const weir_error_info info = last_error();
    assert_true(info.asked != 0 && info.short_by != 0 && info.tier != WEIR_TIER_NONE);
  }
  void expect(const Case &each) {
    poison();
    const weir_result got = each.call();
    if (got != each.wanted)
      fail_msg("%s: got %d (%s), not %d", each.name, got, weir_last_error(), each.wanted);
    const weir_error_info info = last_error();
    if (std::strstr(weir_last_error(), each.words) == nullptr)
      fail_msg("%s: \"%s\" does not have \"%s\"", each.name, weir_last_error(), each.words);
    const bool about_it = info.result == got && info.asked == 0 && info.available == 0 &&
                          info.short_by == 0 && info.native_code == 0 &&
                          info.tier == WEIR_TIER_NONE && info.device == WEIR_DEVICE_HOST;
    if (!about_it) fail_msg("%s: the figures are another error's", each.name);
    if (info.use_index != each.use_index)
      fail_msg("%s: use_index is %llu", each.name, static_cast<unsigned long long>(info.use_index));
    const bool kept = no_context == nullptr && no_pool == nullptr && no_stream == nullptr &&
                      no_buffer == nullptr && no_client == nullptr && no_lease == nullptr &&
                      no_request == nullptr && number == untouched && count == untouched &&
                      small_count == 77 && use.address == untouched &&
                      uses[0].address == untouched && uses[1].address == untouched;
    if (!kept) fail_msg("%s: something was written", each.name);
    if (!all_at_rest()) fail_msg("%s: something was changed", each.name);
  }
  bool all_at_rest() {
    const weir_pool_stats now = stats();
    return now.buffers == 2 && now.device_held_bytes == 0;
  }
  void end() {
    check(buffer, 2 * page_bytes, 1);
    ok(weir_stream_close(cpu));
    close();
  }
};

constexpr weir_result argument = WEIR_ERROR_INVALID_ARGUMENT;
constexpr weir_result handle = WEIR_ERROR_INVALID_HANDLE;

#define REFUSES(wanted, words, call)                            \
  Case {                                                        \
#call, wanted, words, [&]() -> weir_result { return call; } \
  }
#define REFUSES_USE(index, wanted, words, call)                        \
  Case {                                                               \
#call, wanted, words, [&]() -> weir_result { return call; }, index \
  }

void contexts_and_streams(void **) {
  Bad w;
  weir_backend_query_fn none_there[1] = {nullptr};
  const auto context_of = [&](uint32_t backends, const weir_backend_query_fn *list) {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH;
    desc.backend_count = backends;
    desc.backends = list;
    return weir_context_create(&desc, &w.no_context);
  };
  const Case cases[] = {
      REFUSES(argument, "context is NULL", weir_context_create(nullptr, nullptr)),
      REFUSES(argument, "backend_count is 1", context_of(1, nullptr)),
      REFUSES(argument, "backends[0] is NULL", context_of(1, none_there)),
      REFUSES(argument, "4294967295", context_of(UINT32_MAX, none_there)),
      REFUSES(handle, "no context", weir_backend_count(nullptr, &w.small_count)),
      REFUSES(argument, "count is NULL", weir_backend_count(w.context, nullptr)),
      REFUSES(argument, "info is NULL", weir_backend_info_get(w.context, 0, nullptr)),
      REFUSES(argument, "4242", weir_backend_info_get(w.context, nowhere, nullptr)),
      REFUSES(argument, "count is NULL", weir_device_count(w.context, nullptr)),
      REFUSES(argument, "info is NULL", weir_device_info_get(w.context, 0, nullptr)),
      REFUSES(argument, "4242", weir_device_info_get(w.context, nowhere, nullptr)),
      REFUSES(argument, "device is NULL", weir_device_find(w.context, "gpu", nullptr)),
      REFUSES(argument, "\"gpu:x\"", weir_device_find(w.context, "gpu:x", &w.small_count)),
      REFUSES(argument, "info is NULL", weir_link_info_get(w.context, 0, 0, nullptr)),
      REFUSES(argument, "4242", weir_link_info_get(w.context, 0, nowhere, nullptr)),
      REFUSES(argument, "stream is NULL", weir_stream_create(w.context, 0, 0, nullptr)),
      REFUSES(argument, "4242", weir_stream_create(w.context, nowhere, 0, &w.no_stream)),
      REFUSES(argument, "0x8", weir_stream_create(w.context, 0, 8, &w.no_stream)),
      REFUSES(argument, "4242", weir_stream_wrap(w.context, nowhere, nullptr, 0, &w.no_stream)),
      REFUSES(handle, "stream", weir_stream_synchronize(nullptr)),
      REFUSES(handle, "stream", weir_stream_query(nullptr)),
      REFUSES(handle, "stream", weir_stream_host_call(nullptr, nullptr, nullptr)),
      REFUSES(argument, "function is NULL", weir_stream_host_call(w.streams[0], nullptr, nullptr)),
      REFUSES(argument, "native is NULL", weir_stream_native(w.streams[0], nullptr)),
      REFUSES(argument, "text is NULL",
              weir_topology_export(w.context, WEIR_TOPOLOGY_JSON, nullptr, 8, &w.count)),
      REFUSES(argument, "capacity is 0",
              weir_topology_export(w.context, WEIR_TOPOLOGY_JSON, nullptr, 0, nullptr)),
      REFUSES(argument, "99", weir_topology_export(w.context, 99, w.text, 8, &w.count)),
  };
  for (const Case &each : cases) w.expect(each);
  w.end();
}

void pools_and_clients(void **) {
  Bad w;
  weir_pool_device devices[1] = {};
  devices[0].budget = 4 * page_bytes;
  const char *folders[1] = {spill_folder()};
  const auto pool_of = [&](uint32_t device_count, uint32_t folder_count, const char *const *paths) {
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.devices = devices;
    desc.device_count = device_count;
    desc.storage_budget = folder_count != 0 ? 64 * page_bytes : 0;
    desc.storage_paths = paths;
    desc.storage_path_count = folder_count;
    return weir_pool_create(w.context, &desc, &w.no_pool);
  };
  const auto defragmentation = [&](uint32_t threshold, uint64_t flags) {
    weir_defragmentation_desc desc = WEIR_DEFRAGMENTATION_DESC_INIT;
    desc.threshold_permille = threshold;
    desc.flags = flags;
    return weir_pool_set_defragmentation(w.pool, &desc);
  };
  weir_pool_device elsewhere{};
  elsewhere.device = nowhere;
  const Case cases[] = {
      REFUSES(argument, "desc is NULL", weir_pool_create(w.context, nullptr, &w.no_pool)),
      REFUSES(argument, "pool is NULL", weir_pool_create(w.context, nullptr, nullptr)),
      REFUSES(argument, "device_count is 0", pool_of(0, 0, nullptr)),
      REFUSES(argument, "device_count is 4294967295", pool_of(UINT32_MAX, 0, nullptr)),
      REFUSES(argument, "storage_path_count is 4294967295", pool_of(1, UINT32_MAX, folders)),
      REFUSES(argument, "storage_path_count is 1", pool_of(1, 1, nullptr)),
      REFUSES(argument, "device is NULL", weir_pool_add_device(w.pool, nullptr)),
      REFUSES(argument, "4242", weir_pool_add_device(w.pool, &elsewhere)),
      REFUSES(argument, "4242", weir_pool_remove_device(w.pool, nowhere, 0)),
      REFUSES(argument, "4242", weir_pool_cancel_remove(w.pool, nowhere)),
      REFUSES(handle, "pool", weir_pool_rebalance(nullptr, 1, &w.number)),
      REFUSES(handle, "pool", weir_pool_set_loss_callback(nullptr, nullptr, nullptr)),
      REFUSES(argument, "count is NULL", weir_pool_lost_ranges(w.pool, nullptr, 0, nullptr)),
      REFUSES(argument, "ranges is NULL", weir_pool_lost_ranges(w.pool, nullptr, many, &w.count)),
      REFUSES(argument, "count is NULL", weir_pool_map(w.pool, nullptr, 0, nullptr)),
      REFUSES(argument, "pieces is NULL", weir_pool_map(w.pool, nullptr, many, &w.count)),
      REFUSES(argument, "text is NULL", weir_pool_snapshot(w.pool, nullptr, many, &w.count)),
      REFUSES(argument, "capacity is 0", weir_pool_snapshot(w.pool, w.text, 0, nullptr)),
      REFUSES(argument, "client is NULL", weir_client_create(w.pool, nullptr, nullptr)),
      REFUSES(argument, "desc is NULL", weir_client_create(w.pool, nullptr, &w.no_client)),
      REFUSES(handle, "client", weir_client_stats_get(nullptr, nullptr)),
      REFUSES(argument, "stats is NULL", weir_client_stats_get(w.client, nullptr)),
      REFUSES(argument, "99", weir_pool_trim(w.pool, 0, 99, 1, nullptr)),
      REFUSES(argument, "4242", weir_pool_trim(w.pool, nowhere, WEIR_TRIM_GRADUAL, 1, nullptr)),
      REFUSES(argument, "desc is NULL", weir_pool_defragment(w.pool, nullptr, nullptr)),
      REFUSES(argument, "desc is NULL", weir_pool_set_defragmentation(w.pool, nullptr)),
      REFUSES(argument, "1001", defragmentation(1001, 0)),
      REFUSES(argument, "0x40", defragmentation(0, 64)),
      REFUSES(WEIR_ERROR_NOT_SUPPORTED, "NO_BACKGROUND", defragmentation(1, 0)),
      REFUSES(argument, "stats is NULL", weir_pool_stats_get(w.pool, nullptr)),
      REFUSES(argument, "stats is NULL", weir_pool_codec_stats_get(w.pool, nullptr)),
      REFUSES(argument, "stats is NULL", weir_pool_device_stats_get(w.pool, 0, nullptr)),
      REFUSES(argument, "4242", weir_pool_device_stats_get(w.pool, nowhere, nullptr)),
      REFUSES(argument, "4242", weir_pool_reset_peak(w.pool, nowhere)),
  };
  for (const Case &each : cases) w.expect(each);
  w.end();
}

void buffers_and_memory(void **) {
  Bad w;
  weir_buffer_desc good = WEIR_BUFFER_DESC_INIT;
  good.size = page_bytes;
  const weir_buffer_desc empty = WEIR_BUFFER_DESC_INIT;
  const weir_buffer_desc *list[1] = {&good}, *hole[1] = {nullptr};
  weir_device homes[1] = {nowhere};
  std::vector<uint8_t> bytes(2 * page_bytes);
  const Case cases[] = {
      REFUSES(argument, "desc is NULL", weir_buffer_create(w.pool, nullptr, &w.no_buffer)),
      REFUSES(argument, "buffer is NULL", weir_buffer_create(w.pool, &good, nullptr)),
      REFUSES(argument, "size", weir_buffer_create(w.pool, &empty, &w.no_buffer)),
      REFUSES(argument, "count is 0", weir_buffer_place(w.pool, list, 0, homes)),
      REFUSES(argument, "count is 4097", weir_buffer_place(w.pool, list, 4097, homes)),
      REFUSES(argument, "count is 18446744073709551615",
              weir_buffer_place(w.pool, list, many, homes)),
      REFUSES(argument, "descs is NULL", weir_buffer_place(w.pool, nullptr, 1, homes)),
      REFUSES(argument, "homes is NULL", weir_buffer_place(w.pool, list, 1, nullptr)),
      REFUSES(argument, "descs[0] is NULL", weir_buffer_place(w.pool, hole, 1, homes)),
      REFUSES(argument, "info is NULL",
              weir_buffer_info_get(w.pool, w.buffer, 0, WEIR_WHOLE, nullptr)),
      REFUSES(handle, "buffer", weir_buffer_info_get(w.pool, nullptr, 0, WEIR_WHOLE, nullptr)),
      REFUSES(argument, "count is NULL",
              weir_buffer_shards(w.pool, w.buffer, 0, nullptr, 0, nullptr)),
      REFUSES(argument, "shards is NULL",
              weir_buffer_shards(w.pool, w.buffer, 0, nullptr, many, &w.count)),
      REFUSES(argument, "NULL", weir_buffer_read(w.pool, w.buffer, 0, 1, nullptr)),
      REFUSES(argument, "NULL", weir_buffer_write(w.pool, w.buffer, 0, 1, nullptr)),
      REFUSES(argument, "18446744073709551614",
              weir_buffer_read(w.pool, w.buffer, 0, many - 1, bytes.data())),
      REFUSES(argument, "18446744073709551614",
              weir_buffer_write(w.pool, w.buffer, 0, many - 1, bytes.data())),
      REFUSES(argument, "18446744073709551614",
              weir_buffer_read(w.pool, w.buffer, many - 1, 4, bytes.data())),
      REFUSES(argument, "18446744073709551614", weir_discard(w.pool, w.buffer, 0, many - 1)),
      REFUSES(argument, "99", weir_advise(w.pool, w.buffer, 0, WEIR_WHOLE, 99)),
      REFUSES(argument, "address is NULL", weir_hold(w.pool, w.buffer, 0, nullptr)),
      REFUSES(argument, "4242", weir_hold(w.pool, w.buffer, nowhere, &w.number)),
      REFUSES(argument, "NULL", weir_host_register(w.pool, w.buffer, nullptr, 0)),
      REFUSES(argument, "address is NULL", weir_malloc(w.pool, 0, nullptr, 1, nullptr)),
      REFUSES(argument, "0", weir_malloc(w.pool, 0, nullptr, 0, &w.number)),
      REFUSES(argument, "4242", weir_malloc(w.pool, nowhere, nullptr, 1, &w.number)),
      REFUSES(argument, "0x10", weir_free(w.pool, nullptr, 16)),
  };
  for (const Case &each : cases) w.expect(each);
  w.end();
}

void sets_and_hints(void **) {
  Bad w;
  const weir_stream stream = w.streams[0];
  const auto acquire = [&](size_t count, const weir_use &bad) {
    w.uses[1] = bad;
    const weir_result result = weir_acquire(w.pool, stream, w.uses, count, nullptr, &w.no_lease);
    w.uses[1].address = untouched;
    return result;
  };
  const auto prefetch = [&](const weir_use &bad) {
    const weir_use both[2] = {w.use, bad};
    return weir_prefetch(w.pool, stream, both, 2);
  };
  const auto with = [&](auto change) {
    weir_use changed = w.use;
    change(changed);
    return changed;
  };
  const weir_use no_mode = with([](weir_use &u) { u.mode = 0; });
  const weir_use ninth_mode = with([](weir_use &u) { u.mode = 9; });
  const weir_use odd_flags = with([](weir_use &u) { u.flags = 64; });
  const weir_use odd_word = with([](weir_use &u) { u.reserved[1] = 5; });
  const weir_use no_length = with([](weir_use &u) { u.length = 0; });
  const weir_use too_long = with([](weir_use &u) { u.length = many - 1; });
  const weir_use far_out = with([](weir_use &u) { u.offset = many; });
  const weir_use nobody = with([](weir_use &u) { u.buffer = nullptr; });
  const auto announce = [&](uint64_t uses, const weir_use *list, size_t operations = 1) {
    weir_operation operation = WEIR_OPERATION_INIT;
    operation.uses = list;
    operation.use_count = uses;
    return weir_announce(w.pool, stream, &operation, operations, 0);
  };
  const weir_acquire_callback never = [](void *, weir_result, weir_lease) {};
  const auto async = [&](weir_use *uses, weir_acquire_callback callback) {
    return weir_acquire_async(w.pool, stream, uses, 1, nullptr, callback, nullptr, &w.no_request);
  };
  weir_result ended = WEIR_SUCCESS;
  const Case cases[] = {
      REFUSES(argument, "uses is NULL",
              weir_acquire(w.pool, stream, nullptr, 1, nullptr, &w.no_lease)),
      REFUSES(argument, "lease is NULL", weir_acquire(w.pool, stream, w.uses, 1, nullptr, nullptr)),
      REFUSES(argument, "count is 0", acquire(0, w.use)),
      REFUSES(argument, "count is 65536", acquire(65536, w.use)),
      REFUSES(argument, "count is 18446744073709551615", acquire(many, w.use)),
      REFUSES_USE(1, argument, "uses[1].mode is 0", acquire(2, no_mode)),
      REFUSES_USE(1, argument, "uses[1].mode is 9", acquire(2, ninth_mode)),
      REFUSES_USE(1, argument, "uses[1].flags is 64", acquire(2, odd_flags)),
      REFUSES_USE(1, argument, "uses[1].reserved", acquire(2, odd_word)),
      REFUSES_USE(1, argument, "uses[1].length is 0", acquire(2, no_length)),
      REFUSES_USE(1, argument, "uses[1].length", acquire(2, too_long)),
      REFUSES_USE(1, argument, "uses[1].offset", acquire(2, far_out)),
      REFUSES_USE(1, handle, "uses[1].buffer", acquire(2, nobody)),
      REFUSES(argument, "uses is NULL", async(nullptr, never)),
      REFUSES(argument, "callback is NULL", async(w.uses, nullptr)),
      REFUSES(handle, "request is NULL", weir_request_wait(nullptr, &ended)),
      REFUSES(handle, "request is NULL", weir_request_cancel(nullptr)),
      REFUSES(handle, "lease", weir_release(nullptr, stream)),
      REFUSES(argument, "uses is NULL", weir_prefetch(w.pool, stream, nullptr, 1)),
      REFUSES(argument, "count is 18446744073709551615",
              weir_prefetch(w.pool, stream, w.uses, many)),
      REFUSES(argument, "count is 1099511627776",
              weir_prefetch(w.pool, stream, w.uses, size_t{1} << 40U)),
      REFUSES_USE(1, argument, "uses[1]", prefetch(ninth_mode)),
      REFUSES_USE(1, argument, "", prefetch(far_out)),
      REFUSES_USE(1, handle, "", prefetch(nobody)),
      REFUSES(argument, "operations is NULL", weir_announce(w.pool, stream, nullptr, 1, 0)),
      REFUSES(argument, "0x2", weir_announce(w.pool, stream, nullptr, 0, 2)),
      REFUSES(argument, "count is 18446744073709551615", announce(1, w.uses, many)),
      REFUSES(argument, "count is 4294967296", announce(1, w.uses, size_t{1} << 32U)),
      REFUSES(argument, "use_count is 18446744073709551615", announce(many, w.uses)),
      REFUSES(argument, "use_count is 65536", announce(65536, w.uses)),
      REFUSES(argument, "operations[0].uses is NULL", announce(1, nullptr)),
      REFUSES_USE(0, argument, "operations[0].uses[0]", announce(1, &ninth_mode)),
  };
  for (const Case &each : cases) w.expect(each);
  // Asynchronous ones tell by their callback.
  weir_request request = nullptr;
  for (const size_t count : {size_t{0}, size_t{65536}, many}) {
    ok(weir_acquire_async(w.pool, stream, w.uses, count, nullptr, never, nullptr, &request));
    ok(weir_request_wait(request, &ended));
    assert_int_equal(ended, WEIR_ERROR_INVALID_ARGUMENT);
    assert_non_null(std::strstr(weir_last_error(), std::to_string(count).c_str()));
    weir_request_close(request);
  }
  w.end();
}

void arenas_and_codecs(void **) {
  Bad w;
  weir_arena arena = nullptr;
  weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
  desc.size = 1024;
  ok(weir_arena_create(&desc, &arena));
  weir_arena_allocation made = 0;
  uint64_t offset = 0;
  std::vector<uint8_t> bytes(256);
  weir_arena_desc absurd = desc;
  absurd.size = UINT64_MAX;
  const Case cases[] = {
      REFUSES(argument, "desc is NULL", weir_arena_create(nullptr, &arena)),
      REFUSES(argument, "arena is NULL", weir_arena_create(&desc, nullptr)),
      REFUSES(argument, "18446744073709551615", weir_arena_create(&absurd, &arena)),
      REFUSES(handle, "arena is NULL", weir_arena_allocate(nullptr, 1, 1, &made, &offset)),
      REFUSES(argument, "size is 0", weir_arena_allocate(arena, 0, 1, &made, &offset)),
      REFUSES(argument, "allocation is NULL", weir_arena_allocate(arena, 1, 1, nullptr, &offset)),
      REFUSES(argument, "offset is NULL", weir_arena_allocate(arena, 1, 1, &made, nullptr)),
      REFUSES(handle, "", weir_arena_free(arena, 0)),
      REFUSES(handle, "", weir_arena_info(arena, 7, &offset, &offset)),
      REFUSES(argument, "18446744073709551615", weir_arena_resize(arena, UINT64_MAX)),
      REFUSES(argument, "size is 0", weir_arena_resize(arena, 0)),
      REFUSES(argument, "stats is NULL", weir_arena_stats_get(arena, nullptr)),
      REFUSES(argument, "report is NULL", weir_arena_report_get(arena, nullptr)),
      REFUSES(argument, "visitor is NULL", weir_arena_walk(arena, nullptr, nullptr)),
      REFUSES(handle, "arena is NULL", weir_arena_validate(nullptr)),
      REFUSES(argument, "blob_bytes is NULL",
              weir_compress(nullptr, bytes.data(), 1, bytes.data(), 1, nullptr)),
      REFUSES(argument, "18446744073709551615",
              weir_compress(nullptr, bytes.data(), UINT64_MAX, bytes.data(), 1, &offset)),
      REFUSES(argument, "in is NULL", weir_compress(nullptr, nullptr, 1, bytes.data(), 1, &offset)),
      REFUSES(argument, "out is NULL",
              weir_compress(nullptr, bytes.data(), 1, nullptr, 1, &offset)),
      REFUSES(argument, "blob is NULL", weir_decompress(nullptr, 1, bytes.data(), 1, &offset)),
      REFUSES(argument, "blob is NULL", weir_compressed_info_get(nullptr, 1, nullptr)),
  };
  for (const Case &each : cases) w.expect(each);
  weir_arena_destroy(arena);
  w.end();
}

/// A capacity of 0 only asks how much there is; one that is too small is answered with what fits.
void lists_and_texts_are_cut(void **) {
  Bad w;
  size_t count = 0;
  ok(weir_pool_map(w.pool, nullptr, 0, &count));
  assert_true(count > 1);
  weir_piece piece{};
  expect_result(WEIR_INCOMPLETE, weir_pool_map(w.pool, &piece, 1, &count));
  assert_true(count > 1);
  ok(weir_pool_lost_ranges(w.pool, nullptr, 0, &count));
  assert_int_equal(count, 0);
  ok(weir_buffer_shards(w.pool, w.buffer, 0, nullptr, 0, &count));
  assert_int_equal(count, 1);
  ok(weir_pool_snapshot(w.pool, nullptr, 0, &count));
  assert_true(count > 8);
  expect_result(WEIR_INCOMPLETE, weir_pool_snapshot(w.pool, w.text, 8, &count));
  assert_int_equal(std::strlen(w.text), 7);
  ok(weir_topology_export(w.context, WEIR_TOPOLOGY_TEXT, nullptr, 0, &count));
  expect_result(WEIR_INCOMPLETE,
                weir_topology_export(w.context, WEIR_TOPOLOGY_TEXT, w.text, 8, &count));
  assert_int_equal(std::strlen(w.text), 7);
  w.end();
}

/// Nothing is brought for a list of hints of which one is bad.
void a_bad_hint_spoils_the_others(void **) {
  Bad w;
  ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  const uint64_t before = w.stats().promoted_bytes;
  weir_use bad = w.use;
  bad.mode = 0;
  const weir_use both[2] = {w.use, bad};
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_prefetch(w.pool, w.streams[0], both, 2));
  ok(weir_prefetch(w.pool, w.streams[0], nullptr, 0));  // would do what is queued
  assert_int_equal(w.stats().promoted_bytes, before);
  ok(weir_prefetch(w.pool, w.streams[0], both, 1));
  assert_true(w.stats().promoted_bytes > before);
  w.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(contexts_and_streams),
      cmocka_unit_test(pools_and_clients),
      cmocka_unit_test(buffers_and_memory),
      cmocka_unit_test(sets_and_hints),
      cmocka_unit_test(arenas_and_codecs),
      cmocka_unit_test(lists_and_texts_are_cut),
      cmocka_unit_test(a_bad_hint_spoils_the_others),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
