// SPDX-License-Identifier: Apache-2.0
//
// The vendors' backends that this version of Weir has, and which package brings each: what `weir devices` says of those that are not
// installed. A backend that is installed and has no runtime is none of them: it tells its own reason.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::tool {

/// A plugin that is not where the library looks for it.
struct MissingBackend {
  std::string name;     ///< "level_zero"
  std::string devices;  ///< whose: "Level Zero (Intel)"
  std::string library;  ///< the file that is not there, with its folder
  std::string package;  ///< of Debian, as cmake/WeirPackages.cmake makes it
};

/// All but those that were `found`. `folder` is where the library looks; "" if that is not known.
std::vector<MissingBackend> missing_backends(const std::vector<std::string> &found,
                                             std::string_view folder);

/// "weir/1" beside libweir, or beside the program that libweir is linked into. "" if the system does not tell.
std::string plugin_folder();

}  // namespace weir::tool
