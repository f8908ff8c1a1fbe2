// SPDX-License-Identifier: Apache-2.0
//
// A library as profilers give NVTX by NVTX_INJECTION64_PATH, which notes the ranges of domains. It takes what it needs of NVTX's functions,
// as Nsight Systems does: domains, the names of categories, and ranges of threads.

#include "tests/drivers/ranges/range_log.hpp"

#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <cstring>

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

weir::test::RangeLog &range_log() {
  static auto &log = *new weir::test::RangeLog;
  return log;
}

struct Domain {
  std::string name;
  std::map<uint32_t, std::string> categories;
};

nvtxDomainHandle_t create_domain(const char *name) {
  return reinterpret_cast<nvtxDomainHandle_t>(new Domain{name, {}});  // lives as long as NVTX
}

void name_category(nvtxDomainHandle_t domain, uint32_t category, const char *name) {
  reinterpret_cast<Domain *>(domain)->categories[category] = name;
}

int push(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *event) {
  const Domain &domain = *reinterpret_cast<Domain *>(handle);
  weir::test::RangeLog &log = range_log();
  if (event->version != NVTX_VERSION || event->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE)
    log.fault("a range's attributes have another version or size");
  if (event->messageType != NVTX_MESSAGE_TYPE_ASCII) log.fault("a range has no text");
  if (domain.categories.count(event->category) == 0) log.fault("a range's category has no name");
  log.push(domain.name, event->message.ascii, event->category);
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  range_log().pop(reinterpret_cast<Domain *>(domain)->name);
  return 0;
}

template <class Function>
void take(NvtxFunctionTable table, unsigned number, Function *function) {
  static_assert(sizeof(NvtxFunctionPointer) == sizeof function);
  std::memcpy(table[number], &function, sizeof function);
}

}  // namespace

WEIR_EXPORT weir::test::RangeLog *weir_test_range_log() { return &range_log(); }

WEIR_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto *callbacks =
      static_cast<const NvtxExportTableCallbacks *>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  take(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  take(table, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  take(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  take(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

__attribute__((destructor)) static void at_exit() {
  if (const char *const path = std::getenv("WEIR_TEST_NVTX_REPORT")) range_log().report(path);
}
