// SPDX-License-Identifier: Apache-2.0
//
// Holds backends/hip/abi.hpp against the real headers of ROCm 6 or 7. All of it is done by the compiler: what is newer
// than the headers at hand is left out. The runtime of ROCm 5 had other types under the same names, so its headers
// are refused.

#include "backends/hip/abi.hpp"

#define __HIP_PLATFORM_AMD__ 1
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1  // no overloads beside the functions of the interface
#include <hip/hip_runtime_api.h>
#if __has_include(<hsa/hsa_ext_amd.h>)
#include <hsa/hsa_ext_amd.h>
#define WEIR_HAVE_HSA 1
#endif

#include <type_traits>

#if HIP_VERSION < 60000000
#error "these headers are older than ROCm 6"
#endif

// Where the headers lack a function, the name stands for this one, which is as the mirror says.
#if HIP_VERSION < 70100000
extern "C" weir::hip::abi::fn::hipMemcpyBatchAsync hipMemcpyBatchAsync;
#endif

namespace {

namespace abi = weir::hip::abi;

/// Two types are passed alike: both pointers, or integers and enumerations of one size.
template <class Mine, class Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Mine> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Mine> && std::is_pointer_v<Theirs>;
  } else {
    return sizeof(Mine) == sizeof(Theirs) && std::is_integral_v<Mine> &&
           (std::is_integral_v<Theirs> || std::is_enum_v<Theirs>);
  }
}

template <class Mine, class Theirs>
struct SameFunction : std::false_type {};
template <class MyResult, class... Mine, class TheirResult, class... Theirs>
struct SameFunction<MyResult(Mine...), TheirResult(Theirs...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(Mine) != sizeof...(Theirs)) {
      return false;
    } else {
      return alike<MyResult, TheirResult>() && (alike<Mine, Theirs>() && ...);
    }
  }
  static constexpr bool value = compare();
};

#define WEIR_SAME_FUNCTION(name, need) \
  static_assert(SameFunction<abi::fn::name, decltype(name)>::value, #name);
WEIR_HIP_ENTRIES(WEIR_SAME_FUNCTION)
#undef WEIR_SAME_FUNCTION

#define WEIR_SAME(mine, theirs) \
  static_assert(static_cast<uint64_t>(abi::mine) == static_cast<uint64_t>(theirs), #theirs)
WEIR_SAME(success, hipSuccess);
WEIR_SAME(invalid_value, hipErrorInvalidValue);
WEIR_SAME(out_of_memory, hipErrorOutOfMemory);
WEIR_SAME(not_initialized, hipErrorNotInitialized);
WEIR_SAME(deinitialized, hipErrorDeinitialized);
WEIR_SAME(invalid_device_pointer, hipErrorInvalidDevicePointer);
WEIR_SAME(insufficient_driver, hipErrorInsufficientDriver);
WEIR_SAME(no_device, hipErrorNoDevice);
WEIR_SAME(invalid_device, hipErrorInvalidDevice);
WEIR_SAME(invalid_context, hipErrorInvalidContext);
WEIR_SAME(map_failed, hipErrorMapFailed);
WEIR_SAME(unmap_failed, hipErrorUnmapFailed);
WEIR_SAME(already_mapped, hipErrorAlreadyMapped);
WEIR_SAME(not_mapped, hipErrorNotMapped);
WEIR_SAME(ecc_not_correctable, hipErrorECCNotCorrectable);
WEIR_SAME(peer_access_unsupported, hipErrorPeerAccessUnsupported);
WEIR_SAME(operating_system, hipErrorOperatingSystem);
WEIR_SAME(invalid_handle, hipErrorInvalidHandle);
WEIR_SAME(not_found, hipErrorNotFound);
WEIR_SAME(not_ready, hipErrorNotReady);
WEIR_SAME(illegal_address, hipErrorIllegalAddress);
WEIR_SAME(launch_time_out, hipErrorLaunchTimeOut);
WEIR_SAME(peer_access_already_enabled, hipErrorPeerAccessAlreadyEnabled);
WEIR_SAME(peer_access_not_enabled, hipErrorPeerAccessNotEnabled);
WEIR_SAME(context_is_destroyed, hipErrorContextIsDestroyed);
WEIR_SAME(assertion, hipErrorAssert);
WEIR_SAME(host_memory_already_registered, hipErrorHostMemoryAlreadyRegistered);
WEIR_SAME(host_memory_not_registered, hipErrorHostMemoryNotRegistered);
WEIR_SAME(launch_failure, hipErrorLaunchFailure);
WEIR_SAME(not_supported, hipErrorNotSupported);
WEIR_SAME(stream_capture_unsupported, hipErrorStreamCaptureUnsupported);
WEIR_SAME(stream_capture_invalidated, hipErrorStreamCaptureInvalidated);
WEIR_SAME(stream_capture_implicit, hipErrorStreamCaptureImplicit);
WEIR_SAME(captured_event, hipErrorCapturedEvent);
WEIR_SAME(stream_capture_wrong_thread, hipErrorStreamCaptureWrongThread);
WEIR_SAME(unknown, hipErrorUnknown);
WEIR_SAME(runtime_memory, hipErrorRuntimeMemory);
WEIR_SAME(runtime_other, hipErrorRuntimeOther);
WEIR_SAME(stream_non_blocking, hipStreamNonBlocking);
WEIR_SAME(event_disable_timing, hipEventDisableTiming);
WEIR_SAME(event_release_to_system, hipEventReleaseToSystem);
WEIR_SAME(host_malloc_portable, hipHostMallocPortable);
WEIR_SAME(host_malloc_coherent, hipHostMallocCoherent);
WEIR_SAME(host_register_portable, hipHostRegisterPortable);
WEIR_SAME(attribute_integrated, hipDeviceAttributeIntegrated);
WEIR_SAME(attribute_pci_bus, hipDeviceAttributePciBusId);
WEIR_SAME(attribute_pci_device, hipDeviceAttributePciDeviceId);
WEIR_SAME(attribute_pci_domain, hipDeviceAttributePciDomainID);
WEIR_SAME(attribute_virtual_memory, hipDeviceAttributeVirtualMemoryManagementSupported);
WEIR_SAME(attribute_host_register, hipDeviceAttributeHostRegisterSupported);
WEIR_SAME(capture_none, hipStreamCaptureStatusNone);
WEIR_SAME(capture_active, hipStreamCaptureStatusActive);
WEIR_SAME(capture_invalidated, hipStreamCaptureStatusInvalidated);
#ifdef WEIR_HAVE_HSA
WEIR_SAME(link_pcie, HSA_AMD_LINK_INFO_TYPE_PCIE);
WEIR_SAME(link_xgmi, HSA_AMD_LINK_INFO_TYPE_XGMI);
#endif
WEIR_SAME(capture_mode_relaxed, hipStreamCaptureModeRelaxed);
WEIR_SAME(copy_default, hipMemcpyDefault);
WEIR_SAME(granularity_minimum, hipMemAllocationGranularityMinimum);
WEIR_SAME(granularity_recommended, hipMemAllocationGranularityRecommended);
WEIR_SAME(handle_none, hipMemHandleTypeNone);
WEIR_SAME(handle_posix_fd, hipMemHandleTypePosixFileDescriptor);
WEIR_SAME(allocation_pinned, hipMemAllocationTypePinned);
WEIR_SAME(location_device, hipMemLocationTypeDevice);
WEIR_SAME(access_read_write, hipMemAccessFlagsProtReadWrite);
#undef WEIR_SAME

#define WEIR_SAME_LAYOUT(Mine, Theirs)                                                        \
  static_assert(sizeof(abi::Mine) == sizeof(Theirs) && alignof(abi::Mine) == alignof(Theirs), \
                #Theirs)
#define WEIR_SAME_FIELD(Mine, mine, Theirs, theirs)                      \
  static_assert(offsetof(abi::Mine, mine) == offsetof(Theirs, theirs) && \
                    sizeof(abi::Mine::mine) == sizeof(Theirs::theirs),   \
                #Theirs "." #theirs)
WEIR_SAME_LAYOUT(Location, hipMemLocation);
WEIR_SAME_FIELD(Location, type, hipMemLocation, type);
WEIR_SAME_FIELD(Location, id, hipMemLocation, id);
WEIR_SAME_LAYOUT(AccessDescription, hipMemAccessDesc);
WEIR_SAME_FIELD(AccessDescription, location, hipMemAccessDesc, location);
WEIR_SAME_FIELD(AccessDescription, flags, hipMemAccessDesc, flags);
WEIR_SAME_LAYOUT(AllocationProperties, hipMemAllocationProp);
WEIR_SAME_FIELD(AllocationProperties, type, hipMemAllocationProp, type);
WEIR_SAME_FIELD(AllocationProperties, handle_type, hipMemAllocationProp, requestedHandleType);
WEIR_SAME_FIELD(AllocationProperties, location, hipMemAllocationProp, location);
WEIR_SAME_FIELD(AllocationProperties, win32_metadata, hipMemAllocationProp, win32HandleMetaData);
WEIR_SAME_FIELD(AllocationProperties, flags, hipMemAllocationProp, allocFlags);
WEIR_SAME_LAYOUT(Uuid, hipUUID);
#undef WEIR_SAME_LAYOUT
#undef WEIR_SAME_FIELD

}  // namespace
