// SPDX-License-Identifier: Apache-2.0
//
// Cast: who has a part in a plan (policy/residency_plan.hpp): the pool's large buffers, and buffers that a forecast expects to be
// created. An expected one becomes the real one when that is created, with all that has been planned for it. Guarded by whoever owns it.
//
// Invariants: a buffer that lives has at most one part. The number of a part that has ended is given to another, of which `life`
// differs: whoever keeps a part keeps its life beside it.
#pragma once

#include "core/base/grow.hpp"

#include <cstdint>
#include <memory_resource>
#include <unordered_map>
#include <vector>

namespace weir::policy {

/// Who knows of the pool's buffers.
class Priorities {
 public:
  virtual int8_t priority(uint32_t buffer, uint64_t generation) const noexcept = 0;

 protected:
  ~Priorities() = default;
};

class Cast {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  struct Part {
    uint32_t buffer = none;   ///< by its number in the pool's table; none: it is expected
    uint32_t life = 0;        ///< counts who has had this number
    uint64_t generation = 0;  ///< of the buffer
    uint64_t bytes = 0;       ///< its size, or the one expected
    int8_t priority = 0;      ///< of the buffer; an expected one's is not known: 0
    bool live = false;
  };

  explicit Cast(std::pmr::memory_resource *memory) : parts_(memory), free_(memory), of_(memory) {}

  /// Who is asked when a buffer gets a part; nobody: it is of priority 0.
  void ask(const Priorities &priorities) noexcept { priorities_ = &priorities; }
  /// The part of a buffer that lives, or none.
  uint32_t of(uint32_t buffer) const noexcept {
    const auto found = of_.find(buffer);
    return found != of_.end() ? found->second : none;
  }
  const Part &operator[](uint32_t part) const noexcept { return parts_[part]; }
  /// Parts have numbers below this.
  uint32_t size() const noexcept { return static_cast<uint32_t>(parts_.size()); }
  bool lives(uint32_t part, uint32_t life) const noexcept {
    return part < parts_.size() && parts_[part].live && parts_[part].life == life;
  }

  /// A buffer has been created; `part`: the one that it was expected as, or none. Returns its part. Throws std::bad_alloc with
  /// nothing changed.
  uint32_t born(uint32_t buffer, uint64_t generation, uint64_t bytes, uint32_t part = none);
  /// One of so many bytes is expected. Throws std::bad_alloc with nothing changed.
  uint32_t expect(uint64_t bytes);
  void set_priority(uint32_t part, int8_t priority) noexcept { parts_[part].priority = priority; }
  /// A buffer has been destroyed, or an expected one is not expected any more. Parts that have ended are passed over.
  void end(uint32_t part) noexcept;
  /// Nobody is expected any more.
  void forget_expected() noexcept;

 private:
  uint32_t make();

  const Priorities *priorities_ = nullptr;
  std::pmr::vector<Part> parts_;
  std::pmr::vector<uint32_t> free_;  ///< has room for all parts
  std::pmr::unordered_map<uint32_t, uint32_t> of_;
};

}  // namespace weir::policy
