// SPDX-License-Identifier: Apache-2.0
//
// weir_device_find: what a text means on machines with and without cards, which of several is taken, what is said where
// there is none, and that a slip is told. Cards are simulated; two runtimes offer the same ones.
#include "tests/abi/vendor_fixture.hpp"

namespace {

using namespace weir::test;

weir_device find(weir_context context, const char *wish) {
  weir_device device = 4242;
  const weir_result result = weir_device_find(context, wish, &device);
  if (result != WEIR_SUCCESS)
    fail_msg("\"%s\": %s", wish != nullptr ? wish : "", weir_last_error());
  return device;
}

void expect_none(weir_context context, const char *wish,
                 std::initializer_list<const char *> words) {
  weir_device device = 4242;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_device_find(context, wish, &device));
  assert_int_equal(device, 4242);
  const std::string text = weir_last_error();
  for (const char *word : words)
    if (text.find(word) == std::string::npos) fail_msg("no \"%s\" in: %s", word, text.c_str());
}

/// Two cards as two runtimes offer them: cuda:0 and cuda:1 are hip:0 and hip:1. Device 0 is the host's.
struct Cards {
  weir_context context;
  weir_device cuda, hip;
  explicit Cards(const char *options = small_host) {
    context = open({"cuda", "hip"}, options);
    cuda = info_of(context, "cuda").first_device;
    hip = info_of(context, "hip").first_device;
    assert_int_equal(info_of(context, "cuda").device_count, 2);
    assert_int_equal(info_of(context, "hip").device_count, 2);
  }
  ~Cards() { ok(weir_context_destroy(context)); }
  weir_device_info info(weir_device device) const {
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(context, device, &info));
    return info;
  }
};

/// Memory of a device that is in use for as long as this lives.
struct Occupied {
  weir_pool pool = nullptr;
  weir_buffer buffer = 0;
  Occupied(weir_context context, weir_device device) {
    constexpr uint64_t size = 8 << 20;
    weir_pool_device place{device, 0, size, {0, 0}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.devices = &place;
    desc.device_count = 1;
    desc.host_budget = 64 << 20;
    desc.page_size = desc.large_page_size = 2 << 20;
    ok(weir_pool_create(context, &desc, &pool));
    weir_buffer_desc own = WEIR_BUFFER_DESC_INIT;
    own.size = size;
    ok(weir_buffer_create(pool, &own, &buffer));
    weir_stream stream = nullptr;
    ok(weir_stream_create(context, device, 0, &stream));
    weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
    ok(weir_release(lease, stream));
    ok(weir_stream_synchronize(stream));
    ok(weir_stream_close(stream));
  }
  ~Occupied() {
    ok(weir_buffer_destroy(pool, buffer));
    ok(weir_pool_destroy(pool));
  }
};

void a_number_is_the_backends_own(void **) {
  const Cards cards;
  assert_int_equal(find(cards.context, "cuda:0"), cards.cuda);
  assert_int_equal(find(cards.context, "cuda:1"), cards.cuda + 1);
  assert_int_equal(find(cards.context, "hip:1"), cards.hip + 1);
  assert_int_equal(find(cards.context, "host:0"), 0);
  assert_int_equal(find(cards.context, " CUDA:1 "), cards.cuda + 1);
  expect_none(cards.context, "cuda:2", {"\"cuda:2\"", "cuda:0", "cuda:1", "host:0"});
}

void a_card_of_two_runtimes_counts_once(void **) {
  const Cards cards;
  assert_string_equal(cards.info(cards.cuda).pci_address, cards.info(cards.hip).pci_address);
  assert_int_equal(find(cards.context, "gpu:0"), cards.cuda);
  assert_int_equal(find(cards.context, "gpu:1"), cards.cuda + 1);
  expect_none(cards.context, "gpu:2", {"\"gpu:2\""});
}

void the_card_with_most_free_memory_is_taken(void **) {
  const Cards cards;
  for (const weir_device busy : {cards.cuda, cards.cuda + 1}) {
    const weir_device other = busy == cards.cuda ? cards.cuda + 1 : cards.cuda;
    const Occupied used(cards.context, busy);
    assert_true(cards.info(busy).memory_free < cards.info(other).memory_free);
    assert_int_equal(find(cards.context, "gpu"), other);
    assert_int_equal(find(cards.context, "cuda"), other);
    assert_int_equal(find(cards.context, busy == cards.cuda ? "cuda:0" : "cuda:1"), busy);
  }
}

std::string hex(const uint8_t (&bytes)[16], bool dashes) {
  std::string text;
  char byte[3];
  for (size_t i = 0; i < sizeof bytes; ++i) {
    if (dashes && (i == 4 || i == 6 || i == 8 || i == 10)) text += '-';
    std::snprintf(byte, sizeof byte, dashes ? "%02x" : "%02X", bytes[i]);
    text += byte;
  }
  return text;
}

void a_uuid_or_an_address_names_a_card(void **) {
  const Cards cards;
  const weir_device_info second = cards.info(cards.cuda + 1);
  assert_int_equal(find(cards.context, second.pci_address), cards.cuda + 1);
  assert_int_equal(find(cards.context, (std::string("0000") + second.pci_address).c_str()),
                   cards.cuda + 1);
  assert_int_equal(find(cards.context, hex(second.uuid, false).c_str()), cards.cuda + 1);
  assert_int_equal(find(cards.context, ("GPU-" + hex(second.uuid, true)).c_str()), cards.cuda + 1);
  // As ROCm's tools write one that its runtime hands out as text.
  expect_none(cards.context, "GPU-0123456789abcdef", {"GPU-0123456789abcdef"});
  expect_none(cards.context, "00000000000000000000000000000000", {"there is no such device"});
  expect_none(cards.context, "0000:7f:1f.7", {"0000:7f:1f.7", cards.info(cards.cuda).pci_address});
}

void the_first_of_a_list_that_is_met_counts(void **) {
  const Cards cards;
  assert_int_equal(find(cards.context, "cuda:1,host"), cards.cuda + 1);
  assert_int_equal(find(cards.context, "level_zero, cuda:7, hip:0 ,host"), cards.hip);
  // Also behind the one that is met a slip is a slip.
  expect_none(cards.context, "cuda:0,gpu:one", {"\"gpu:one\"", "\"gpu:1\""});
}

void what_is_no_wish_is_told(void **) {
  const Cards cards;
  for (const char *wish : {",", "gpu,", ",gpu", "1", "gpu:", "gpu:-1", "gpu:4294967296", "17:00",
                           "cuda:0:", "gpu 1", "GPU-12", "a:b:c:d.0", "\x80"})
    expect_none(cards.context, wish, {"names no device", "\"cuda:0\"", "PCI address"});
  expect_none(cards.context, std::string(10000, 'x').c_str(),
              {"there is no such device", "; see weir devices"});
  weir_device device = 0;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_device_find(cards.context, "gpu", nullptr));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_device_find(nullptr, "gpu", &device));
}

void the_variable_is_what_nothing_means(void **) {
  const Cards cards;
  setenv("WEIR_DEVICE", "cuda:1", 1);
  assert_int_equal(find(cards.context, nullptr), cards.cuda + 1);
  assert_int_equal(find(cards.context, ""), cards.cuda + 1);
  assert_int_equal(find(cards.context, "cuda:0"),
                   cards.cuda);  // the program's own word counts more
  setenv("WEIR_DEVICE", "cuda:9", 1);
  expect_none(cards.context, nullptr, {"WEIR_DEVICE is \"cuda:9\"", "; see weir devices"});
  setenv("WEIR_DEVICE", "", 1);
  const Occupied used(cards.context, cards.cuda);
  assert_int_equal(find(cards.context, nullptr), cards.cuda + 1);
  unsetenv("WEIR_DEVICE");
  assert_int_equal(find(cards.context, nullptr), cards.cuda + 1);
}

struct Lines {
  std::vector<std::pair<int32_t, std::string>> lines;
  static void keep(void *user, int32_t level, const char *text) {
    static_cast<Lines *>(user)->lines.emplace_back(level, text);
  }
};

void without_a_card_the_host_is_taken_only_if_named(void **) {
  Lines log;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = "host.memory=16M;host.devices=2";
  desc.log = Lines::keep;
  desc.log_user = &log;
  const std::string path = in_library("weir/1/libweir_backend_cuda.so");
  const char *const paths[] = {path.c_str(), nullptr};
  desc.backend_paths = paths;
  const std::string before = std::getenv("WEIR_CUDA_LIBRARY");
  setenv("WEIR_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  setenv("WEIR_CUDA_LIBRARY", before.c_str(), 1);
  expect_none(context, "gpu", {"\"gpu\"", "host:0", "host:1", "cuda is not available", "/nowhere"});
  expect_none(context, nullptr, {"\"gpu\""});
  log.lines.clear();
  assert_int_equal(find(context, "host:1"), 1);
  assert_int_equal(log.lines.size(), 1);
  assert_int_equal(log.lines[0].first, WEIR_LOG_INFO);
  assert_non_null(std::strstr(log.lines[0].second.c_str(), "host:1"));
  log.lines.clear();
  assert_int_equal(find(context, "gpu,host"), 0);
  assert_int_equal(log.lines.size(), 1);
  assert_int_equal(log.lines[0].first, WEIR_LOG_WARNING);
  for (const char *word : {"\"gpu,host\"", "device 0", "host:0", "/nowhere"})
    assert_non_null(std::strstr(log.lines[0].second.c_str(), word));
  ok(weir_context_destroy(context));
}

/// Who has installed no backend would else look for a driver.
void without_a_backend_for_gpus_the_message_says_so(void **) {
  const weir_context context = make_context("host.memory=16M");
  expect_none(context, "gpu",
              {"there is host:0", "weir-backend1-cuda", "\"gpu,host\"", "; see weir devices"});
  ok(weir_context_destroy(context));
  const Cards cards;
  weir_device device = 0;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_device_find(cards.context, "gpu:9", &device));
  assert_null(std::strstr(weir_last_error(), "weir-backend1"));
}

void a_lost_card_is_passed_over_unless_it_is_named(void **) {
  const Cards cards;
  const auto lose = driver<void(uint32_t)>("weir_sim_lose_device");
  lose(0);
  assert_int_equal(find(cards.context, "gpu"), cards.cuda + 1);
  assert_int_equal(find(cards.context, "cuda:0"), cards.cuda);
  assert_int_equal(find(cards.context, "gpu:1"), cards.cuda + 1);
  lose(1);
  expect_none(cards.context, "gpu", {"there is no such device"});
  assert_int_equal(find(cards.context, "gpu,host"), 0);
}

}  // namespace

int main() {
  setenv("WEIR_SIM", "devices=2;memory=64M;mode=strict", 1);
  unsetenv("WEIR_DEVICE");
  if (!use_simulated_drivers()) {
    print_message("no simulated CUDA driver: skipped\n");
    return 77;
  }
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_number_is_the_backends_own),
      cmocka_unit_test(a_card_of_two_runtimes_counts_once),
      cmocka_unit_test(the_card_with_most_free_memory_is_taken),
      cmocka_unit_test(a_uuid_or_an_address_names_a_card),
      cmocka_unit_test(the_first_of_a_list_that_is_met_counts),
      cmocka_unit_test(what_is_no_wish_is_told),
      cmocka_unit_test(the_variable_is_what_nothing_means),
      cmocka_unit_test(without_a_card_the_host_is_taken_only_if_named),
      cmocka_unit_test(without_a_backend_for_gpus_the_message_says_so),
      cmocka_unit_test(a_lost_card_is_passed_over_unless_it_is_named),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
