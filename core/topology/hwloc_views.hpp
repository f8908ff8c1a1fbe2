// SPDX-License-Identifier: Apache-2.0
//
// What runtimes show of one card. hwloc has an OS device for each device that a runtime counts: several of different
// runtimes at one PCI function are views of one device; several of one runtime are the partitions of a card. Included by
// the discovery only.
#pragma once

#include <hwloc.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace weir::topology {

/// What a runtime names its devices; the order is that of preference where no PCI function tells them apart.
enum class Runtime : uint8_t { other, opencl, nvml, cuda, hip, rsmi, level_zero };

/// hwloc hands on what a file gives for some of its enums, unlooked at: a number until it has been compared.
/// Its bytes are taken, as a value that the enum does not have must not be read as one of it.
template <class Enum>
uint32_t number_of(const Enum &value) noexcept {
  static_assert(sizeof(Enum) == sizeof(uint32_t));
  uint32_t number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

/// The objects of a sibling list, from its first on.
std::vector<hwloc_obj_t> listed(hwloc_obj_t first);
inline std::string_view text_of(const char *text) { return text != nullptr ? text : ""; }
/// "" if the object has none of that name.
std::string_view info_of(hwloc_obj_t object, const char *name);
Runtime runtime_of(hwloc_obj_t object);
/// What the runtime has directly within the object.
std::vector<hwloc_obj_t> parts_within(hwloc_obj_t object, Runtime runtime);

/// The devices that one runtime, or one platform or driver of it, has at a card.
struct View {
  Runtime runtime = Runtime::other;
  std::string_view platform;
  hwloc_obj_t whole = nullptr;     ///< the card as one device
  std::vector<hwloc_obj_t> parts;  ///< and as several
};

class Views {
 public:
  /// The views of the OS devices in `function`, and of those in `beside`, which are of the same card.
  Views(hwloc_obj_t function, const std::vector<hwloc_obj_t> &beside);
  Views(const Views &) = delete;
  Views &operator=(const Views &) = delete;

  /// How many partitions the card has; 0: it is one device.
  size_t part_count() const noexcept { return teller_ != nullptr ? teller_->parts.size() : 0; }
  /// The view that tells the partitions: the most preferred of those with the most.
  const View *teller() const noexcept { return teller_; }
  /// Whether Level Zero was told to be flat, with no cards but their parts: each part says the card's memory, as sysman knows no parts.
  bool flat() const noexcept {
    return teller_ != nullptr && teller_->runtime == Runtime::level_zero &&
           teller_->whole == nullptr;
  }
  const std::vector<View> &all() const noexcept { return views_; }
  /// Whether the view's parts are the card's: one that has fewer hides some, and it is not known which.
  bool tells_parts(const View &view) const noexcept {
    return teller_ != nullptr && view.parts.size() == part_count();
  }

 private:
  void take(hwloc_obj_t object);

  std::vector<View> views_;
  const View *teller_ = nullptr;
};

}  // namespace weir::topology
