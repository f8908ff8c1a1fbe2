// SPDX-License-Identifier: Apache-2.0
//
// The domain and its categories. They are never destroyed: at the process's end the profiler may have ended before.

#include "core/trace/nvtx_ranges.hpp"

#ifdef WEIR_HAVE_NVTX
// A tool linked into the program: it could not reach a symbol that is hidden in this library.
#define NVTX_SUPPORT_STATIC_INJECTION_LIBRARY 0
#include <nvtx3/nvToolsExt.h>
#endif

namespace weir::trace {

#ifdef WEIR_HAVE_NVTX

namespace {

class NvtxRanges final : public RangeSink {
 public:
  NvtxRanges() noexcept : domain_(nvtxDomainCreateA("weir")) {
    if (domain_ == nullptr) return;
    for (uint8_t kind = 0; kind < static_cast<uint8_t>(RangeKind::count); ++kind)
      nvtxDomainNameCategoryA(domain_, category(static_cast<RangeKind>(kind)),
                              range_kind_name(static_cast<RangeKind>(kind)));
  }

  bool has_listener() const noexcept { return domain_ != nullptr; }

  void push(RangeKind kind, const char *text) noexcept override {
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.category = category(kind);
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = text;
    (void)nvtxDomainRangePushEx(domain_, &event);
  }
  void pop() noexcept override { (void)nvtxDomainRangePop(domain_); }

 private:
  /// 0 is no category.
  static uint32_t category(RangeKind kind) noexcept { return static_cast<uint32_t>(kind) + 1; }

  const nvtxDomainHandle_t domain_;  ///< nullptr: the profiler made none
};

}  // namespace

bool nvtx_is_built_in() noexcept { return true; }

RangeSink *nvtx_ranges() {
  nvtxInitialize(nullptr);  // the profiler's library is loaded here, and not amid an acquire
  static NvtxRanges ranges;
  return ranges.has_listener() ? &ranges : nullptr;
}

#else

bool nvtx_is_built_in() noexcept { return false; }

RangeSink *nvtx_ranges() { return nullptr; }

#endif

}  // namespace weir::trace
