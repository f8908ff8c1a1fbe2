// SPDX-License-Identifier: Apache-2.0
//
// What a thread of the pool's fuzzer stands on. Caller: random numbers and bytes, and what calls may answer. Blocks: memory of weir_malloc,
// with bytes that are known, until they are freed.
#pragma once

#include "tests/fuzz/world.hpp"

namespace weir::fuzz {

class Caller {
 public:
  Caller(World &world, uint64_t seed) : world_(world), random_(seed) {}

 protected:
  uint64_t below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }
  /// The device of the call is leaving the pool, or has left it, and may.
  bool left(weir_result result) const {
    if (!world_.elastic) return false;
    const bool unknown = result == WEIR_ERROR_INVALID_ARGUMENT &&
                         std::strstr(weir_last_error(), "is not of this pool") != nullptr;
    return unknown || result == WEIR_ERROR_DEVICE_REMOVED;
  }
  void expect(weir_result result, const char *what) {
    if (result != WEIR_SUCCESS && !left(result)) report(what, world_.seed);
  }
  void allow(weir_result result, std::initializer_list<weir_result> allowed, const char *what) {
    if (result == WEIR_SUCCESS || left(result)) return;
    if (result == WEIR_ERROR_DEVICE_OOM && world_.scarce) return;
    for (weir_result a : allowed) {
      if (a == result) return;
    }
    report(what, world_.seed);
  }
  /// Random bytes, or such as compress: all the same, few different ones, or numbers that rise (which pay for trying hard).
  WEIR_UNSEEN Bytes noise(size_t size) {
    Bytes bytes(size);
    uint64_t x = random_();
    const uint64_t kind = x % 4;
    if (kind == 0) {
      std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(x >> 32));
      return bytes;
    }
    if (kind == 1) {
      for (size_t i = 0; i < size; ++i) {
        if (i % 61 == 0) x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        bytes[i] = static_cast<unsigned char>(x >> 60);
      }
      return bytes;
    }
    for (size_t i = 0; i < size; ++i) {
      x = x * 6364136223846793005ULL + 1442695040888963407ULL;
      bytes[i] = static_cast<unsigned char>(x >> 56);
    }
    if (kind != 2) return bytes;
    for (size_t i = 0; i + 1 < size; i += 2) {
      const size_t value = 2000 + i / 3 + bytes[i] % 4;
      bytes[i] = static_cast<unsigned char>(value);
      bytes[i + 1] = static_cast<unsigned char>(value >> 8U);
    }
    return bytes;
  }
  /// For bytes of a buffer from `offset` on.
  Bytes noise_for(const Model &model, uint64_t offset, size_t size) {
    Bytes bytes = noise(size);
    for (size_t i = 0; model.halves && i < size; ++i) {
      if ((offset + i) % 4 < 2) bytes[i] = 0;
    }
    return bytes;
  }
  void note(Model &model, const char *what, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    if (model.past.size() > 600) model.past.erase(0, 300);
    model.past += std::string(" ") + what + "(" + std::to_string(a) + "," + std::to_string(b) +
                  "," + std::to_string(c) + "," + (d == WEIR_WHOLE ? "whole" : std::to_string(d)) +
                  ")";
  }

  World &world_;
  std::mt19937_64 random_;
};

class Blocks : public Caller {
 public:
  using Caller::Caller;
  void free_allocations() {
    for (const Allocation &old : allocations_)
      expect(weir_free(world_.pool, nullptr, old.address), "free");
    allocations_.clear();
  }

 protected:
  bool has_blocks() const { return !allocations_.empty(); }
  /// Frees one of them, after a look at what is in it.
  void free_allocation() {
    std::swap(allocations_[below(allocations_.size())], allocations_.back());
    Allocation old = std::move(allocations_.back());
    allocations_.pop_back();
    auto job = std::make_unique<Job>();
    job->seed = world_.seed;
    job->pieces.push_back(
        Job::Piece{reinterpret_cast<unsigned char *>(old.address), std::move(old.bytes), {}, {}});
    expect(launch(old.stream, std::move(job)), "launch");
    expect(weir_free(world_.pool, old.stream, old.address), "free");
  }
  void allocate(weir_stream stream) {
    constexpr size_t most_allocations = 12;
    if (!allocations_.empty() && (below(2) == 0 || allocations_.size() >= most_allocations))
      return free_allocation();
    uint64_t address = 0;
    // Of all sizes up to half a page alike, and some beyond it.
    const uint64_t size =
        below(4) == 0 ? 1 + below(world_.page * 2) : 1 + below(world_.page >> (1 + below(7)));
    const weir_result result = weir_malloc(world_.pool, 0, stream, size, &address);
    allow(result, {WEIR_ERROR_WOULD_BLOCK, WEIR_ERROR_OVER_BUDGET}, "malloc");
    if (result != WEIR_SUCCESS) return;
    Bytes bytes = noise(size);
    auto job = std::make_unique<Job>();
    job->seed = world_.seed;
    job->pieces.push_back(Job::Piece{reinterpret_cast<unsigned char *>(address), {}, bytes, {}});
    expect(launch(stream, std::move(job)), "launch");
    if (below(2) == 0) {
      expect(weir_free(world_.pool, stream, address), "free");
    } else {
      allocations_.push_back({address, stream, std::move(bytes)});
    }
  }

 private:
  struct Allocation {
    uint64_t address;
    weir_stream stream;
    Bytes bytes;
  };

  std::vector<Allocation> allocations_;
};

}  // namespace weir::fuzz
