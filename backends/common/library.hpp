// SPDX-License-Identifier: Apache-2.0
//
// A vendor's runtime library, found and opened at run time. It is never closed: vendors' libraries start
// threads and do not survive being unloaded.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>

namespace weir::common {

class Library {
 public:
  /// Opens the file that the environment variable `variable` names (ignored under secure execution), or the
  /// first of `names` that the loader finds. False: *reason says what was tried and why it failed.
  bool open(const char *variable, std::initializer_list<const char *> names, std::string *reason);

  bool is_open() const noexcept { return handle_ != nullptr; }
  /// What was opened, for messages.
  const std::string &name() const noexcept { return name_; }
  /// nullptr if the library has no such symbol.
  void *symbol(const char *name) const noexcept;
  /// The same as a pointer to a function. False if there is no such symbol; *function is NULL then.
  template <class Function>
  bool find(const char *name, Function **function) const noexcept {
    void *found = symbol(name);
    std::memcpy(function, &found, sizeof found);
    return found != nullptr;
  }

 private:
  void *handle_ = nullptr;
  std::string name_;
};

}  // namespace weir::common
