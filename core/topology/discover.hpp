// SPDX-License-Identifier: Apache-2.0
//
// Discovery: a Machine from hwloc, of the system this runs on or of an XML file. It never starts a GPU's runtime, and
// changes neither the environment nor any thread's binding. hwloc's memory is malloc's and gone when it returns; the
// machine's is its own.
#pragma once

#include "core/base/status.hpp"
#include "core/topology/machine.hpp"

namespace weir::topology {

/// Reads the system's topology. BACKEND if hwloc can't tell; *machine is then not to be used.
Status discover_system(Machine *machine);

/// Reads a file's topology. INVALID_ARGUMENT with the path and what is wrong; *machine is then not to be used.
Status discover_file(const char *path, Machine *machine);

/// The same from text; `origin` stands for the path.
Status discover_text(std::string_view xml, const char *origin, Machine *machine);

}  // namespace weir::topology
