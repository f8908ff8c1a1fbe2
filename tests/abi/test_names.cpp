// SPDX-License-Identifier: Apache-2.0
//
// Names of buffers through the C ABI: given and read back, in snapshots and error texts, and gone with their buffer.

#include "tests/abi/pool_fixture.hpp"

#include <nlohmann/json.hpp>

namespace {

using namespace weir::test;

weir_buffer named(World &world, const char *name, uint64_t size = page_bytes) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.name = name;
  weir_buffer made = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &made));
  return made;
}

std::string name_of(World &world, weir_buffer buffer) {
  char text[300];
  size_t needed = 0;
  ok(weir_buffer_name(world.pool, buffer, text, sizeof text, &needed));
  assert_int_equal(needed, std::strlen(text) + 1);
  return text;
}

nlohmann::json snapshot(World &world) {
  size_t needed = 0;
  ok(weir_pool_snapshot(world.pool, nullptr, 0, &needed));
  std::string text(needed, '\0');
  ok(weir_pool_snapshot(world.pool, text.data(), needed, nullptr));
  return nlohmann::json::parse(text.c_str());
}

void names_come_and_go(void **) {
  World world;
  for (const uint64_t size : {page_bytes, page_bytes / 8}) {
    weir_buffer buffer = named(world, "weights", size);
    weir_buffer other = named(world, nullptr, size);
    assert_string_equal(name_of(world, buffer).c_str(), "weights");
    assert_string_equal(name_of(world, other).c_str(), "");
    char copied[] = "layer 1";
    ok(weir_buffer_set_name(world.pool, other, copied));
    std::memset(copied, 'x', sizeof copied - 1);
    assert_string_equal(name_of(world, other).c_str(), "layer 1");
    ok(weir_buffer_set_name(world.pool, buffer, "bias"));
    assert_string_equal(name_of(world, buffer).c_str(), "bias");
    ok(weir_buffer_set_name(world.pool, buffer, nullptr));
    assert_string_equal(name_of(world, buffer).c_str(), "");
    ok(weir_buffer_set_name(world.pool, other, ""));
    assert_string_equal(name_of(world, other).c_str(), "");
    ok(weir_buffer_set_name(world.pool, buffer, "bias"));
    ok(weir_buffer_destroy(world.pool, buffer));
    // The next has the index of the last, and nothing of its name.
    weir_buffer next = named(world, nullptr, size);
    assert_string_equal(name_of(world, next).c_str(), "");
    expect_result(WEIR_ERROR_INVALID_HANDLE, weir_buffer_set_name(world.pool, buffer, "late"));
    char text[8];
    expect_result(WEIR_ERROR_INVALID_HANDLE,
                  weir_buffer_name(world.pool, buffer, text, sizeof text, nullptr));
    ok(weir_buffer_destroy(world.pool, next));
    ok(weir_buffer_destroy(world.pool, other));
  }
  world.close();
}

void the_text_is_bounded(void **) {
  World world;
  weir_buffer buffer = named(world, "activations");
  char text[12];
  size_t needed = 0;
  ok(weir_buffer_name(world.pool, buffer, nullptr, 0, &needed));
  assert_int_equal(needed, 12);
  std::memset(text, '#', sizeof text);
  expect_result(WEIR_INCOMPLETE, weir_buffer_name(world.pool, buffer, text, 4, &needed));
  assert_string_equal(text, "act");
  assert_int_equal(text[4], '#');
  assert_int_equal(needed, 12);
  ok(weir_buffer_name(world.pool, buffer, text, 12, nullptr));
  assert_string_equal(text, "activations");
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_buffer_name(world.pool, buffer, nullptr, 4, &needed));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_buffer_name(world.pool, buffer, nullptr, 0, nullptr));
  // What is too long is cut, and not within a character.
  const std::string start(254, 'n');
  for (const char *end : {"\xc3\xa4", "ab"}) {
    ok(weir_buffer_set_name(world.pool, buffer, (start + end).c_str()));
    assert_string_equal(name_of(world, buffer).c_str(),
                        end[0] == 'a' ? (start + "a").c_str() : start.c_str());
  }
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// Buffers without a name cost no more for those that have one, and one that has loses all of it.
void names_are_counted(void **) {
  World world;
  weir_buffer plain = named(world, nullptr);
  weir_buffer first = named(world, "the first name makes the table");
  const uint64_t before = world.stats().bookkeeping_bytes;
  ok(weir_buffer_set_name(world.pool, plain, std::string(200, 'n').c_str()));
  assert_true(world.stats().bookkeeping_bytes >= before + 200);
  ok(weir_buffer_set_name(world.pool, plain, nullptr));
  assert_int_equal(world.stats().bookkeeping_bytes, before);
  ok(weir_buffer_destroy(world.pool, plain));
  ok(weir_buffer_destroy(world.pool, first));
  world.close();
}

void snapshots_have_them_as_text(void **) {
  World world;
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.name = "trainer \xff";
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  weir_buffer_desc of = WEIR_BUFFER_DESC_INIT;
  of.size = page_bytes;
  of.client = client;
  of.name = "K\xc3\xbcste \"1\"\n\x80";
  weir_buffer buffer = nullptr;
  ok(weir_buffer_create(world.pool, &of, &buffer));
  weir_buffer plain = named(world, nullptr);
  const nlohmann::json document = snapshot(world);
  bool found = false;
  for (const auto &each : document["buffers"]) {
    const auto &owner = document["clients"][each["client"].get<size_t>()]["name"];
    if (!each.contains("name")) {
      assert_true(owner == "");
      continue;
    }
    found = true;
    assert_true(each["name"] == "K\xc3\xbcste \"1\"\\x0a\\x80");
    assert_true(owner == "trainer \\xff");
  }
  assert_true(found);
  assert_int_equal(document["buffers"].size(), 2);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_buffer_destroy(world.pool, plain));
  ok(weir_client_destroy(client));
  world.close();
}

[[gnu::noinline]] weir_buffer made_here(World &world) { return named(world, "here"); }

/// By which calls a buffer was made, where a program asks for it.
void stacks_are_in_snapshots(void **) {
  for (const char *asked : {"1", "0"}) {
    assert_int_equal(setenv("WEIR_STACKS", asked, 1), 0);
    World world({.device_pages = 4});
    weir_buffer first = made_here(world), second = named(world, "there");
    uint64_t address = 0;
    ok(weir_malloc(world.pool, 0, world.streams[0], 64, &address));
    const nlohmann::json document = snapshot(world);
    if (asked[0] == '0') {
      assert_false(document.contains("stacks"));
    } else {
      assert_int_equal(document["buffers"].size(), 3);
      assert_int_equal(document["dropped_stacks"].get<int>(), 0);
      for (const auto &each : document["buffers"]) {
        const auto &lines = document["stacks"][std::to_string(each["stack"].get<uint32_t>())];
        assert_true(lines.size() >= 2 && lines.size() <= 32);
        // Weir's own calls are left out: the first line is this program's.
        assert_true(lines[0].get<std::string>().starts_with("test_names"));
      }
      weir_buffer large = named(world, "large", 5 * page_bytes);
      weir_lease lease = nullptr;
      world.fill(first, page_bytes, 1);
      expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &lease));
      std::string text(16384, '\0');
      ok(weir_last_error_report(text.data(), text.size(), nullptr));
      const size_t at = text.find("\"here\"");
      assert_true(at != text.npos && text.find("      test_names", at) != text.npos);
      ok(weir_buffer_destroy(world.pool, large));
    }
    ok(weir_free(world.pool, world.streams[0], address));
    ok(weir_stream_synchronize(world.streams[0]));
    ok(weir_buffer_destroy(world.pool, first));
    ok(weir_buffer_destroy(world.pool, second));
    world.close();
  }
  assert_int_equal(unsetenv("WEIR_STACKS"), 0);
}

#define expect_words(words)                                         \
  do {                                                              \
    if (std::strstr(weir_last_error(), (words)) == nullptr)         \
      fail_msg("\"%s\" is not in: %s", (words), weir_last_error()); \
  } while (false)

void errors_have_them(void **) {
  World world;
  weir_buffer buffer = named(world, "K\x01", 2 * page_bytes);
  weir_use part = WEIR_USE(buffer, WEIR_READ_WRITE);
  part.offset = page_bytes;
  part.length = 100;
  weir_lease lease = nullptr, other = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &part, 1, nullptr, &lease));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_READ, &other));
  char bytes[64];
  std::snprintf(bytes, sizeof bytes, "lease to write bytes %llu..%llu",
                static_cast<unsigned long long>(page_bytes),
                static_cast<unsigned long long>(page_bytes + 100));
  expect_words("uses[0] \"K\\x01\": ");
  expect_words(bytes);
  expect_words("forbids reading 0..");
  assert_int_equal(last_error().use_index, 0);
  expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(world.pool, buffer));
  expect_words("the buffer \"K\\x01\" has unreleased leases");
  expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(world.pool));
  expect_words("\"K\\x01\"");
  ok(weir_release(lease, world.streams[0]));
  // A name that fills all room leaves some for the sentence.
  ok(weir_buffer_set_name(world.pool, buffer, std::string(255, '\x01').c_str()));
  ok(world.acquire(buffer, WEIR_READ_WRITE, &lease));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(buffer, WEIR_READ, &other));
  expect_words("...\": an unreleased lease to write bytes 0..");
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(names_come_and_go), cmocka_unit_test(the_text_is_bounded),
      cmocka_unit_test(names_are_counted), cmocka_unit_test(snapshots_have_them_as_text),
      cmocka_unit_test(errors_have_them),  cmocka_unit_test(stacks_are_in_snapshots),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
