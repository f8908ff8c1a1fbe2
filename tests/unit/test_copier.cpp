// SPDX-License-Identifier: Apache-2.0
//
// What the copier makes of copies: small ones in batches, large ones in calls of their own, all in their order. The backend
// only writes down what it is asked for.

#include "core/transfer/copier.hpp"

#include "backends/host/table.hpp"
#include "tests/support/cmocka.hpp"

#include <string>

namespace {

using weir::Status;
using weir::backend::Device;
using weir::backend::Runtime;
using weir::backend::Stream;
using weir::transfer::Copier;

constexpr uint64_t kib = 1024;

std::string asked;

const weir_backend_table *query(uint32_t abi_major) {
  static weir_backend_table table{};
  const weir_backend_table *real = weir_host_backend_query(abi_major);
  if (real == nullptr) return nullptr;
  table = *real;
  table.start = [](const weir_be_start *, weir_be_state **state, const char **) -> weir_result {
    *state = reinterpret_cast<weir_be_state *>(&asked);
    return WEIR_SUCCESS;
  };
  table.stop = [](weir_be_state *) {};
  table.copy_async = [](weir_be_state *, weir_be_stream, const weir_be_copy *copy) -> weir_result {
    asked += std::to_string(copy->bytes / kib) + ' ';
    return WEIR_SUCCESS;
  };
  table.copy_batch_async = [](weir_be_state *, weir_be_stream, const weir_be_copy *copies,
                              uint32_t count) -> weir_result {
    asked += '(';
    for (uint32_t i = 0; i < count; ++i) asked += std::to_string(copies[i].bytes / kib) + ' ';
    asked += ") ";
    return WEIR_SUCCESS;
  };
  table.fill_async = [](weir_be_state *, weir_be_stream, uint64_t, uint8_t,
                        uint64_t bytes) -> weir_result {
    asked += "fill " + std::to_string(bytes / kib) + ' ';
    return WEIR_SUCCESS;
  };
  return &table;
}

/// On the heap, because a failed assertion runs no destructors.
struct Bench {
  Runtime runtime{std::pmr::get_default_resource()};
  Device device;
  Stream stream;

  explicit Bench(uint64_t capabilities) {
    asked.clear();
    assert_true(runtime.adopt(query, "a backend that writes down").ok());
    assert_true(runtime.start("", {}, weir::Log(), UINT64_MAX).ok());
    device.runtime = &runtime;
    device.description.capabilities = capabilities;
    stream.device = &device;
  }
};

void expect(const char *wanted) {
  assert_string_equal(asked.c_str(), wanted);
  asked.clear();
}

void copy(Copier &copier, uint64_t bytes) { assert_true(copier.copy(1 << 20, 1, bytes).ok()); }

void small_copies_go_in_batches(void **) {
  const auto bench = std::make_unique<Bench>(WEIR_CAP_BATCH_COPY);
  Copier copier(bench->stream);
  for (int i = 0; i < 3; ++i) copy(copier, 256 * kib);
  copy(copier, 0);
  expect("");
  assert_false(copier.enqueued());
  assert_true(copier.flush().ok());
  expect("(256 256 256 ) ");
  assert_true(copier.enqueued());
  copy(copier, 4 * kib);
  assert_true(copier.flush().ok());
  expect("4 ");  // one alone is no batch
  for (int i = 0; i < 33; ++i) copy(copier, kib);
  expect("(1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 ) ");
  assert_true(copier.flush().ok());
  expect("1 ");
}

/// A batch gains nothing for them, and drivers have gone wrong over batches.
void large_copies_go_at_once_and_alone(void **) {
  const auto bench = std::make_unique<Bench>(WEIR_CAP_BATCH_COPY);
  Copier copier(bench->stream);
  for (int i = 0; i < 3; ++i) copy(copier, 2048 * kib);
  expect("2048 2048 2048 ");
  copy(copier, 256 * kib + 1);
  expect("256 ");
  assert_true(copier.enqueued());
}

void the_order_is_kept(void **) {
  const auto bench = std::make_unique<Bench>(WEIR_CAP_BATCH_COPY);
  Copier copier(bench->stream);
  copy(copier, 8 * kib);
  copy(copier, 16 * kib);
  copy(copier, 1024 * kib);
  copy(copier, 32 * kib);
  copy(copier, 64 * kib);
  assert_true(copier.zero(1, 4 * kib).ok());
  expect("(8 16 ) 1024 (32 64 ) fill 4 ");
}

void without_batches_each_copy_is_a_call(void **) {
  const auto bench = std::make_unique<Bench>(0);
  Copier copier(bench->stream);
  copy(copier, 8 * kib);
  copy(copier, 16 * kib);
  copy(copier, 1024 * kib);
  assert_true(copier.flush().ok());
  expect("8 16 1024 ");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(small_copies_go_in_batches),
      cmocka_unit_test(large_copies_go_at_once_and_alone),
      cmocka_unit_test(the_order_is_kept),
      cmocka_unit_test(without_batches_each_copy_is_a_call),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
