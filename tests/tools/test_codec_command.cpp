// SPDX-License-Identifier: Apache-2.0
//
// `weir codec` as its user meets it: its figures must add up to the files they are of, and what is wrong must be named.
// No speed is expected of any machine. WEIR_BIN_DIR says where the program is; without it the test skips.
#include "tests/tools/program.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <vector>

namespace {

using weir::test::contains;
using weir::test::Outcome;
using weir::test::TemporaryFile;
using Json = nlohmann::json;

Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "codec");
  return weir::test::run_weir(std::move(arguments));
}

/// Quick to measure.
Outcome run_quickly(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--mib", "1", "--seconds", "0.001"});
  return run(std::move(arguments));
}

uint32_t next(uint32_t *random) { return (*random = *random * 1664525U + 1013904223U) >> 8U; }

/// Floats about 0.02 apart in size by some powers of two, as bf16.
std::string weights(uint64_t count) {
  std::string bytes;
  uint32_t random = 1;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t exponent = 121;
    for (uint32_t coins = next(&random); exponent > 110 && (coins & 1U) != 0; coins >>= 1U)
      --exponent;
    const uint32_t value = (next(&random) & 0x807FU) | exponent << 7U;
    bytes += static_cast<char>(value & 0xFFU);
    bytes += static_cast<char>(value >> 8U);
  }
  return bytes;
}

std::string noise(uint64_t count) {
  std::string bytes;
  uint32_t random = 3;
  for (uint64_t i = 0; i < count; ++i) bytes += static_cast<char>(next(&random));
  return bytes;
}

void check_sums(const Json &codec, uint64_t bytes) {
  const auto blob = codec["blob_bytes"].get<uint64_t>();
  const auto blocks = codec["blocks"].get<uint64_t>();
  uint64_t raw = 0, coded = 24 + 16 * blocks;
  for (const auto &[name, share] : codec["methods"].items()) {
    raw += share["raw_bytes"].get<uint64_t>();
    coded += share["coded_bytes"].get<uint64_t>();
    assert_true(share["coded_bytes"].get<uint64_t>() <= share["raw_bytes"].get<uint64_t>());
  }
  assert_int_equal(blocks, (bytes + 262143) / 262144);
  assert_int_equal(raw, bytes);
  assert_int_equal(coded, blob);
  const auto near = [&codec](const char *name, double expected) {
    assert_true(std::abs(codec[name].get<double>() - expected) <= 1e-9 * expected);
  };
  near("ratio", static_cast<double>(bytes) / static_cast<double>(blob));
  const auto yardstick = codec["memcpy_gb_per_s"].get<double>();
  assert_true(yardstick > 0 && codec["rounds"].get<uint64_t>() > 0);
  near("compress_of_memcpy", codec["compress_gb_per_s"].get<double>() / yardstick);
  near("decompress_of_memcpy", codec["decompress_gb_per_s"].get<double>() / yardstick);
}

void figures_add_up(void **) {
  const std::vector<std::string> all = {"fast",   "dense", "lz4",    "zstd",  "fx",
                                        "sparse", "mask",  "planes", "narrow"};
  const std::vector<std::string> data = {weights(300001), noise(5000), std::string(1 << 20, '\0'),
                                         "x"};
  std::vector<std::string> arguments = {"--json"};
  std::vector<std::unique_ptr<TemporaryFile>> files;
  for (const std::string &bytes : data) {
    files.push_back(std::make_unique<TemporaryFile>(bytes));
    arguments.push_back(files.back()->path());
  }
  for (const std::string &name : all) arguments.insert(arguments.end(), {"--codec", name});
  const Outcome outcome = run_quickly(arguments);
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  const Json json = Json::parse(outcome.output);
  assert_int_equal(json["files"].size(), data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    const Json &file = json["files"][i];
    assert_string_equal(file["file"].get<std::string>().c_str(), files[i]->path().c_str());
    assert_int_equal(file["bytes"].get<uint64_t>(), data[i].size());
    // As much as was asked for, but of a tiny file no more than some thousand calls.
    const uint64_t least = std::min<uint64_t>(1U << 20U, 4096 * data[i].size());
    assert_true(file["measured_bytes"].get<uint64_t>() >= least);
    assert_int_equal(file["codecs"].size(), all.size());
    for (size_t k = 0; k < all.size(); ++k) {
      assert_string_equal(file["codecs"][k]["codec"].get<std::string>().c_str(), all[k].c_str());
      check_sums(file["codecs"][k], data[i].size());
    }
  }
}

/// Each codec does what it is asked for, and nothing else's work.
void codecs_are_those_named(void **) {
  const TemporaryFile file(weights(262144));
  for (const char *name : {"fx", "planes", "zstd"}) {
    const Outcome outcome = run_quickly({"--json", "--codec", name, file.path()});
    assert_int_equal(outcome.status, 0);
    const Json codec = Json::parse(outcome.output)["files"][0]["codecs"][0];
    assert_true(codec["methods"].size() == 1 && codec["methods"].contains(name));
    assert_true(codec["ratio"].get<double>() > 1.2);
  }
  // What is seen is right, and what is told is believed, right or wrong.
  const auto ratio = [&file](const std::vector<std::string> &more) {
    std::vector<std::string> arguments = {"--json", "--codec", "fx", file.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_quickly(arguments);
    assert_int_equal(outcome.status, 0);
    return Json::parse(outcome.output)["files"][0]["codecs"][0]["ratio"].get<double>();
  };
  const double right = ratio({"--element", "bf16"}), wrong = ratio({"--element", "f16"});
  assert_true(std::abs(right - ratio({})) < 0.001);
  assert_true(wrong < right - 0.05);
}

void the_table_has_a_row_for_each(void **) {
  const TemporaryFile file(weights(1000));
  const Outcome outcome = run_quickly({file.path(), file.path()});
  assert_int_equal(outcome.status, 0);
  std::istringstream lines(outcome.output);
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  assert_int_equal(rows.size(), 2 + 2 * 4);
  assert_true(contains(rows[0], "memcpy"));
  const char *names[] = {"fast", "dense", "lz4", "zstd"};
  for (size_t i = 2; i < rows.size(); ++i) {
    std::istringstream row(rows[i]);
    std::string name, codec, method, percent;
    double ratio = 0, compress = -1, decompress = -1;
    row >> name >> codec >> ratio >> compress >> decompress >> method >> percent;
    assert_false(row.fail());
    assert_true(contains(file.path(), "/" + name));
    assert_string_equal(codec.c_str(), names[(i - 2) % 4]);
    assert_true(ratio > 0.5 && compress >= 0 && decompress >= 0);
    assert_string_equal(percent.c_str(), "100%");
  }
}

void what_is_wrong_is_named(void **) {
  const TemporaryFile file("some bytes");
  const TemporaryFile empty("");
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"/no/such/file"}, "'/no/such/file': No such file"},
      {{file.path(), "/no/such/file"}, "'/no/such/file'"},
      {{empty.path()}, "'" + empty.path() + "' is empty"},
      {{"/"}, "'/' is a directory"},
      {{file.path(), "--codec", "gzip"}, "--codec: 'gzip'"},
      {{file.path(), "--element", "int8"}, "--element: 'int8'"},
      {{file.path(), "--mib", "0"}, "--mib: 0"},
      {{file.path(), "--mib", "many"}, "many"},
      {{file.path(), "--seconds", "0"}, "--seconds: 0"},
      {{file.path(), "--fast"}, "--fast"},
      {{}, "files"}};
  for (const auto &[arguments, named] : wrong) {
    const Outcome outcome = run(arguments);
    assert_int_equal(outcome.status, 1);
    if (!contains(outcome.errors, named)) fail_msg("%s", outcome.errors.c_str());
    assert_string_equal(outcome.output.c_str(), "");
  }
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(figures_add_up),
      cmocka_unit_test(codecs_are_those_named),
      cmocka_unit_test(the_table_has_a_row_for_each),
      cmocka_unit_test(what_is_wrong_is_named),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
