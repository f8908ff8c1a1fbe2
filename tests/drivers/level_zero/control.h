/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test says to the simulated Level Zero driver beyond tests/drivers/sim/control.h.
 *
 * The environment variable WEIR_SIM_ZE is read whenever a machine is made; a bad one ends the process with a sentence.
 * "key=value" joined by ';':
 *
 *   max_alloc=0        maxMemAllocSize of every device; 0: all of its memory
 *   large_page=2M      pages of objects of 2 MiB and more, where they are larger than the machine's granule
 *   multi_map=0        1: a physical memory object may be mapped at several addresses
 *   import=1           0: there are no zexDriver...Pointer functions
 *   hold_us=2000       how long a command that nothing orders is held back, so that a later one overtakes it; 0: never
 *   barrier_us=0       how long a barrier takes, as on a device whose engines another process keeps busy
 *   tiles=1            devices that are tiles of one card, at one PCI address
 *   stale_imports=1    a card goes on reaching what it reached first at another card's mapped address, until the reservation
 *                      is freed, as with Intel's driver; 0: it reaches what is mapped there
 *   units=time         bandwidths between devices in bytes a nanosecond; clock: in bytes a clock
 *
 * After weir_sim_lose_device, functions about the device answer DEVICE_LOST, and so do waits for what its lists were to
 * signal. Functions that end something go on working, also with work pending, so that a program can tidy up.
 *
 * The API's version is the machine's option `version`: 0 or 1004 is 1.4; lists in order are known from 1007 on.
 */
#ifndef WEIR_TESTS_DRIVERS_LEVEL_ZERO_CONTROL_H
#define WEIR_TESTS_DRIVERS_LEVEL_ZERO_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Copies from or to host memory that the driver does not know, since the machine was made. They are legal, and slow on real
 *  devices; a backend that has registered what it copies makes none. */
uint64_t weir_sim_level_zero_unregistered(void);
/** Lists with commands that have not ended. Other than a look at an event, asking hurries none of them. */
uint64_t weir_sim_level_zero_busy_lists(void);
/** Lists that exist on a queue group that copies only. */
uint64_t weir_sim_level_zero_copy_lists(void);

#ifdef __cplusplus
}
#endif
#endif
