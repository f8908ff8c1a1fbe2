// SPDX-License-Identifier: Apache-2.0
//
// Takes back what was done if what follows fails, whichever way the scope is left.
#pragma once

#include <utility>

namespace weir::common {

template <class Action>
class Undo {
 public:
  explicit Undo(Action action) : action_(std::move(action)) {}
  ~Undo() {
    if (armed_) action_();
  }
  Undo(const Undo &) = delete;
  Undo &operator=(const Undo &) = delete;
  /// All went well: nothing is taken back.
  void dismiss() noexcept { armed_ = false; }

 private:
  Action action_;
  bool armed_ = true;
};

}  // namespace weir::common
