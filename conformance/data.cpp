// SPDX-License-Identifier: Apache-2.0
//
// Patterns, moving them, and what can be seen of a process and a device from outside.
#include "conformance/explain.hpp"
#include "conformance/fixtures.hpp"

#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace weir::conformance {
namespace {

uint64_t entries_of(const char *folder) {
  DIR *directory = opendir(folder);
  if (directory == nullptr) return 0;
  uint64_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

/// The two differ.
Outcome difference(const Site &site, const std::string &what, std::span<const std::byte> is,
                   std::span<const std::byte> wanted) {
  return Outcome::failure(place(site) + ": " + what + ": " + explain(is, wanted));
}

/// Bytes are made and compared a block at a time (UNSEEN, test.hpp).
constexpr size_t block_bytes = 4096;

/// The pattern of a seed, block after block, in memory of the thread's own.
class PatternBlocks {
 public:
  explicit PatternBlocks(uint64_t seed) noexcept : random_(seed * 0x2545f4914f6cdd1d + 1) {}
  UNSEEN const std::byte *next() noexcept {
    for (uint64_t &word : words_) word = random_.next();
    return reinterpret_cast<const std::byte *>(words_);
  }

 private:
  Random random_;
  uint64_t words_[block_bytes / sizeof(uint64_t)];
};

/// How much of a pattern behind its end is looked at for bytes that came from there.
constexpr size_t beyond_bytes = size_t{1} << 20U;

/// `next` gives the blocks that the bytes must be. True if all are.
template <typename Next>
bool same_blocks(std::span<const std::byte> bytes, Next next) {
  for (size_t at = 0; at < bytes.size(); at += block_bytes) {
    const auto now = bytes.subspan(at, std::min(bytes.size() - at, block_bytes));
    const std::span<const std::byte> wanted(next(), now.size());
    if (first_difference(now, wanted) != now.size()) return false;
  }
  return true;
}

}  // namespace

void make_pattern(std::span<std::byte> bytes, uint64_t seed) {
  remember_seed(seed);
  fill_pattern(bytes, seed);
}

void fill_pattern(std::span<std::byte> bytes, uint64_t seed) {
  PatternBlocks pattern(seed);
  while (!bytes.empty()) {
    const auto now = bytes.first(std::min(bytes.size(), block_bytes));
    std::memcpy(now.data(), pattern.next(), now.size());
    bytes = bytes.subspan(now.size());
  }
}

size_t first_difference(std::span<const std::byte> is, std::span<const std::byte> wanted) noexcept {
  const size_t bytes = std::min(is.size(), wanted.size());
  for (size_t at = 0; at < bytes; at += block_bytes) {
    const size_t now = std::min(bytes - at, block_bytes);
    if (std::memcmp(is.data() + at, wanted.data() + at, now) == 0) continue;
    while (is[at] == wanted[at]) ++at;
    return at;
  }
  return bytes;
}

Outcome check_pattern(std::span<const std::byte> bytes, uint64_t seed, const std::string &what,
                      Site site) {
  PatternBlocks pattern(seed);
  if (same_blocks(bytes, [&] { return pattern.next(); })) return {};
  std::vector<std::byte> wanted(bytes.size() + std::min(bytes.size() + block_bytes, beyond_bytes));
  fill_pattern(wanted, seed);
  return difference(site, what, bytes, wanted);
}

Outcome check_value(std::span<const std::byte> bytes, uint8_t value, const std::string &what,
                    Site site) {
  std::byte block[block_bytes];
  std::memset(block, value, sizeof block);
  if (same_blocks(bytes, [&] { return block; })) return {};
  return difference(site, what, bytes,
                    std::vector<std::byte>(bytes.size(), static_cast<std::byte>(value)));
}

Outcome check_same(std::span<const std::byte> is, std::span<const std::byte> wanted,
                   const std::string &what, Site site) {
  if (first_difference(is, wanted) == is.size()) return {};
  return difference(site, what, is, wanted);
}

Outcome Mover::make(uint64_t bytes, Site site) {
  TRY(stream.create(site));
  return staging.allocate(bytes, site);
}

Outcome Mover::write(uint64_t address, uint64_t bytes, uint64_t seed, Site site) {
  make_pattern(staging.bytes().first(bytes), seed);
  TRY(stream.copy(address, staging.address(), bytes, site));
  return stream.synchronize(site);
}

Outcome Mover::read(uint64_t address, uint64_t bytes, Site site) {
  TRY(stream.synchronize(site));  // the stream may still read from staging memory
  // So that bytes that were not copied are not taken for the right ones.
  std::fill_n(staging.bytes().begin(), bytes, std::byte{nothing_came});
  TRY(stream.copy(staging.address(), address, bytes, site));
  return stream.synchronize(site);
}

Outcome Mover::check(uint64_t address, uint64_t bytes, uint64_t seed, Site site) {
  TRY(read(address, bytes, site));
  return check_pattern(staging.bytes().first(bytes), seed, "memory at " + number(address), site);
}

Outcome Mover::check_filled(uint64_t address, uint64_t bytes, uint8_t value, Site site) {
  TRY(read(address, bytes, site));
  return check_value(staging.bytes().first(bytes), value, "memory at " + number(address), site);
}

Outcome Mover::fill(uint64_t address, uint8_t value, uint64_t bytes, Site site) {
  TRY(stream.fill(address, value, bytes, site));
  return stream.synchronize(site);
}

uint64_t now_ns() noexcept {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

Outcome free_memory(Session &session, uint64_t *bytes, Site site) {
  uint64_t total = 0;
  return session.expect(site, Want::exactly(WEIR_SUCCESS), "device_memory",
                        session.table.device_memory, session.device, bytes, &total);
}

Outcome memory_back(Test &t, uint64_t before, Site site) {
  const uint64_t wanted = before - std::min(before, t.slack);
  const uint64_t end = now_ns() + patience_ns / 4;
  uint64_t free_bytes = 0;
  // Runtimes may take back memory of ended things a moment later.
  do {
    TRY(free_memory(t, &free_bytes, site));
    if (free_bytes >= wanted) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (now_ns() < end);
  return Outcome::failure(words(place(site), ": ", free_bytes, " bytes are free, of ", before,
                                " before; ", before - free_bytes, " are not back"));
}

Holdings holdings() { return {entries_of("/proc/self/fd"), entries_of("/proc/self/task")}; }

Outcome holdings_back(const Holdings &before, uint64_t spare, Site site) {
  const uint64_t end = now_ns() + patience_ns / 4;
  Holdings now;
  do {
    now = holdings();
    if (now.descriptors <= before.descriptors + spare && now.threads <= before.threads + spare)
      return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (now_ns() < end);
  CHECK(now.descriptors <= before.descriptors + spare, place(site), ": descriptors grew from ",
        before.descriptors, " to ", now.descriptors);
  CHECK(now.threads <= before.threads + spare, place(site), ": threads grew from ", before.threads,
        " to ", now.threads);
  return {};
}

Outcome in_threads(uint32_t count, const std::function<Outcome(uint32_t)> &body) {
  std::vector<Outcome> outcomes(count);
  std::atomic<uint32_t> ready{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      // All at once, so that they do meet.
      ready.fetch_add(1);
      while (ready.load() < count) std::this_thread::yield();
      outcomes[i] = body(i);
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const Outcome &outcome : outcomes) TRY(outcome);
  for (const Outcome &outcome : outcomes)
    if (!outcome.empty()) return {};
  return outcomes.empty() ? Outcome{} : outcomes.front();
}

void Meeting::wait() {
  std::unique_lock hold(mutex_);
  if (++here_ >= guests_) return go_on();
  changed_.wait(hold, [this, round = round_] { return round_ != round; });
}

void Meeting::leave() {
  const std::lock_guard hold(mutex_);
  --guests_;
  if (here_ >= guests_) go_on();
}

void Meeting::go_on() {
  here_ = 0;
  ++round_;
  changed_.notify_all();
}

}  // namespace weir::conformance
