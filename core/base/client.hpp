// SPDX-License-Identifier: Apache-2.0
//
// Client: who bytes are charged to within a pool. Client 0 is the pool's own. Guarded by the pool's lock.
#pragma once

#include "core/base/budget.hpp"

#include <weir/pool.h>

#include <memory_resource>
#include <string>
#include <vector>

namespace weir {

struct Client {
  Client(uint32_t id_, std::pmr::memory_resource *memory) : id(id_), name(memory), device(memory) {}

  uint32_t id;
  int32_t priority = 0;
  uint32_t buffers = 0;
  std::pmr::string name;
  std::pmr::vector<Budget> device;  ///< per device of the pool
  Budget host;
  Budget compressed;
  Budget storage;
};

}  // namespace weir
