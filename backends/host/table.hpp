// SPDX-License-Identifier: Apache-2.0
//
// The host backend's entry point for programs that link it in. The plugin library exports the same table
// under WEIR_BACKEND_QUERY_SYMBOL (plugin.cpp).
#pragma once

#include <weir/backend.h>

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major);
