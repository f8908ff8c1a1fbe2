// SPDX-License-Identifier: Apache-2.0
//
// A few of the wrong bytes, from the first on, are looked for: as one of the values that tests put where nothing should stay, in
// what was wanted elsewhere, and in the patterns made of late.
#include "conformance/explain.hpp"

#include "conformance/fixtures.hpp"

#include <string.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

namespace weir::conformance {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t most_probed = 64;
/// So few bytes are found anywhere.
constexpr size_t least_probed = 8;
constexpr size_t border = 4096;
constexpr size_t most_of_a_seed = size_t{16} << 20U;
constexpr size_t most_of_all_seeds = size_t{256} << 20U;
constexpr size_t around_a_seed = size_t{64} << 10U;

/// The last seeds, the newest first.
class Seeds {
 public:
  void add(uint64_t seed) {
    const std::lock_guard hold(mutex_);
    if (count_ != 0 && seeds_[(count_ - 1) % seeds_.size()] == seed) return;
    seeds_[count_++ % seeds_.size()] = seed;
  }
  std::vector<uint64_t> all() const {
    const std::lock_guard hold(mutex_);
    std::vector<uint64_t> newest;
    for (size_t i = 0; i < std::min(count_, seeds_.size()); ++i) {
      const uint64_t seed = seeds_[(count_ - 1 - i) % seeds_.size()];
      if (std::find(newest.begin(), newest.end(), seed) == newest.end()) newest.push_back(seed);
    }
    return newest;
  }

 private:
  mutable std::mutex mutex_;
  std::array<uint64_t, 64> seeds_{};
  size_t count_ = 0;
};

Seeds &seeds() {
  static auto *const known = new Seeds;
  return *known;
}

struct Wrong {
  size_t count = 0, first = 0, last = 0;
};

Wrong count_wrong(Bytes is, Bytes wanted) {
  Wrong wrong;
  for (size_t i = 0; i < is.size(); ++i) {
    if (is[i] == wanted[i]) continue;
    if (wrong.count++ == 0) wrong.first = i;
    wrong.last = i;
  }
  return wrong;
}

std::string whose_value(Bytes probe) {
  const bool all_alike =
      std::all_of(probe.begin(), probe.end(), [&](std::byte b) { return b == probe[0]; });
  if (!all_alike) return {};
  switch (static_cast<uint8_t>(probe[0])) {
    case nothing_came:
      return "nothing was copied";
    case surroundings:
      return "what lay around the bytes before";
    case 0:
      return "never written";
    default:
      return {};
  }
}

/// Where in `among` the probe is; among.size() if nowhere.
size_t find(Bytes probe, Bytes among) {
  const void *at = memmem(among.data(), among.size(), probe.data(), probe.size());
  if (at == nullptr) return among.size();
  return static_cast<size_t>(static_cast<const std::byte *>(at) - among.data());
}

std::string way(size_t from, size_t to) {
  return to > from ? std::to_string(to - from) + " bytes further on"
                   : std::to_string(from - to) + " bytes further back";
}

std::string of_a_seed(Bytes probe, size_t first) {
  size_t left = most_of_all_seeds;
  std::vector<std::byte> pattern(std::min(first + probe.size() + around_a_seed,
                                          std::max(most_of_a_seed, first + probe.size())));
  for (const uint64_t seed : seeds().all()) {
    if (left < pattern.size()) return {};
    left -= pattern.size();
    fill_pattern(pattern, seed);
    const std::string whose = words("the bytes of seed ", seed, ", written before");
    if (std::equal(probe.begin(), probe.end(),
                   pattern.begin() + static_cast<std::ptrdiff_t>(first)))
      return whose;
    const size_t at = find(probe, pattern);
    if (at != pattern.size()) return whose + ", that belong " + way(first, at);
  }
  return {};
}

/// Whose the bytes are, "" if that is not known.
std::string whose(Bytes probe, Bytes wanted, size_t first) {
  if (std::string value = whose_value(probe); !value.empty()) return value;
  if (probe.size() < least_probed) return {};
  const size_t at = find(probe, wanted);
  if (at != wanted.size()) return "these bytes belong " + way(first, at);
  return of_a_seed(probe, first);
}

}  // namespace

void remember_seed(uint64_t seed) { seeds().add(seed); }

std::string explain(Bytes is, Bytes wanted) {
  const Wrong wrong = count_wrong(is, wanted);
  if (wrong.count == 0) return "no byte is wrong";
  const size_t probed = std::min(most_probed, wrong.last - wrong.first + 1);
  const std::string owner = whose(is.subspan(wrong.first, probed), wanted, wrong.first);
  // Decimal, however large, so that they can be compared with each other.
  const auto decimal = [](size_t value) { return std::to_string(value); };
  std::string text = words("byte ", decimal(wrong.first), " of ", decimal(is.size()), " is ",
                           static_cast<uint32_t>(is[wrong.first]));
  if (!owner.empty()) text += " (" + owner + ")";
  text += words(", not ", static_cast<uint32_t>(wanted[wrong.first]));
  if (wrong.count == 1) {
    text += "; no other byte is wrong";
  } else {
    text +=
        words("; ", decimal(wrong.count), " bytes are wrong, the last is ", decimal(wrong.last));
  }
  if (wrong.first != 0 && wrong.first % border == 0) {
    const size_t power = wrong.first & (~wrong.first + 1);
    text += words("; the first stands at a multiple of ", decimal(power));
  }
  return text;
}

}  // namespace weir::conformance
