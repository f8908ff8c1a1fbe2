// SPDX-License-Identifier: Apache-2.0
//
// The flags of `weir replay` and what they come to for a trace: budgets, clamps, page size, the
// backend's options. Refusals must name the flag and its value.
#include "tests/tools/trace_files.hpp"

#include "tools/weir/footprint.hpp"
#include "tools/weir/operation_uses.hpp"
#include "tools/weir/replay_options.hpp"

namespace {

using namespace weir::tool;
using weir::test::contains;
using weir::test::error_of;

std::string numbered(const char *before, int number, const char *after) {
  std::string text = before;
  text += std::to_string(number);
  text += after;
  return text;
}

ReplayFlags flags_for(const std::string &trace = "trace.vmt") {
  ReplayFlags flags;
  flags.trace = trace;
  return flags;
}

void sizes_are_read_strictly(void **) {
  assert_int_equal(parse_size("4096", "x"), 4096);
  assert_int_equal(parse_size("64K", "x"), 65536);
  assert_int_equal(parse_size("1.5G", "x"), uint64_t{3} << 29);
  for (const char *text : {"", "K", "-1", "12Q", "1 K", "nan", "1e30", "0x10"})
    assert_true(contains(error_of([&] { parse_size(text, "--granule"); }),
                         std::string("--granule: '") + text));
  assert_int_equal(parse_size_or_share("50%", "x").of(1000), 500);
  assert_int_equal(parse_size_or_share("2K", "x").of(1000), 2048);
  for (const char *text : {"0%", "-5%", "%", "x%"})
    assert_true(contains(error_of([&] { parse_size_or_share(text, "--device-memory"); }), text));
}

void flags_that_make_no_sense_are_named(void **) {
  const auto refused = [](void (*change)(ReplayFlags &), const char *named) {
    ReplayFlags flags = flags_for();
    change(flags);
    assert_true(contains(error_of([&] { check_replay_flags(flags); }), named));
  };
  refused([](ReplayFlags &f) { f.granule = "3000"; }, "--granule: '3000'");
  refused([](ReplayFlags &f) { f.granule = "2K"; }, "--granule: '2K'");
  refused([](ReplayFlags &f) { f.device_memory = "0K"; }, "--device-memory: '0K'");
  refused([](ReplayFlags &f) { f.neighbour = "some"; }, "--neighbour: 'some'");
  refused(
      [](ReplayFlags &f) {
        f.neighbour = "1G";
        f.no_vmm = true;
      },
      "--neighbour: '1G' does not go with --no-vmm");
  refused(
      [](ReplayFlags &f) {
        f.neighbour = "1G";
        f.pace = "h100";
      },
      "--neighbour: '1G' does not go with --pace");
  refused([](ReplayFlags &f) { f.scale = 0; }, "--scale: 0");
  refused([](ReplayFlags &f) { f.limit = 0; }, "--limit: 0");
  refused([](ReplayFlags &f) { f.ahead = 0; }, "--ahead: 0");
  refused([](ReplayFlags &f) { f.announce = 70000; }, "--announce: 70000");
  refused([](ReplayFlags &f) { f.data = "noise"; }, "--data: 'noise'");
  refused([](ReplayFlags &f) { f.host_memory = "lots"; }, "--host-memory: 'lots'");
  refused([](ReplayFlags &f) { f.compressed_memory = "-5%"; }, "--compressed-memory: '-5%'");
  refused([](ReplayFlags &f) { f.storage_size = "1G"; },
          "--storage-size: '1G' needs --storage DIR");
  refused([](ReplayFlags &f) { f.encrypt_storage = true; }, "--encrypt-storage needs --storage");
  refused([](ReplayFlags &f) { f.buffered_storage = true; }, "--buffered-storage needs --storage");
  refused([](ReplayFlags &f) { f.no_io_uring = true; }, "--no-io-uring needs --storage");
  refused([](ReplayFlags &f) { f.storage = {""}; }, "--storage: ''");
  refused(
      [](ReplayFlags &f) {
        f.storage = {"/tmp", "/nonexistent/folder"};
      },
      "--storage: '/nonexistent/folder': No such file");
  refused([](ReplayFlags &f) { f.storage = {"/dev/null"}; },
          "--storage: '/dev/null' is not a directory");
  refused([](ReplayFlags &f) { f.storage.assign(17, "/tmp"); }, "--storage: 17 directories");
  refused([](ReplayFlags &f) { f.storage = {"/tmp"}, f.storage_size = "much"; },
          "--storage-size: 'much'");
  refused([](ReplayFlags &f) { f.storage = {"/tmp"}, f.storage_size = "0"; },
          "--storage-size: '0'");
  refused([](ReplayFlags &f) { f.no_all_resident = f.yardstick = true; },
          "--no-all-resident does not go with --yardstick");
  refused([](ReplayFlags &f) { f.codec = "lz4"; }, "--codec: 'lz4' needs --compressed-memory");
  refused([](ReplayFlags &f) { f.storage = {"/tmp"}, f.codec = "lzma"; }, "--codec: 'lzma'");
  refused([](ReplayFlags &f) { f.compress_threads = 5000; }, "--compress-threads: 5000");
  refused([](ReplayFlags &f) { f.pace = "1,2"; }, "--pace: '1,2'");
  refused([](ReplayFlags &f) { f.pace = "1,2,3,4"; }, "--pace: '1,2,3,4'");
  refused([](ReplayFlags &f) { f.pace = "1,x,3"; }, "--pace: 'x'");
  refused([](ReplayFlags &f) { f.slow = 2; }, "--slow needs --pace");
  refused([](ReplayFlags &f) { f.virtual_time = true; }, "--virtual needs --pace");
  refused(
      [](ReplayFlags &f) {
        f.virtual_time = true;
        f.pace = "a100";
        f.backend = "cuda";
      },
      "--virtual does not go with another --backend than host");
  refused(
      [](ReplayFlags &f) {
        f.virtual_time = true;
        f.pace = "a100";
        f.compressed_memory = "1G";
      },
      "--virtual does not go with --compressed-memory");
  refused(
      [](ReplayFlags &f) {
        f.virtual_time = f.yardstick = true;
        f.pace = "a100";
      },
      "--virtual does not go with --yardstick");
  refused([](ReplayFlags &f) { f.no_contents = true; }, "--no-contents needs --pace");
  refused(
      [](ReplayFlags &f) {
        f.no_contents = true;
        f.pace = "a100";
        f.storage = {"/tmp"};
      },
      "--no-contents does not go with --storage");
  refused([](ReplayFlags &f) { f.check_one_in = 0; },
          "--check-one-in: 0 is not between 1 and 1024");
  refused([](ReplayFlags &f) { f.check_one_in = 1025; },
          "--check-one-in: 1025 is not between 1 and 1024");
  assert_string_equal(error_of([] { check_replay_flags(flags_for()); }).c_str(), "");
}

void paces_have_names(void **) {
  ReplayFlags flags = flags_for();
  flags.pace = "h100";
  flags.slow = 10;
  const ReplayOptions options = check_replay_flags(flags);
  assert_true(options.pace->flops == 989e12);
  assert_true(options.pace->link_bandwidth() == 5.5e9);
  flags.pace = "1e12,2e11,3e10";
  assert_true(check_replay_flags(flags).pace->bytes == 2e11);
}

void granules_follow_the_peak(void **) {
  constexpr uint64_t mib = uint64_t{1} << 20;
  assert_int_equal(default_granule(1), 16 << 10);
  assert_int_equal(default_granule(256 * mib), 64 << 10);
  assert_int_equal(default_granule(380 * mib), 64 << 10);   // 95 KiB: nearer to 64 than to 128
  assert_int_equal(default_granule(400 * mib), 128 << 10);  // 100 KiB
  assert_int_equal(default_granule(uint64_t{1} << 40), 2 << 20);
}

/// 64 blocks of 1 MiB, each used alone, and one operation that uses 8 of them.
Plan sixty_four_blocks() {
  std::string text = "#vmt 1\n#name blocks\n";
  for (int i = 0; i < 64; ++i) text += numbered("a ", i, " 1048576 x\n");
  for (int i = 0; i < 64; ++i) text += numbered("o ", i, " 1 n\n") + numbered("u ", i, " x\n");
  text += "o 64 1 wide\n";
  for (int i = 0; i < 8; ++i) text += numbered("u ", 8 * i, " r\n");
  const weir::test::TemporaryFile file(text);
  return read_plan(file.path(), {});
}

void budgets_follow_the_trace(void **) {
  constexpr uint64_t mib = uint64_t{1} << 20;
  const Plan plan = sixty_four_blocks();
  ReplayFlags flags = flags_for();
  flags.device_memory = "50%";
  flags.granule = "64K";
  const Settings settings = settle(check_replay_flags(flags), plan);
  assert_int_equal(settings.page, 64 << 10);
  assert_int_equal(settings.device_budget, 32 * mib);
  assert_int_equal(settings.footprint.live, 64 * mib);
  assert_int_equal(settings.footprint.largest_set, 8 * mib);
  assert_true(settings.host_budget >= 80 * mib);
  assert_true(settings.all_resident_budget > 64 * mib);
  assert_true(settings.notes.empty());
  assert_true(contains(settings.context_options, "host.granule=65536;host.granule_large=0"));
  assert_false(contains(settings.context_options, "vmm"));
  assert_false(contains(settings.context_options, "link_bandwidth"));

  flags.device_memory = "5M";  // the wide operation needs 8.8
  flags.no_vmm = flags.no_multi_map = true;
  flags.pace = "1e12,1e11,1e10";
  flags.slow = 10;
  const Settings clamped = settle(check_replay_flags(flags), plan);
  assert_true(clamped.device_budget >= 8 * mib + 8 * mib / 10);
  assert_true(clamped.device_budget < 9 * mib);
  assert_int_equal(clamped.notes.size(), 1);
  assert_true(contains(clamped.notes[0], "raised from 5.00 MiB"));
  flags.host_memory = "0";  // nothing can leave: whether this is enough is the question
  const Settings exact = settle(check_replay_flags(flags), plan);
  assert_int_equal(exact.device_budget, 5 * mib);
  assert_true(exact.notes.empty());
  flags.host_memory.clear();
  assert_true(contains(clamped.context_options,
                       "host.vmm=0;host.multi_map=0;host.link_bandwidth=1000000000"));
}

void lower_tiers_follow_the_trace(void **) {
  constexpr uint64_t mib = uint64_t{1} << 20;
  const Plan plan = sixty_four_blocks();
  ReplayFlags flags = flags_for();
  flags.granule = "64K";
  const Settings none = settle(check_replay_flags(flags), plan);
  assert_int_equal(none.compressed_budget, 0);
  assert_int_equal(none.storage_budget, 0);

  flags.host_memory = "0";
  flags.compressed_memory = "25%";
  flags.storage = {"/tmp", "/"};
  flags.codec = "zstd";
  flags.compress_threads = 3;
  flags.encrypt_storage = flags.buffered_storage = flags.no_io_uring = true;
  flags.data = "tensor";
  const ReplayOptions options = check_replay_flags(flags);
  assert_int_equal(options.storage.size(), 2);
  assert_string_equal(options.codec.c_str(), "zstd");
  assert_int_equal(options.compress_threads, 3);
  assert_true(options.encrypt_storage && options.buffered_storage && !options.io_uring);
  const Settings settings = settle(options, plan);
  assert_int_equal(settings.host_budget, 0);
  assert_int_equal(settings.compressed_budget, 16 * mib);
  assert_true(settings.storage_budget >= 80 * mib);  // room for everything, unless told
  assert_true(settings.notes.empty());

  flags.storage_size = "1000001";
  flags.compressed_memory = "0";
  const Settings told = settle(check_replay_flags(flags), plan);
  assert_int_equal(told.storage_budget, 16 * 65536);  // in whole pages
  assert_int_equal(told.compressed_budget, 0);

  flags.host_memory = "";
  flags.compressed_memory = "1M";
  flags.data = "pattern";
  const Settings roomy = settle(check_replay_flags(flags), plan);
  assert_int_equal(roomy.notes.size(), 2);
  assert_true(contains(roomy.notes[0], "--host-memory"));
  assert_true(contains(roomy.notes[1], "--data tensor"));
}

/// A set is counted in pages touched, not in blocks; memory freed but perhaps still in use counts
/// for everything's budget.
void footprints_count_pages_and_lag(void **) {
  std::string text = "#vmt 1\na 0 1048576 x\no 0 1 n\nu 0 r 65535 2\nu 0 r 65536 10\n";
  for (int i = 1; i <= 10; ++i) {
    text += numbered("o ", i, " 1 n\n") + numbered("a ", i, " 1048576 t\n");
    text += numbered("u ", i, " w 0 4096\n") + numbered("f ", i, "\n");
  }
  const weir::test::TemporaryFile file(text);
  const Plan plan = read_plan(file.path(), {});
  const Footprint near = measure_footprint(plan, {65536, 1, false});
  assert_int_equal(near.largest_set, 2 * 65536);
  assert_int_equal(near.live, 2 * 1048576);
  const Footprint far = measure_footprint(plan, {65536, 100, false});
  assert_true(far.all_resident >= 11 * 1048576);
  assert_true(near.all_resident < far.all_resident);
  assert_int_equal(measure_footprint(plan, {65536, 1, true}).largest_set, 1048576);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_read_strictly),
      cmocka_unit_test(flags_that_make_no_sense_are_named),
      cmocka_unit_test(paces_have_names),
      cmocka_unit_test(granules_follow_the_peak),
      cmocka_unit_test(budgets_follow_the_trace),
      cmocka_unit_test(lower_tiers_follow_the_trace),
      cmocka_unit_test(footprints_count_pages_and_lag),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
