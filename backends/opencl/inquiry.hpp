// SPDX-License-Identifier: Apache-2.0
//
// Asking the runtime for what it knows of an object: one value, a text, a list. What can't be had is empty or 0.
#pragma once

#include "backends/opencl/cl.hpp"

#include <string>
#include <vector>

namespace weir::opencl {

/// `get` is one of clGet*Info, `object` what it is asked about.
template <class Value, class Get, class Object>
bool ask(Get get, Object object, cl_uint name, Value *value) noexcept {
  Value answer{};
  if (get(object, name, sizeof answer, &answer, nullptr) != CL_SUCCESS) return false;
  *value = answer;
  return true;
}

template <class Get, class Object>
std::string ask_text(Get get, Object object, cl_uint name) {
  size_t size = 0;
  if (get(object, name, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (get(object, name, size, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(text.find('\0') != std::string::npos ? text.find('\0') : size);
  return text;
}

template <class Item, class Get, class Object>
std::vector<Item> ask_list(Get get, Object object, cl_uint name) {
  size_t size = 0;
  if (get(object, name, 0, nullptr, &size) != CL_SUCCESS) return {};
  std::vector<Item> items(size / sizeof(Item));
  if (items.empty() ||
      get(object, name, items.size() * sizeof(Item), items.data(), nullptr) != CL_SUCCESS)
    return {};
  return items;
}

}  // namespace weir::opencl
