// SPDX-License-Identifier: Apache-2.0
//
// Merging of uses and the version map, each against a byte-by-byte model on random input: what matters is that every
// byte is named once, with the right mode, and has the version last written.
#include "tests/tools/trace_files.hpp"

#include "tools/weir/operation_uses.hpp"
#include "tools/weir/versions.hpp"

#include <random>
#include <vector>

namespace {

using namespace weir::tool;

constexpr uint64_t block_bytes = 64;
constexpr uint32_t blocks = 3;

struct Modes {
  bool read = false;
  bool written = false;
};

void add_use(Plan &plan, uint32_t block, PlanKind kind, uint64_t offset, uint64_t length) {
  if (offset == 0 && length == plan.block_bytes[block]) {
    plan.events.push_back(block << 3 | kind);
    return;
  }
  plan.events.push_back(block << 3 | static_cast<uint32_t>(kind + plan_read_span - plan_read));
  plan.spans.push_back({offset, length});
}

void check_merged(const std::vector<BlockUse> &uses, const std::vector<std::vector<Modes>> &model) {
  std::vector<std::vector<bool>> named(blocks, std::vector<bool>(block_bytes));
  for (size_t i = 0; i < uses.size(); ++i) {
    const BlockUse &use = uses[i];
    assert_true(use.length > 0);
    if (i > 0 && uses[i - 1].block == use.block) {
      const uint64_t previous_end = uses[i - 1].offset + uses[i - 1].length;
      assert_true(previous_end <= use.offset);
      assert_false(previous_end == use.offset && uses[i - 1].mode == use.mode);
    }
    if (i > 0) assert_true(uses[i - 1].block <= use.block);
    for (uint64_t at = use.offset; at < use.offset + use.length; ++at) {
      assert_false(named[use.block][at]);
      named[use.block][at] = true;
      const Modes &expected = model[use.block][at];
      assert_int_equal(use.mode != UseMode::overwrite, expected.read);
      assert_int_equal(use.mode != UseMode::read, expected.written);
    }
  }
  for (uint32_t block = 0; block < blocks; ++block)
    for (uint64_t at = 0; at < block_bytes; ++at)
      assert_int_equal(named[block][at], model[block][at].read || model[block][at].written);
}

void merges_as_a_byte_model_does(void **) {
  std::mt19937 random(7);
  UseMerger merger;
  std::vector<BlockUse> uses;
  for (int round = 0; round < 3000; ++round) {
    Plan plan;
    plan.block_bytes.assign(blocks, block_bytes);
    std::vector<std::vector<Modes>> model(blocks, std::vector<Modes>(block_bytes));
    const uint64_t count = random() % 8;
    for (uint64_t i = 0; i < count; ++i) {
      const auto block = static_cast<uint32_t>(random() % blocks);
      const auto kind = static_cast<PlanKind>(plan_read + random() % 3);
      uint64_t offset = random() % block_bytes;
      uint64_t length = 1 + random() % (block_bytes - offset);
      if (random() % 4 == 0) {
        offset = 0;
        length = block_bytes;
      }
      add_use(plan, block, kind, offset, length);
      for (uint64_t at = offset; at < offset + length; ++at) {
        if (kind != plan_write) model[block][at].read = true;
        if (kind != plan_read) model[block][at].written = true;
      }
    }
    PlanOperation &operation = plan.operations.emplace_back();
    operation.end = plan.events.size();
    merger.merge(plan, operation, uses);
    check_merged(uses, model);
  }
}

void makes_one_use_a_block_beyond_the_limit(void **) {
  constexpr uint64_t pieces = UseMerger::limit + 1;
  Plan plan;
  plan.block_bytes = {2 * pieces, 8};
  for (uint64_t i = 0; i < pieces; ++i) add_use(plan, 0, plan_write, 2 * i, 1);
  add_use(plan, 1, plan_read, 0, 8);
  PlanOperation &operation = plan.operations.emplace_back();
  operation.end = plan.events.size();
  std::vector<BlockUse> uses;
  UseMerger().merge(plan, operation, uses);
  const BlockUse hull{0, 2 * pieces - 1, 0, UseMode::update};  // the gaps must survive
  const BlockUse other{0, 8, 1, UseMode::read};
  assert_int_equal(uses.size(), 2);
  assert_true(uses[0] == hull);
  assert_true(uses[1] == other);
}

void check_versions(const Versions &versions, const std::vector<uint32_t> &model, uint64_t offset,
                    uint64_t length) {
  uint64_t at = offset;
  versions.read(offset, length, [&](uint64_t from, uint64_t bytes, uint32_t version) {
    assert_int_equal(from, at);
    assert_true(bytes > 0);
    for (uint64_t i = 0; i < bytes; ++i) assert_int_equal(version, model[from + i]);
    at += bytes;
  });
  assert_int_equal(at, offset + length);
}

void versions_are_those_of_a_byte_model(void **) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const uint64_t size = 1 + random() % 40;
    Versions versions;
    std::vector<uint32_t> model(size, 0);
    for (uint32_t step = 0; step < 60; ++step) {
      const uint64_t offset = random() % size;
      const uint64_t length = 1 + random() % (size - offset);
      const uint32_t version = random() % 4 == 0 ? step / 2 : step + 1;
      versions.write(offset, length, size, version);
      for (uint64_t i = offset; i < offset + length; ++i) model[i] = version;
      check_versions(versions, model, 0, size);
      const uint64_t from = random() % size;
      check_versions(versions, model, from, 1 + random() % (size - from));
      size_t runs = 1;
      for (uint64_t i = 1; i < size; ++i) runs += model[i] != model[i - 1] ? 1 : 0;
      assert_int_equal(versions.pieces(), runs);  // kept minimal
    }
    versions.clear();
    check_versions(versions, std::vector<uint32_t>(size, 0), 0, size);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(merges_as_a_byte_model_does),
      cmocka_unit_test(makes_one_use_a_block_beyond_the_limit),
      cmocka_unit_test(versions_are_those_of_a_byte_model),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
