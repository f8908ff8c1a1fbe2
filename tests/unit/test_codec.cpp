// SPDX-License-Identifier: Apache-2.0
//
// The codec there and back: every choice over every kind of bytes and length, block by block the method that the bytes
// call for, the bound kept, the same blob whatever the number of threads, and recorded data where it is at hand.

#include "core/codec/block_methods.hpp"

#include "tests/support/stride.hpp"
#include "tests/unit/codec_data.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace {

using namespace weir::test;
using weir::Clock;
using weir::Workers;
using weir::codec::ContextPool;
using weir::codec::MethodContexts;
using weir::codec::PlaneEncoder;

constexpr CodecChoice all_choices[] = {CodecChoice::automatic, CodecChoice::lz4, CodecChoice::zstd,
                                       CodecChoice::raw};
constexpr uint64_t block = Codec::block_bytes;
constexpr size_t each_kind =
    threads_only ? 4 : 1;  ///< zeros, text, a mask and widened numbers: a method each

const Clock system_clock;

void round_trip(Codec &codec, const Bytes &in) {
  CodecPlan plan;
  check_decodes(codec, encode(codec, in, true, &plan), in);
  plan = {};
  const Bytes blob = encode(codec, in, false, &plan);
  if (!blob.empty()) check_decodes(codec, blob, in);
}

void small_lengths(void **) {
  if (threads_only) skip();
  Workers none(0, 100, system_clock);
  for (const Kind kind : all_kinds) {
    const Bytes all = make_bytes(kind, 4096);
    for (const CodecChoice choice : all_choices) {
      Codec codec(none, choice);
      for (uint64_t length = 1; length <= 4096; length += length < 150 ? 1 : 61) {
        round_trip(codec, Bytes(all.begin(), all.begin() + static_cast<long>(length)));
      }
      round_trip(codec, all);
    }
  }
}

void lengths_around_blocks(void **) {
  Workers workers(2, 100, system_clock);
  assert_true(workers.start().ok());
  for (size_t k = 0; k < std::size(all_kinds); k += each_kind) {
    const Bytes all = make_bytes(all_kinds[k], 3 * block + 20);
    for (const CodecChoice choice : all_choices) {
      Codec codec(workers, choice);
      for (const uint64_t base : {block, 3 * block}) {
        for (const int off : {-8, -1, 0, 1, 7, 8, 9}) {
          const auto length = static_cast<long>(base) + off;
          round_trip(codec, Bytes(all.begin(), all.begin() + length));
        }
      }
    }
  }
}

void expect_methods(CodecChoice choice, const Bytes &in, std::vector<MethodId> expected) {
  Workers none(0, 100, system_clock);
  Codec codec(none, choice);
  CodecPlan plan;
  const Bytes blob = encode(codec, in, true, &plan);
  check_decodes(codec, blob, in);
  const std::vector<MethodId> found = methods_of(blob);
  assert_int_equal(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    fail_msg("block %u is coded by method %u, not %u", static_cast<unsigned>(i),
             static_cast<unsigned>(found[i]), static_cast<unsigned>(expected[i]));
  }
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes &part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Each block by what it holds, in every order.
void methods_fit(void **) {
  if (threads_only) skip();
  const Bytes zeros = make_bytes(Kind::zeros, block), noise = make_bytes(Kind::random, block);
  const Bytes text = make_bytes(Kind::text, block), floats = make_bytes(Kind::bf16, block);
  const Bytes pattern = make_bytes(Kind::pattern, block);
  constexpr auto same = MethodId::same, raw = MethodId::raw, lz4 = MethodId::lz4,
                 zstd = MethodId::zstd, fx = MethodId::fx, sparse = MethodId::sparse;
  const Bytes mixed = joined({text, zeros, noise, text, pattern, text, noise});
  expect_methods(CodecChoice::lz4, mixed, {lz4, same, raw, lz4, same, lz4, raw});
  expect_methods(CodecChoice::zstd, mixed, {zstd, same, raw, zstd, same, zstd, raw});
  expect_methods(CodecChoice::raw, mixed, {raw, same, raw, raw, same, raw, raw});
  expect_methods(CodecChoice::automatic, joined({noise, noise}), {raw, raw});
  const Bytes mask = make_bytes(Kind::mask, block), zeroed = make_bytes(Kind::zeroed_bf16, block);
  // What LZ4 finds nothing in; and half of it zero in some blocks, as behind a ReLU.
  expect_methods(CodecChoice::automatic, joined({floats, floats}), {fx, fx});
  expect_methods(CodecChoice::automatic, joined({floats, floats, floats, floats, zeroed, noise}),
                 {fx, fx, fx, fx, sparse, raw});
  expect_methods(CodecChoice::automatic, joined({zeroed, zeros, zeroed}), {sparse, same, sparse});
  expect_methods(CodecChoice::automatic, joined({mask, mask}), {MethodId::mask, MethodId::mask});
  expect_methods(CodecChoice::fx, joined({floats, noise}), {fx, raw});
  expect_methods(CodecChoice::planes, joined({floats, text}), {MethodId::planes, MethodId::planes});
  expect_methods(CodecChoice::lz4, joined({floats, zeros}), {raw, same});
  const Bytes widened = make_bytes(Kind::widened, block);
  const Bytes exact = make_bytes(Kind::smooth, block);
  const MethodId narrow = MethodId::narrow;
  expect_methods(CodecChoice::automatic, joined({widened, widened}), {narrow, narrow});
  expect_methods(CodecChoice::automatic, joined({widened, widened, widened, exact, noise}),
                 {narrow, narrow, narrow, fx, raw});
  // What LZ4 is nearly as good at.
  expect_methods(CodecChoice::automatic, joined({make_bytes(Kind::odd_pattern, block), zeros}),
                 {lz4, same});
  // One byte that differs, anywhere.
  for (const uint64_t at : {uint64_t{0}, block / 2 + 3, block - 1}) {
    Bytes nearly = zeros;
    nearly[at] = 1;
    expect_methods(CodecChoice::raw, nearly, {raw});
  }
}

void same_is_tiny(void **) {
  if (threads_only) skip();
  Workers none(0, 100, system_clock);
  for (const CodecChoice choice : all_choices) {
    Codec codec(none, choice);
    CodecPlan plan;
    const Bytes blob = encode(codec, make_bytes(Kind::pattern, 32 * block + 3), false, &plan);
    assert_int_equal(blob.size(), header + 32 * 16 + 8 + 3);
    assert_int_equal(plan.method, 0);  // nothing learnt of the rest of the region
  }
}

void bounds(void **) {
  assert_int_equal(Codec::bound(1), header + 8 + 1);
  assert_int_equal(Codec::bound(block), header + 8 + block);
  assert_int_equal(Codec::bound(block + 1), header + 16 + block + 1);
  Workers none(0, 100, system_clock);
  Codec codec(none, CodecChoice::automatic);
  CodecPlan plan;
  const Bytes noise = make_bytes(Kind::random, 2 * block);
  assert_int_equal(encode(codec, noise, true, &plan).size(), Codec::bound(2 * block));
  assert_int_equal(encode(codec, {}, false, &plan).size(), 0);
}

/// Blobs do not depend on which thread made which block, nor does what is learnt.
void any_number_of_threads(void **) {
  Workers none(0, 100, system_clock), one(1, 100, system_clock), four(4, 100, system_clock);
  assert_true(one.start().ok());
  assert_true(four.start().ok());
  Workers *const all[] = {&none, &one, &four};
  for (const CodecChoice choice : all_choices) {
    for (size_t k = 0; k < std::size(all_kinds); k += each_kind) {
      const Bytes in = make_bytes(all_kinds[k], 9 * block + 777);
      Bytes first;
      CodecPlan first_plan;
      for (Workers *workers : all) {
        Codec codec(*workers, choice);
        for (int again = 0; again < 3; ++again) {
          CodecPlan plan;
          const Bytes blob = encode(codec, in, true, &plan);
          check_decodes(codec, blob, in);
          if (first.empty()) {
            first = blob;
            first_plan = plan;
          }
          assert_true(blob == first);
          assert_memory_equal(&plan, &first_plan, sizeof plan);
        }
      }
    }
  }
}

/// Several threads with the same codec, in both urgencies.
void many_callers(void **) {
  Workers workers(2, 100, system_clock);
  assert_true(workers.start().ok());
  Codec codec(workers, CodecChoice::automatic);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (unsigned id = 0; id < 4; ++id) {
    callers.emplace_back([&, id] {
      const auto urgency = id % 2 == 0 ? demand : Workers::Urgency::background;
      const Bytes in = make_bytes(id < 2 ? Kind::text : Kind::bf16, 4 * block + id, id);
      Bytes blob(Codec::bound(in.size())), out(in.size());
      CodecPlan plan;
      for (int i = 0; i < 10; ++i) {
        const uint64_t length =
            codec.encode(in.data(), in.size(), blob.data(), true, &plan, urgency);
        std::fill(out.begin(), out.end(), static_cast<unsigned char>(0));
        if (!codec.decode(blob.data(), length, out.data(), out.size(), urgency)) ++wrong;
        if (out != in) ++wrong;
      }
    });
  }
  for (std::thread &caller : callers) caller.join();
  assert_int_equal(wrong.load(), 0);
}

void names_and_stats(void **) {
  CodecChoice choice = CodecChoice::raw;
  assert_true(Codec::parse(nullptr, &choice) && choice == CodecChoice::automatic);
  assert_true(Codec::parse("lz4", &choice) && choice == CodecChoice::lz4);
  assert_true(Codec::parse("zstd", &choice) && choice == CodecChoice::zstd);
  assert_true(Codec::parse("raw", &choice) && choice == CodecChoice::raw);
  assert_true(Codec::parse("auto", &choice) && choice == CodecChoice::automatic);
  choice = CodecChoice::zstd;
  assert_false(Codec::parse("", &choice) || Codec::parse("lz5", &choice));
  assert_true(choice == CodecChoice::zstd);

  Workers none(0, 100, system_clock);
  Codec codec(none, CodecChoice::automatic);
  CodecPlan plan, other;
  const Bytes text = make_bytes(Kind::text, block), noise = make_bytes(Kind::random, block);
  const Bytes blob = encode(codec, text, false, &plan);
  check_decodes(codec, blob, text);
  assert_int_equal(encode(codec, noise, false, &other).size(), 0);
  assert_int_equal(encode(codec, noise, false, &other).size(), 0);
  assert_int_equal(codec.stats().in_bytes, block);
  assert_int_equal(codec.stats().out_bytes, blob.size());
  assert_int_equal(codec.stats().decoded_bytes, block);
  assert_int_equal(codec.stats().incompressible_bytes, 2 * block);
}

void recorded_data(void **) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  const std::filesystem::path folder = shared != nullptr ? std::string(shared) + "/data" : "";
  if (shared == nullptr || !std::filesystem::is_directory(folder)) {
    print_message("skipped: WEIR_SHARED_DIR names no recorded data\n");
    skip();
  }
  Workers workers(1, 100, system_clock);
  assert_true(workers.start().ok());
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const Bytes in((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::string line;
    for (const CodecChoice choice : all_choices) {
      Codec codec(workers, choice);
      CodecPlan plan;
      const Bytes blob = encode(codec, in, true, &plan);
      check_decodes(codec, blob, in);
      char text[32];
      std::snprintf(text, sizeof text, " %.3f",
                    static_cast<double>(in.size()) / static_cast<double>(blob.size()));
      line += text;
    }
    print_message("%-18s auto, lz4, zstd, raw:%s\n", entry.path().filename().c_str(), line.c_str());
  }
}

/// Several secrets at once: for each all contexts that are not in use are made anew. ThreadSanitizer sees a thread that looks at a
/// context that is another thread's by then.
void secrets_are_forgotten_by_several_threads_at_once(void **) {
  MethodContexts contexts(false);
  const auto forget = [&contexts] {
    for (int i = 0; i < 300; ++i) {
      {
        const ContextPool<PlaneEncoder>::Loan one(contexts.plane_encoders);
        const ContextPool<PlaneEncoder>::Loan other(contexts.plane_encoders);
      }
      contexts.plane_encoders.forget();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(forget);
  for (std::thread &thread : threads) thread.join();
  const ContextPool<PlaneEncoder>::Loan left(contexts.plane_encoders);
  assert_non_null(left.get());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(small_lengths),
      cmocka_unit_test(lengths_around_blocks),
      cmocka_unit_test(methods_fit),
      cmocka_unit_test(same_is_tiny),
      cmocka_unit_test(bounds),
      cmocka_unit_test(any_number_of_threads),
      cmocka_unit_test(many_callers),
      cmocka_unit_test(names_and_stats),
      cmocka_unit_test(recorded_data),
      cmocka_unit_test(secrets_are_forgotten_by_several_threads_at_once),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
