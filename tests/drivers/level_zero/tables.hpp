// SPDX-License-Identifier: Apache-2.0
//
// Which functions the driver puts into the loader's tables. A table that is not named here stays empty, and the
// loader answers UNSUPPORTED_FEATURE for its functions. Each function is defined beside the functions it names.
#pragma once

#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_api.h>
#include <level_zero/zet_ddi.h>

namespace weir::sim::ze {

template <class Table>
void fill(Table &) noexcept {}

void fill(ze_global_dditable_t &table) noexcept;
void fill(ze_driver_dditable_t &table) noexcept;
void fill(ze_device_dditable_t &table) noexcept;
void fill(ze_context_dditable_t &table) noexcept;
void fill(ze_mem_dditable_t &table) noexcept;
void fill(ze_virtual_mem_dditable_t &table) noexcept;
void fill(ze_physical_mem_dditable_t &table) noexcept;
void fill(ze_command_list_dditable_t &table) noexcept;
void fill(ze_event_pool_dditable_t &table) noexcept;
void fill(ze_event_dditable_t &table) noexcept;
void fill(zes_device_dditable_t &table) noexcept;
void fill(zes_memory_dditable_t &table) noexcept;
void fill(zes_fabric_port_dditable_t &table) noexcept;

}  // namespace weir::sim::ze
