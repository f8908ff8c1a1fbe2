// SPDX-License-Identifier: Apache-2.0
//
// Whether a library's path can be trusted: loading a file runs it, so a place where everybody may put one is
// refused before it is opened. It looks and changes nothing.
#pragma once

#include "core/base/status.hpp"

#include <string>

namespace weir::backend {

/// Resolves `path` (links followed) into *resolved. BACKEND with the reason: there is no such file; the file or its
/// folder can be written by everybody; or a folder above can, and lets others rename what is in it (no sticky bit).
/// Between this look and the loading a path can still change hands, but only by those who may write there.
Status trusted_path(const char *path, std::string *resolved);

}  // namespace weir::backend
