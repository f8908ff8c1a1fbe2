/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/opencl.h - what a program that uses OpenCL itself tells the OpenCL backend, and what it can ask of it. Structs and
 * constants only: no header of OpenCL is needed, and its handles are void * here. docs/opencl.md has the rules.
 *
 *     weir_opencl_context mine = WEIR_OPENCL_CONTEXT_INIT(my_cl_context);
 *     weir_native native = {"opencl", &mine};
 *     desc.natives = &native, desc.native_count = 1;          (weir_context_desc)
 *
 * weir_stream_wrap then takes a cl_command_queue of that context, in order; and the addresses that leases give go to
 * clSetKernelArgMemPointerINTEL or clSetKernelArgSVMPointer: weir_native_memory tells which.
 */
#ifndef WEIR_OPENCL_H
#define WEIR_OPENCL_H

#include <weir/types.h>

WEIR_BEGIN_DECLS

/** Kinds of what weir_native.handles points to. */
enum {
  WEIR_OPENCL_CONTEXT = 1 /**< a weir_opencl_context */
};

/** The program's own cl_context, in which the backend then works. Its devices are those of the backend, in their order there, but for
 *  those that have neither kind of memory. It is retained for as long as the Weir context lives. */
typedef struct weir_opencl_context {
  uint32_t struct_size; /**< sizeof(weir_opencl_context) */
  uint32_t kind;        /**< WEIR_OPENCL_CONTEXT */
  void *context;        /**< a cl_context */
} weir_opencl_context;
#define WEIR_OPENCL_CONTEXT_INIT(context) {sizeof(weir_opencl_context), WEIR_OPENCL_CONTEXT, (context)}

/** Kinds of what weir_native_memory tells. */
enum {
  WEIR_OPENCL_MEMORY = 1 /**< a weir_opencl_memory */
};

/** What an address is. */
enum {
  WEIR_OPENCL_USM = 1, /**< device memory of cl_intel_unified_shared_memory: for clSetKernelArgMemPointerINTEL */
  WEIR_OPENCL_SVM = 2  /**< coarse-grained shared virtual memory: for clSetKernelArgSVMPointer */
};

/** The allocation that an address lies in. */
typedef struct weir_opencl_memory {
  uint32_t struct_size; /**< sizeof(weir_opencl_memory) */
  uint32_t type;        /**< WEIR_OPENCL_USM or WEIR_OPENCL_SVM */
  void *context;        /**< the cl_context that it is of */
  void *base;           /**< as the runtime gave it, for clSetKernelExecInfo where a kernel finds addresses in memory */
  uint64_t offset;      /**< from `base` to the address that was asked about */
  uint64_t bytes;       /**< of the allocation */
} weir_opencl_memory;
#define WEIR_OPENCL_MEMORY_INIT {sizeof(weir_opencl_memory), 0, NULL, NULL, 0, 0}

WEIR_END_DECLS
#endif /* WEIR_OPENCL_H */
