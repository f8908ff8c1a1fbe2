/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands in for libudev and for hwloc's plugins where hwloc's archive is packed into libweir (cmake/WeirPortable.cmake): none
 * is there. hwloc then reads the same facts from /sys and /run/udev, and keeps to the components that are compiled in.
 * No pointer that would come from here is ever made, so the others are never called with one. And copies of libc's
 * variables that hwloc names, set when the library is loaded, before anybody can call hwloc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

FILE *weir_hwloc_stderr;
FILE *weir_hwloc_stdout;
char *weir_hwloc_program_invocation_name;

__attribute__((constructor)) static void copy_variables(void) {
  weir_hwloc_stderr = stderr;
  weir_hwloc_stdout = stdout;
  weir_hwloc_program_invocation_name = program_invocation_name;
}

void *weir_hwloc_dlopen(const char *file, int flags);
void *weir_hwloc_udev_new(void);
void *weir_hwloc_udev_unref(void *udev);
void *weir_hwloc_udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem,
                                                        const char *name);
void *weir_hwloc_udev_device_unref(void *device);
const char *weir_hwloc_udev_device_get_property_value(void *device, const char *key);

void *weir_hwloc_dlopen(const char *file, int flags) {
  (void)file;
  (void)flags;
  return NULL;
}

void *weir_hwloc_udev_new(void) { return NULL; }

void *weir_hwloc_udev_unref(void *udev) {
  (void)udev;
  return NULL;
}

void *weir_hwloc_udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem,
                                                        const char *name) {
  (void)udev;
  (void)subsystem;
  (void)name;
  return NULL;
}

void *weir_hwloc_udev_device_unref(void *device) {
  (void)device;
  return NULL;
}

const char *weir_hwloc_udev_device_get_property_value(void *device, const char *key) {
  (void)device;
  (void)key;
  return NULL;
}
