// SPDX-License-Identifier: Apache-2.0
//
// Recorded files by their suffix, and generated stand-ins.

#include "bench/codec/data.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace weir::bench {
namespace {

using codec::Form;
using Bytes = std::vector<unsigned char>;

constexpr uint64_t once = uint64_t{2} << 20U;

Bytes repeated(const Bytes &bytes, uint64_t total) {
  Bytes all(total);
  for (uint64_t at = 0; at < total; at += bytes.size())
    std::memcpy(&all[at], bytes.data(), std::min<uint64_t>(bytes.size(), total - at));
  return all;
}

bool form_of(const std::string &suffix, Form *form) {
  constexpr struct {
    const char *suffix;
    Form form;
  } known[] = {{".bf16", Form::bf16},
               {".f16", Form::f16},
               {".f32", Form::f32},
               {".f64", Form::f64},
               {".u8", Form::bytes}};
  for (const auto &each : known) {
    if (suffix == each.suffix) return *form = each.form, true;
  }
  return false;
}

bool for_recorded(uint64_t total, const std::function<void(const CodecData &)> &take) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  if (shared == nullptr) return false;
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto &entry :
       std::filesystem::directory_iterator(std::string(shared) + "/data", error)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  bool any = false;
  for (const auto &path : paths) {
    CodecData data{path.filename().string(), Form::bytes, path.extension() == ".u8", {}};
    if (!form_of(path.extension().string(), &data.form)) continue;
    std::ifstream file(path, std::ios::binary);
    const Bytes bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (bytes.empty()) continue;
    data.bytes = repeated(bytes, total);
    take(data);
    any = true;
  }
  return any;
}

Bytes floats(uint32_t width, bool rectified) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  Bytes bytes(once);
  for (uint64_t at = 0; at < once; at += width) {
    float value = normal(random);
    if (rectified && value < 0.0168F) value = 0;  // four of five
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (width == 2) bits >>= 16U;
    std::memcpy(&bytes[at], &bits, width);
  }
  return bytes;
}

void for_generated(uint64_t total, const std::function<void(const CodecData &)> &take) {
  take({"normal bf16", Form::bf16, false, repeated(floats(2, false), total)});
  take({"relu bf16", Form::bf16, false, repeated(floats(2, true), total)});
  take({"normal f32", Form::f32, false, repeated(floats(4, false), total)});
  take({"relu f32", Form::f32, false, repeated(floats(4, true), total)});
  std::mt19937_64 random(2);
  Bytes bytes(once);
  for (unsigned char &byte : bytes) byte = random() % 10 != 0;
  take({"mask u8", Form::bytes, true, repeated(bytes, total)});
  for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random());
  take({"random", Form::bf16, false, repeated(bytes, total)});
}

}  // namespace

void for_each_data(uint64_t total, const std::function<void(const CodecData &)> &take) {
  if (!for_recorded(total, take)) for_generated(total, take);
}

}  // namespace weir::bench
