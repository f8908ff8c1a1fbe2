// SPDX-License-Identifier: Apache-2.0
//
// Reports: the sentence, what is short, the five that have most of it, the advice.

#include "core/pool/report.hpp"

#include "core/base/amount.hpp"
#include "core/base/name.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace weir::pool {
namespace {

constexpr size_t most_holders = 5;

std::string rounded(uint64_t bytes) {
  char text[16];
  Amount::round(bytes, text);
  return text;
}

std::vector<std::string> names_of_clients(const Inspector &pool) {
  std::vector<std::string> names;
  pool.for_each_client(
      [&names](const char *client, const weir_client_stats &) { names.push_back(shown(client)); });
  return names;
}

/// ", client "NAME"", if it has one.
std::string of_client(uint32_t client, const std::vector<std::string> &names) {
  if (client >= names.size() || names[client].empty()) return "";
  return ", client \"" + names[client] + '"';
}

/// Who has a buffer's leases: a line for each of the first.
class LeaseLines {
 public:
  explicit LeaseLines(std::string indent) : indent_(std::move(indent)) {}

  /// `unreleased`: how many there were a moment ago.
  std::string of(const LeasesOf &leases, uint32_t unreleased) const {
    std::string text;
    for (const LeasesOf::One &one : leases.first)
      if (one.times != 0) text += indent_ + line(one);
    if (leases.hidden != 0) text += indent_ + "and " + std::to_string(leases.hidden) + " more\n";
    if (leases.count == 0 && unreleased != 0)
      text +=
          indent_ + "on no stream: a call under way, such as weir_buffer_read, or released now\n";
    return text;
  }

 private:
  static std::string line(const LeasesOf::One &one) {
    const lease::LeaseItem &item = one.item;
    char handle[32];
    std::snprintf(handle, sizeof handle, "%p", one.stream);
    std::string text = item.writes() ? "to write " : "to read ";
    text += item.whole() ? "all of it"
                         : "bytes " + std::to_string(item.begin) + ".." + std::to_string(item.end);
    if (one.times != 1) text += ", " + std::to_string(one.times) + " times";
    text += ": stream " + std::to_string(one.slot) +
            (one.device < 0 ? " of the CPU" : " of device " + std::to_string(one.device)) +
            " (weir_stream " + handle + ")";
    const char *before = ", used by thread ";
    for (const auto &[thread, system] : one.threads) {
      if (thread == 0) continue;
      text += before + std::to_string(thread) + " (TID " + std::to_string(system) + ")";
      before = ", ";
    }
    return text + '\n';
  }

  std::string indent_;
};

/// What the refused call wanted memory of; bytes of a buffer there.
class ShortTier {
 public:
  ShortTier(uint32_t tier, weir_device device) : tier_(tier), device_(device) {}

  uint64_t bytes(const BufferSight &sight) const {
    switch (tier_) {
      case WEIR_TIER_DEVICE:
        return sight.there_bytes;
      case WEIR_TIER_HOST:
        return sight.info.host_bytes + sight.info.both_bytes;
      default:  // both tiers below HOST
        return sight.info.compressed_bytes + sight.info.storage_bytes;
    }
  }
  std::string state(const Inspector &pool) const {
    weir_pool_stats stats{};
    pool.stats(&stats);
    switch (tier_) {
      case WEIR_TIER_DEVICE: {
        weir_pool_device_stats device{};
        if (!pool.device_stats(device_, &device)) return "";
        return "Device " + std::to_string(device_) + " now: budget " + rounded(device.budget) +
               ", taken " + rounded(device.bytes) + " (of that free for other buffers " +
               rounded(device.free_bytes) + "), held " + rounded(device.held_bytes) + ".\n";
      }
      case WEIR_TIER_HOST:
        return "HOST now: budget " + rounded(stats.host_budget) + ", in use " +
               rounded(stats.host_bytes) + ".\n";
      default:
        return "COMPRESSED now: budget " + rounded(stats.compressed_budget) + ", in use " +
               rounded(stats.compressed_bytes) + "; STORAGE: budget " +
               rounded(stats.storage_budget) + ", in use " + rounded(stats.storage_bytes) + ".\n";
    }
  }

 private:
  uint32_t tier_;
  weir_device device_;
};

/// The buffers with most bytes of a place, the largest first.
class Holders {
 public:
  void add(const BufferSight &sight, uint64_t bytes) {
    if (bytes == 0) return;
    ++count_;
    if (found_.size() == most_holders && bytes <= found_.back().bytes) return;
    const auto at =
        std::ranges::find_if(found_, [bytes](const Holder &h) { return h.bytes < bytes; });
    found_.insert(at, {sight, bytes});
    if (found_.size() > most_holders) found_.pop_back();
  }
  void write(const Inspector &pool, StackedText *text) const {
    if (found_.empty()) {
      *text += "No buffer has any of it.\n";
      return;
    }
    const std::vector<std::string> clients = names_of_clients(pool);
    std::vector<LeasesOf> leases(found_.size());
    std::ranges::transform(found_, leases.begin(), [](const Holder &holder) {
      LeasesOf of;
      of.buffer = holder.sight.buffer;
      return of;
    });
    pool.find_leases(leases);
    *text += "Of " + std::to_string(count_) + (count_ == 1 ? " buffer" : " buffers") +
             " with bytes there, those with the most:\n";
    for (size_t i = 0; i < found_.size(); ++i) {
      *text += line(found_[i], clients);
      *text += LeaseLines("    ").of(leases[i], found_[i].sight.info.leases);
      std::vector<void *> stack = pool.stack(found_[i].sight.stack);
      if (!stack.empty()) *text += "    made by:\n";
      text->add(std::move(stack));
    }
  }

 private:
  struct Holder {
    BufferSight sight;
    uint64_t bytes;
  };

  static std::string line(const Holder &holder, const std::vector<std::string> &clients) {
    const BufferSight &sight = holder.sight;
    std::string text = "  " + rounded(holder.bytes) + "  ";
    if (sight.allocation) {
      text += "memory of weir_malloc";
    } else if (!sight.name.empty()) {
      text += '"' + shown(sight.name) + '"';
    } else {
      text += "no name (tag " + std::to_string(sight.info.tag) + ")";
    }
    text += ", of " + rounded(sight.info.size);
    text += of_client(sight.client, clients);
    if (sight.info.held != 0) text += ", held";
    if (sight.info.leases != 0) text += ", leased (" + std::to_string(sight.info.leases) + ")";
    if (!sight.allocation && sight.info.held == 0 && sight.info.leases == 0)
      text += sight.cold ? ", not in use, advised cold" : ", not in use";
    return text + '\n';
  }

  std::vector<Holder> found_;
  uint64_t count_ = 0;
};

/// The one buffer that a conflict or a loss is about, and who has leases of it.
std::string about(const Inspector &pool, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  uint32_t client = 0;
  if (!pool.find(buffer, &info, &client)) return "The buffer has been destroyed since.\n";
  LeasesOf leases;
  leases.buffer = buffer;
  pool.find_leases({&leases, 1});
  return "The buffer now: " + rounded(info.size) + of_client(client, names_of_clients(pool)) +
         ", unreleased leases " + std::to_string(info.leases) + ", holds " +
         std::to_string(info.held) + ", lost " + rounded(info.lost_bytes) + ".\n" +
         LeaseLines("  ").of(leases, info.leases);
}

}  // namespace

StackedText report(const Inspector &pool, const char *name, const LastError &error) {
  StackedText text;
  text += error.text;
  text += "\nPool \"" + shown(name) + "\".\n";
  if (error.detail.tier != WEIR_TIER_NONE) {
    const ShortTier tier(error.detail.tier, error.detail.device);
    text += tier.state(pool);
    Holders holders;
    pool.for_each_buffer(
        [&](const BufferSight &sight) { holders.add(sight, tier.bytes(sight)); },
        error.detail.tier == WEIR_TIER_DEVICE ? error.detail.device : WEIR_DEVICE_HOST);
    holders.write(pool, &text);
  }
  if (error.detail.buffer != nullptr) text += about(pool, error.detail.buffer);
  const std::string what = advice(pool, error);
  if (!what.empty()) text += "What to do: " + what + '\n';
  return text;
}

}  // namespace weir::pool
