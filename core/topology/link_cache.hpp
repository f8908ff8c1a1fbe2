// SPDX-License-Identifier: Apache-2.0
//
// Measured figures in files: one for each backend's devices on one machine, named by a hash of both, in the user's cache
// folder. What is read is never trusted: a file that another user may have written, that is too large, or that is not in
// every field what is written here, gives no figures at all. Writing replaces a file as a whole or leaves it as it was.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/memory.hpp"
#include "core/topology/machine.hpp"

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace weir::topology {

/// The identity of the machine whose links a file has, as 32 hexadecimal digits: made of these words, and of all that tells the devices from others.
std::pmr::string cache_identity(std::initializer_list<std::string_view> words,
                                std::span<const Owned<backend::Device>> devices,
                                std::pmr::memory_resource *memory);

/// /etc/machine-id, where there is none the host's name; "" if the system tells neither.
std::pmr::string machine_id(std::pmr::memory_resource *memory);

/// $WEIR_CACHE_DIR, $XDG_CACHE_HOME/weir or $HOME/.cache/weir; "" where none is set, and under secure execution.
std::pmr::string cache_folder(std::pmr::memory_resource *memory);

std::pmr::string cache_file(std::string_view folder, std::string_view identity,
                            std::pmr::memory_resource *memory);

inline constexpr uint64_t largest_cache_file = uint64_t{8} << 20U;

enum class CacheRead : uint8_t { absent, found, ignored };

/// Adds the file's figures to *figures; numbers of devices are those within the backend, below `devices`. `ignored`: it is
/// there and is not used; *reason says why, with its path.
CacheRead read_cache(const std::pmr::string &path, std::string_view identity, uint32_t devices,
                     Figures *figures, std::pmr::string *reason);

/// Makes the folder, for its owner alone, if it is not there. IO names the path and what is wrong; no other file is left.
Status write_cache(const std::pmr::string &folder, std::string_view identity,
                   std::string_view backend, uint32_t devices, const Figures &figures);

}  // namespace weir::topology
