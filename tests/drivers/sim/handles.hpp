// SPDX-License-Identifier: Apache-2.0
//
// Living objects by their handles. A handle is the object's address, as vendors' are, but it is never
// followed before it was found here, so a stale or invented one is refused and not crashed on. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace weir::sim {

template <class Object>
class Handles {
 public:
  /// The handle is object.get().
  void add(std::shared_ptr<Object> object) {
    const void *key = object.get();
    const std::lock_guard hold(mutex_);
    objects_.emplace(key, std::move(object));
  }
  /// nullptr if it is none of these.
  std::shared_ptr<Object> find(const void *handle) const {
    const std::shared_lock hold(mutex_);
    const auto it = objects_.find(handle);
    return it != objects_.end() ? it->second : nullptr;
  }
  /// The same, and it is none from now on.
  std::shared_ptr<Object> remove(const void *handle) {
    const std::lock_guard hold(mutex_);
    const auto it = objects_.find(handle);
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }
  std::vector<std::shared_ptr<Object>> all() const {
    const std::shared_lock hold(mutex_);
    std::vector<std::shared_ptr<Object>> objects;
    objects.reserve(objects_.size());
    for (const auto &[key, object] : objects_) objects.push_back(object);
    return objects;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void *, std::shared_ptr<Object>> objects_;
};

}  // namespace weir::sim
