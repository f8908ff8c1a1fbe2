// SPDX-License-Identifier: Apache-2.0
//
// OpenCL's own headers, as this backend wants them: the version is named before they are read, or they warn.
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif
#include <CL/cl.h>
#include <CL/cl_ext.h>
