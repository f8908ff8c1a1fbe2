// SPDX-License-Identifier: Apache-2.0
//
// Takes the first wish that a device fits, of several that fit one with much free memory; a refusal says which devices there are.

#include "core/pool/find_device.hpp"

#include "core/topology/wish.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace weir::pool {
namespace {

using topology::Offer;
using topology::Wish;

/// Of a reason why a backend is not available, its first sentence, and of that so much that there is room for all backends'.
std::string beginning_of(std::string_view reason) {
  constexpr size_t most = 72;
  const std::string_view first = reason.substr(0, reason.find(';'));
  if (first.size() <= most) return std::string(first);
  return std::string(first.substr(0, first.find_last_of(' ', most))) + " ...";
}

/// A device that a wish means, and its memory at that moment.
struct Choice {
  const backend::Device *device = nullptr;
  bool answers = false;  ///< its runtime told the memory
  uint64_t free = 0, total = 0;
};

class Finder {
 public:
  explicit Finder(Context &context) : context_(context), places_(context.places()) {}

  /// The device that is meant; none if there is none, or it is of no use where any of a kind would do.
  Choice choose(const Wish &wish) const {
    Choice best;
    uint32_t before = 0;  // how many fit and have been passed over
    for (uint32_t id = 0; id < places_.count(); ++id) {
      const backend::Device &device = *places_.find(id);
      if (!wish.fits(offer_of(device)) || (wish.kind == Wish::Kind::gpu && seen_before(device)))
        continue;
      if (wish.numbered && before++ != wish.number) continue;
      const Choice next = ask(device);
      if (wish.open() && !next.answers) continue;
      const bool better = next.answers != best.answers ? next.answers : next.free > best.free;
      if (best.device == nullptr || better) best = next;
    }
    return best;
  }

  /// "host:0".
  std::string name_of(const backend::Device &device) const {
    const uint32_t number = device.id - context_.first_device(device.backend);
    return std::string(device.runtime->name()) + ':' + std::to_string(number);
  }

  /// "there is host:0; cuda is not available (the reason's beginning); ...", what matters most first: 330 bytes of it fit a message.
  std::pmr::string what_there_is() const {
    std::pmr::string text(context_.memory());
    for (uint32_t id = 0; id < places_.count(); ++id) {
      const backend::Device &device = *places_.find(id);
      text += text.empty() ? "there is " : ", ";
      text += name_of(device);
      if (device.description.pci_address[0] == '\0') continue;
      text += " at ";
      text += device.description.pci_address;
    }
    if (text.empty()) text = "there is no device";
    bool gpus = false;
    for (uint32_t i = 0; i < context_.backend_count(); ++i) {
      const backend::Runtime &runtime = context_.runtime(i);
      gpus = gpus || std::string_view(runtime.name()) != "host";
      if (runtime.available()) continue;
      text += "; ";
      text += runtime.name();
      text += " is not available (";
      text += beginning_of(runtime.reason());
      text += ')';
    }
    if (!gpus)
      text += "; no backend for GPUs is installed; get weir-backend1-cuda, -hip or -level-zero";
    return text;
  }

 private:
  Offer offer_of(const backend::Device &device) const noexcept {
    return Offer{device.runtime->name(), device.description.pci_address, device.description.uuid,
                 device.has(WEIR_CAP_INTEGRATED)};
  }
  /// Two backends may offer one card: it counts once, as the first's.
  bool seen_before(const backend::Device &device) const noexcept {
    const auto own = topology::parse_pci(device.description.pci_address);
    if (!own) return false;
    for (uint32_t id = 0; id < device.id; ++id) {
      const backend::Device &earlier = *places_.find(id);
      if (earlier.backend == device.backend || !Wish{}.fits(offer_of(earlier))) continue;
      if (topology::parse_pci(earlier.description.pci_address) == own) return true;
    }
    return false;
  }
  static Choice ask(const backend::Device &device) noexcept {
    Choice choice{&device};
    choice.answers = device.table().device_memory(device.state(), device.index, &choice.free,
                                                  &choice.total) == WEIR_SUCCESS;
    return choice;
  }

  Context &context_;
  topology::Places &places_;
};

}  // namespace

Status find_device(Context &context, const char *wishes, uint32_t *device) {
  const bool asked = wishes != nullptr && wishes[0] != '\0';
  const char *variable = asked ? nullptr : secure_getenv("WEIR_DEVICE");
  const bool set = variable != nullptr && variable[0] != '\0';
  const std::string_view all = asked ? wishes : set ? variable : "gpu";
  const char *const origin = set ? "WEIR_DEVICE is " : "";
  // All of them are read before any counts: a slip in the second is told where the first is met, too.
  std::pmr::vector<Wish> list(context.memory());
  for (size_t at = 0, end = 0; at <= all.size(); at = end + 1) {
    end = std::min(all.find(',', at), all.size());
    WEIR_TRY(topology::parse_wish(all.substr(at, end - at), &list.emplace_back()));
  }
  const Finder finder(context);
  for (const Wish &wish : list) {
    const Choice choice = finder.choose(wish);
    if (choice.device == nullptr) continue;
    const bool first = &wish == &list.front();
    context.log()(first ? WEIR_LOG_INFO : WEIR_LOG_WARNING,
                  "%s\"%.*s\": device %u is chosen, %s (%s), %llu MiB of %llu MiB free%s%s", origin,
                  static_cast<int>(all.size()), all.data(), choice.device->id,
                  finder.name_of(*choice.device).c_str(), choice.device->description.name,
                  llu(choice.free >> 20), llu(choice.total >> 20),
                  first ? "" : "; what was wished for first is not there: ",
                  first ? "" : finder.what_there_is().c_str());
    *device = choice.device->id;
    return {};
  }
  return fail(WEIR_ERROR_INVALID_ARGUMENT,
              "%s\"%.*s\": there is no such device: %.330s%s; see weir devices", origin,
              static_cast<int>(std::min<size_t>(all.size(), 110)), all.data(),
              finder.what_there_is().c_str(),
              all == "gpu" ? "; \"gpu,host\" takes CPU memory then" : "");
}

}  // namespace weir::pool
