// SPDX-License-Identifier: Apache-2.0
//
// The lines of a recording: each as docs/trace-format.md has it, whatever the names are; none where there is no room, and then nothing
// of it; any fits into the room that is promised to be enough.
#include "tests/support/cmocka.hpp"

#include "core/record/vmt_line.hpp"

#include <weir/weir.h>

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace weir::record;

/// Memory that ends where a sanitizer looks.
class Room {
 public:
  explicit Room(size_t bytes = vmt_longest_line)
      : memory_(new char[bytes]), lines(memory_.get(), bytes) {}

 private:
  std::unique_ptr<char[]> memory_;

 public:
  VmtLines lines;
};

void assert_lines(const VmtLines &lines, const std::string &text) {
  assert_string_equal(std::string(lines.text()).c_str(), text.c_str());
}

void writes_the_lines_of_the_example(void **) {
  Room room;
  VmtLines &lines = room.lines;
  assert_true(lines.begin());
  assert_true(lines.header("name", "two-streams"));
  VmtDevice device;
  device.backend = "host";
  device.memory = 1073741824;
  device.granule = 2097152;
  assert_true(lines.device(device));
  VmtPool pool;
  pool.flags = WEIR_POOL_NO_BACKGROUND;
  pool.host_budget = 268435456;
  pool.page_size = pool.large_page_size = 2097152;
  pool.policy = "lru-window";
  pool.name = "demo";
  assert_true(lines.pool(pool));
  assert_true(lines.pool_device(0, 0, 16777216));
  VmtBuffer buffer;
  buffer.size = 8388608;
  buffer.name = "input";
  assert_true(lines.buffer(buffer));
  assert_true(lines.operation_name(0, 1, "half"));
  assert_true(lines.bytes(VmtBytes::write, {}));
  VmtAcquire acquire;
  acquire.operation.number = 1;
  acquire.uses = 2;
  assert_true(lines.acquire(acquire));
  assert_true(lines.use({0, 0, 4194304, WEIR_READ, 0}));
  assert_true(lines.use({1, 0, vmt_none, WEIR_DISCARD_WRITE, 0}));
  assert_true(lines.release(0, 0));
  assert_true(lines.kernel(0, 81000));
  assert_true(lines.ends(VmtThing::buffer, 0));
  assert_true(lines.ends(VmtThing::pool, 0));
  assert_true(lines.end());
  assert_lines(lines,
               "#vmt 2\n#name two-streams\n"
               "device 0 0 backend=host memory=1073741824 granule=2097152\n"
               "pool 0 0 flags=1 host_budget=268435456 page_size=2097152 large_page_size=2097152 "
               "policy=lru-window name=demo\n"
               "pool_device 0 0 16777216\nb 0 0 8388608 name=input\nn 0 1 half\nwrite 0\n"
               "l 0 0 0 1 2\nu 0 r 0 4194304\nu 1 w\nr 0 0\nk 0 81000\nf 0\nend_pool 0\nend\n");
}

void has_words_for_what_is_no_number(void **) {
  Room room;
  VmtLines &lines = room.lines;
  assert_true(lines.stream(3, 0, WEIR_DEVICE_HOST, true));
  assert_true(lines.pool_device(0, 1, WEIR_UNLIMITED));
  assert_true(lines.trim(0, WEIR_DEVICE_ALL, WEIR_TRIM_SELECTIVE, WEIR_NONE));
  assert_true(lines.allocate(4096, 0, WEIR_DEVICE_DEFAULT, vmt_none, 77));
  assert_true(lines.free(4096, vmt_none));
  VmtClient client;
  client.client = 1;
  client.priority = -2;
  client.device_quota = WEIR_NONE;
  assert_true(lines.client(client));
  VmtBuffer buffer;
  buffer.buffer = 7;
  buffer.size = 1;
  buffer.client = 0;
  buffer.home = WEIR_DEVICE_ANY;
  buffer.tag = UINT64_MAX - 2;
  buffer.priority = -1;
  const uint32_t users[] = {0, WEIR_DEVICE_HOST};
  const uint32_t weights[] = {1, 2};
  buffer.users = users;
  buffer.shard_weights = weights;
  assert_true(lines.buffer(buffer));
  assert_true(lines.use({7, 4096, vmt_none, WEIR_READ_WRITE, WEIR_USE_ALLOW_REMOTE}));
  assert_true(lines.use({7, 0, 5, WEIR_READ, 6}));
  assert_true(lines.priority(7, INT32_MIN));
  VmtAcquire refused;
  refused.pool = 1;
  refused.stream = 2;
  refused.timeout_ns = WEIR_INFINITE;
  refused.async = true;
  assert_true(lines.refused(refused, WEIR_ERROR_WOULD_BLOCK));
  assert_lines(lines,
               "stream 3 0 h wrapped=1\npool_device 0 1 unlimited\ntrim 0 all 1 none\n"
               "m 4096 0 default - 77\nx 4096 -\nclient 1 0 priority=-2 device_quota=none\n"
               "b 7 0 1 client=0 home=any tag=18446744073709551613 priority=-1 users=0,h "
               "shard_weights=1,2\n"
               "u 7 X 4096 -\nu 7 r 0 5 flags=6\npriority 7 -2147483648\n"
               "refused -6 1 2 - 0 timeout_ns=unlimited async=1\n");
}

void stacks_have_lines(void **) {
  Room room;
  VmtLines &lines = room.lines;
  assert_true(lines.module(0, "/opt/a b/lib;m.so", "0aff"));
  assert_true(lines.module(1, "/bin/x", ""));
  assert_true(lines.stack(7, "@1+4660;@0+1"));
  VmtBuffer buffer;
  buffer.size = 1;
  buffer.stack = 7;
  assert_true(lines.buffer(buffer));
  assert_true(lines.allocate(4096, 0, 0, vmt_none, 77, "one", 7));
  assert_lines(lines,
               "module 0 /opt/a%20b/lib;m.so build_id=0aff\nmodule 1 /bin/x\n"
               "stack 7 @1+4660;@0+1\nb 0 0 1 stack=7\nm 4096 0 0 - 77 name=one stack=7\n");
}

void names_can_be_any_bytes(void **) {
  Room room;
  VmtLines &lines = room.lines;
  VmtOperation operation;
  operation.name = std::string_view("a b%\n\xff\0=", 8);
  assert_true(lines.operation(operation, 0));
  assert_true(lines.rename(1, ""));
  assert_true(lines.header("a key", "x\ny \x80"));
  assert_true(lines.operation({12, "not looked at"}, 1));
  assert_true(lines.operation({}, 0));
  assert_lines(lines, "o =a%20b%25%0a%ff%00= 0\nname 1 -\n#a_key x?y ?\no 12 1\no - 0\n");
}

void a_line_that_has_no_room_is_not_begun(void **) {
  const std::string whole = "r 12 3\n";
  for (size_t room_for = 0; room_for < whole.size(); ++room_for) {
    Room room(whole.size() + room_for);
    assert_true(room.lines.release(12, 3));
    assert_false(room.lines.release(12, 3));
    assert_lines(room.lines, whole);
  }
  Room room(2 * whole.size());
  assert_true(room.lines.release(12, 3));
  assert_true(room.lines.release(12, 3));
  assert_lines(room.lines, whole + whole);
  room.lines.clear();
  assert_true(room.lines.release(12, 3));
  assert_lines(room.lines, whole);
}

/// Names, lists and numbers that are as long as they can be, and longer.
void the_longest_lines_fit(void **) {
  const std::string name(1 << 20, '\xff');
  const std::vector<uint32_t> devices(1 << 16, UINT32_MAX - 4);
  const std::vector<VmtFigure> figures(1 << 16, VmtFigure{name, UINT64_MAX - 2});
  Room room;
  VmtLines &lines = room.lines;
  const auto fits = [&](bool appended) {
    assert_true(appended);
    assert_true(lines.text().size() <= vmt_longest_line);
    assert_int_equal(lines.text().back(), '\n');
    lines.clear();
  };
  VmtBuffer buffer;
  buffer.name = name;
  buffer.stack = UINT64_MAX - 2;
  buffer.users = buffer.shard_devices = buffer.shard_weights = devices;
  fits(lines.buffer(buffer));
  VmtPool pool;
  pool.name = pool.policy = pool.codec = name;
  fits(lines.pool(pool));
  VmtDevice device;
  device.backend = device.name = name;
  fits(lines.device(device));
  fits(lines.stats(0, figures));
  fits(lines.context(0, name));
  fits(lines.header(name, name));
  fits(lines.operation_name(0, 1, name));
  fits(lines.phase(name));
  fits(lines.module(UINT64_MAX - 2, name, name));
  fits(lines.stack(UINT64_MAX - 2, name));
  VmtAcquire acquire;
  acquire.operation.name = name;
  fits(lines.acquire(acquire));
}

void a_moment_is_told_when_it_is_another(void **) {
  Room room;
  VmtLines &lines = room.lines;
  VmtMoment moment;
  assert_true(moment.at(lines, 0, 5));
  assert_true(moment.at(lines, 0, 5));
  assert_true(moment.at(lines, 1, 4));  // told late
  assert_true(moment.at(lines, 1, 6));
  assert_lines(lines, "t 5\nj 0\nj 1\nt 6\n");
}

void a_moment_without_room_is_told_later(void **) {
  Room room(6);
  VmtMoment moment;
  assert_false(moment.at(room.lines, 3, 17));
  assert_lines(room.lines, "t 17\n");
  room.lines.clear();
  assert_true(moment.at(room.lines, 3, 17));
  assert_lines(room.lines, "j 3\n");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(writes_the_lines_of_the_example),
      cmocka_unit_test(has_words_for_what_is_no_number),
      cmocka_unit_test(stacks_have_lines),
      cmocka_unit_test(names_can_be_any_bytes),
      cmocka_unit_test(a_line_that_has_no_room_is_not_begun),
      cmocka_unit_test(the_longest_lines_fit),
      cmocka_unit_test(a_moment_is_told_when_it_is_another),
      cmocka_unit_test(a_moment_without_room_is_told_later),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
