// SPDX-License-Identifier: Apache-2.0
//
// What the loader asks a driver for: a function for each table of the API, 53 in version 1.4. A table is as large as
// the headers of this build say, so it is given to whoever asks for their version or a newer one (whose tables begin
// the same), and to nobody older, whose tables may end before ours.
#include "tests/drivers/level_zero/tables.hpp"

namespace weir::sim::ze {
namespace {

template <class Table>
ze_result_t give(ze_api_version_t version, Table *out) noexcept {
  if (out == nullptr) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (version < ZE_API_VERSION_CURRENT) return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
  Table table{};
  fill(table);
  *out = table;
  return ZE_RESULT_SUCCESS;
}

}  // namespace
}  // namespace weir::sim::ze

#define WEIR_SIM_TABLE(function, type)                                                             \
  extern "C" ZE_DLLEXPORT ze_result_t ZE_APICALL function(ze_api_version_t version, type *table) { \
    return weir::sim::ze::give(version, table);                                                    \
  }

WEIR_SIM_TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t)
WEIR_SIM_TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t)
WEIR_SIM_TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t)
WEIR_SIM_TABLE(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t)
WEIR_SIM_TABLE(zeGetContextProcAddrTable, ze_context_dditable_t)
WEIR_SIM_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
WEIR_SIM_TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t)
WEIR_SIM_TABLE(zeGetImageProcAddrTable, ze_image_dditable_t)
WEIR_SIM_TABLE(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t)
WEIR_SIM_TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t)
WEIR_SIM_TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t)
WEIR_SIM_TABLE(zeGetEventProcAddrTable, ze_event_dditable_t)
WEIR_SIM_TABLE(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t)
WEIR_SIM_TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t)
WEIR_SIM_TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t)
WEIR_SIM_TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t)
WEIR_SIM_TABLE(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t)
WEIR_SIM_TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
WEIR_SIM_TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
WEIR_SIM_TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t)
WEIR_SIM_TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)
WEIR_SIM_TABLE(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t)
WEIR_SIM_TABLE(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t)
WEIR_SIM_TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t)
WEIR_SIM_TABLE(zetGetContextProcAddrTable, zet_context_dditable_t)
WEIR_SIM_TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
WEIR_SIM_TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t)
WEIR_SIM_TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
WEIR_SIM_TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
WEIR_SIM_TABLE(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t)
WEIR_SIM_TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t)
WEIR_SIM_TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
WEIR_SIM_TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
WEIR_SIM_TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
WEIR_SIM_TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
WEIR_SIM_TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t)
WEIR_SIM_TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t)
WEIR_SIM_TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t)
WEIR_SIM_TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
WEIR_SIM_TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
WEIR_SIM_TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t)
WEIR_SIM_TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
WEIR_SIM_TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t)
WEIR_SIM_TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
WEIR_SIM_TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
WEIR_SIM_TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t)
WEIR_SIM_TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
WEIR_SIM_TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
WEIR_SIM_TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t)
WEIR_SIM_TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t)
WEIR_SIM_TABLE(zesGetLedProcAddrTable, zes_led_dditable_t)
WEIR_SIM_TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t)
WEIR_SIM_TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
