/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test says to a simulated driver. Each driver library (CUDA, Level Zero) exports these functions beside its
 * vendor's own; a test finds them with dlsym in the library that it names by path, the backend sees only the vendor's.
 * The HIP look-alike has none: what it stands on has.
 *
 * The simulated machine is one per process. It is made at the driver's first call from the environment variable
 * WEIR_SIM, or by weir_sim_configure. Options are "key=value" joined by ';', sizes with K, M or G:
 *
 *   devices=1           how many
 *   memory=256M         bytes a device
 *   granule=2M          what physical memory is handed out in; 4K upwards
 *   mode=alias          alias: a device address is CPU memory too, so that code on the CPU can stand for kernels
 *                       strict: touching a device address on the CPU faults, always
 *   version=0           the runtime's version as its API reports it (CUDA: 12040; Level Zero: 1004 for 1.4; 0 = the newest known)
 *   vmm=1 peer=1 batch_copy=1 export_fd=1 export_fabric=0 integrated=0
 *   memfd=1             CUDA: 0: memory of a memfd can't be registered, though the device says that it registers memory
 *   rdma=1 compute=9    CUDA: memory can be made for RDMA; major number of the compute capability
 *   vmm_context=0       CUDA, 1: virtual-memory calls fail on a thread without a current context
 *   reserve_alignment=0 CUDA: larger alignments of reservations are not kept to; 0 = all are
 *   host_call=1         0: the driver has no host functions in streams
 *   serial_host_calls=1 CUDA: host functions of all streams of a device run one after another, as on a real one; 0: each
 *                       stream runs its own
 *   links=pcie          none, pcie, nvlink (every pair), ring (NVLink to both neighbours, else PCIe)
 *   link_bandwidth=0 peer_bandwidth=0 link_latency_ns=0    as in the host backend: 0 is as fast as memcpy
 *   call_latency_ns=0   every call of the driver takes as long
 *   map_latency_ns=0    CUDA: cuMemSetAccess takes as long beside that, and cuMemUnmap half of it, whatever they span
 *   channel_depth=0     CUDA: a call that enqueues onto a stream with more entries than this pending, or records an event there,
 *                       blocks until one has passed, as when a device's channel is full; 0 = never
 *   hang=CALL           the named call never returns, until weir_sim_resume
 *
 * And a process that cannot even be killed: WEIR_SIM_STUCK, stuck.hpp.
 */
#ifndef WEIR_TESTS_DRIVERS_SIM_CONTROL_H
#define WEIR_TESTS_DRIVERS_SIM_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Ends the machine and makes another. NULL reads WEIR_SIM. 0, or -1 with `weir_sim_complaint` saying which key or value
 *  was wrong (the old machine stays then). Nothing of the driver may be in use. */
int weir_sim_configure(const char *options);
/** Why the last weir_sim_configure was refused; "" if it was not. */
const char *weir_sim_complaint(void);

/** The n-th call (1 = the next) of `call` (NULL: of any that can fail) returns `code` and does nothing. n = 0 takes it back. */
void weir_sim_fail(const char *call, uint64_t nth, int64_t code);
/** The next call that fails because it was told to breaks every device with its code: all that needs a context of theirs answers
 *  with it from then on, until the context ends. CUDA only. */
void weir_sim_sticky(void);
/** Calls of `call` (NULL: of all that can fail) since the machine was made. "cuMemcpyBatchAsync, overlapping" are those that ask to
 *  run beside kernels. */
uint64_t weir_sim_calls(const char *call);
/** The name of the index-th call that can fail, among those that were made since the library was loaded; NULL beyond them. */
const char *weir_sim_call_name(uint64_t index);
/** What a strict reader would complain of: calls that were refused as misuse (a bad handle, an overlap, a size that is no
 *  multiple) since the machine was made. *text, if not NULL, is the first of them. */
uint64_t weir_sim_misuse(const char **text);
/** From now on every call about the device, and all its unfinished work, ends with the vendor's code for a lost device. */
void weir_sim_lose_device(uint32_t device);
/** Objects that exist now and that the program made and must end: granules, reservations, mappings, plain and pinned
 *  memory, registrations, streams, events, retained contexts. *text, if not NULL, says what and how many. */
uint64_t weir_sim_alive(const char **text);
/** CUDA alone: how many calls are blocked now because their stream's channel is full. */
uint64_t weir_sim_blocked(void);
/** Lets a call that hangs go on. */
void weir_sim_resume(void);

#ifdef __cplusplus
}
#endif
#endif
