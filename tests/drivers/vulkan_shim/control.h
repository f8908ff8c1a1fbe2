/* SPDX-License-Identifier: Apache-2.0
 *
 * control.h - the controls of the Vulkan shim, libweir_vulkan_shim.so: a library in the loader's place, whose
 * vkGetInstanceProcAddr gives out functions that forward to the loader, unless they were told to fail, to block or to answer as on a
 * lost device. The functions are made from the backend's own lists (backends/vulkan/api.hpp); others go through untouched.
 *
 * The loader is libvulkan.so.1, or what WEIR_VULKAN_SHIM_LOADER names. WEIR_VULKAN_SHIM is read as by weir_shim_pretend()
 * when the library is loaded. Sizes are bytes, with K, M or G behind them.
 *
 * What it can pretend, "key=value;...":
 *
 *   loader=1.1     what the loader knows           version=1.1    what every device knows
 *   devices=N      so many devices, which are the machine's in turn
 *   gpu=N          the N-th device (0 is the first) is a discrete GPU, the others are CPUs
 *   integrated=1   every device is an integrated GPU
 *   timeline=0     no timelineSemaphore            address=0      no bufferDeviceAddress
 *   without=NAME   no such device extension        missing=NAME   no such function
 *   local=0        no heap is the device's own     heap=SIZE      each heap has this size
 *   coherent=0     no memory is host-coherent      budget=SIZE    VK_EXT_memory_budget tells so many free bytes
 *   compute=0      no queue family computes        queues=N       the first family has N queues
 *   transfer=N     one more family with N queues, for copies alone
 *   allocation=SIZE   maxMemoryAllocationSize, which is kept to
 *   allocations=N     maxMemoryAllocationCount, which is kept to
 *   identity=1     every device has a UUID (its bytes are its number + 1) and a PCI address (00ab:1N:02.3, N its number)
 *   sparse=1       devices bind sparse buffers, with aliasing (aliased=0: without); space=SIZE of addresses; 1 TiB
 *   grain=SIZE     what is bound is a multiple of this; 64K
 *   exports=1      with sparse=1: memory that leaves the process, or came into it, can be bound, whatever the driver is
 *   fail=CALL:N:CODE  weir_shim_fail of these
 *
 * WEIR_SIM_STUCK=STEP:CALL:N:SECONDS makes calls that never return (tests/drivers/sim/stuck.hpp).
 *
 * Sparse buffers of the shim are ranges of addresses which the driver imports as host memory, and a bind maps a file into
 * them: this needs a driver that computes on the CPU and imports host memory. With exports=1 memory for export is the driver's own, as are
 * its descriptors, what it says of one that comes in, and the bytes; the shim maps the driver's descriptor into the sparse buffer, which Mesa's
 * driver for the CPU (25.0.7) does with another descriptor.
 */
#ifndef WEIR_TESTS_DRIVERS_VULKAN_SHIM_CONTROL_H
#define WEIR_TESTS_DRIVERS_VULKAN_SHIM_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Takes everything back that was told, and counts anew. Nothing may be blocked, nor alive. */
void weir_shim_reset(void);
/** 0, or -1 for a key or a value that is not known; "" takes pretences back. */
int weir_shim_pretend(const char *options);

/** The n-th call (1 = the next) of `call` (NULL: of any that has a VkResult) answers `code` and does nothing. 0 takes it back. */
void weir_shim_fail(const char *call, uint64_t nth, int32_t code);
/** Every call of `call` from now on answers `code`; 0 takes it back. */
void weir_shim_deny(const char *call, int32_t code);
/** Calls of `call` (NULL: of all that have a VkResult) since the last reset. */
uint64_t weir_shim_calls(const char *call);
/** The name of the last call that failed because it was told to; "" if none was. */
const char *weir_shim_failed(void);

/** Calls that the specification lets answer VK_ERROR_DEVICE_LOST, or every call about a device that has a VkResult. */
#define WEIR_SHIM_LOST_BY_THE_BOOK 1
#define WEIR_SHIM_LOST_EVERYWHERE 2
/** From the n-th call (1 = the next) of those with a VkResult on, devices are lost for good; kind 0 takes it back. */
void weir_shim_lose(int kind, uint64_t nth);
/** Whether that call has come. */
int weir_shim_lost(void);
/** From now on no timeline gets any further, as far as one can see, until weir_shim_resume or a loss. */
void weir_shim_stall(void);
/** The next call of `call` blocks until weir_shim_resume, and then does what it would have done; others meanwhile go on. */
void weir_shim_block(const char *call);
/** Waits until it has come. */
void weir_shim_wait_blocked(void);
void weir_shim_resume(void);

/** Instances, devices, buffers, memory, semaphores and pools that were made and not ended. *text, if not NULL, says which. */
uint64_t weir_shim_alive(const char **text);
/** What was done that Vulkan forbids: two threads in one queue, ends of what does not live, a device's before its objects'. */
uint64_t weir_shim_misuse(const char **text);

#ifdef __cplusplus
}
#endif
#endif
