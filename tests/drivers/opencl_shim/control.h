/* SPDX-License-Identifier: Apache-2.0
 *
 * control.h - the controls of the OpenCL shim, libweir_opencl_shim.so: a library with the loader's functions that the
 * backend calls, each of which forwards to the loader unless it was told to fail, to block or to answer as on a lost
 * device. The functions are made from the backend's own list (backends/opencl/functions.def).
 *
 * The loader is libOpenCL.so.1, or what WEIR_OPENCL_SHIM_LOADER names. WEIR_OPENCL_SHIM is read as by
 * weir_shim_pretend() when the library is loaded. Where a platform has no cl_intel_unified_shared_memory, the shim has it
 * over shared virtual memory if it is told to (usm=1).
 *
 * What it can pretend, "key=value;...":
 *
 *   platforms=0    the loader finds no platform
 *   usm=0          devices have no cl_intel_unified_shared_memory; usm=1: they have it; usm=-: as they say (default)
 *   host_usm=0     nor its memory of the host
 *   svm=0          devices have no shared virtual memory
 *   functions=0    the platform gives out no function of an extension
 *   version=1.2    of every device
 *   gpu=N          the N-th device (0 is the first) is a GPU, the others are CPUs
 *   unified=0      no device's memory is the host's
 *   identity=1     every device has a UUID (its bytes are its number + 1) and a PCI address (00ab:1N:02.3, N its number)
 *   fail=CALL:N:CODE  weir_shim_fail of these
 */
#ifndef WEIR_TESTS_DRIVERS_OPENCL_SHIM_CONTROL_H
#define WEIR_TESTS_DRIVERS_OPENCL_SHIM_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Takes everything back that was told, and counts anew. Nothing may be blocked. */
void weir_shim_reset(void);
/** 0, or -1 for a key or a value that is not known; "" takes pretences back. */
int weir_shim_pretend(const char *options);

/** The n-th call (1 = the next) of `call` (NULL: of any that can fail) answers `code` and does nothing. 0 takes it back. */
void weir_shim_fail(const char *call, uint64_t nth, int32_t code);
/** Calls of `call` (NULL: of all that can fail) since the last reset. */
uint64_t weir_shim_calls(const char *call);
/** The name of the last call that failed because it was told to; "" if none was. */
const char *weir_shim_failed(void);
/** From now on every call about devices answers `code`, but for those that end objects. */
void weir_shim_lose(int32_t code);
/** From now on every command that has not ended by now has ended with `status`, which is below 0; calls answer as before. */
void weir_shim_break(int32_t status);
/** From now on no command ends, as far as one can see. */
void weir_shim_stall(void);
/** Calls of `call` block until weir_shim_resume. */
void weir_shim_block(const char *call);
uint64_t weir_shim_blocked(void);
void weir_shim_resume(void);
/** Contexts, queues, events and memory that were made or kept and not ended. *text, if not NULL, says which. */
uint64_t weir_shim_alive(const char **text);

#ifdef __cplusplus
}
#endif
#endif
