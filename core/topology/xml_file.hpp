// SPDX-License-Identifier: Apache-2.0
//
// A file that is said to be hwloc's XML, read and looked over before hwloc sees it: hwloc trusts such files, and what it
// does with a broken one is not written anywhere. Whatever is refused is refused with the file's name and a reason.
#pragma once

#include "core/base/status.hpp"

#include <memory_resource>
#include <string>
#include <string_view>

namespace weir::topology {

/// The whole text. INVALID_ARGUMENT, with the path, unless it is a regular file of a reasonable size.
Status read_xml_file(const char *path, std::pmr::string *text);

/// Whether the text is well-formed as far as it matters, has a machine, and matrices with as many values as they say.
/// `origin` is for the message.
Status check_xml(std::string_view text, const char *origin, std::pmr::memory_resource *memory);

}  // namespace weir::topology
