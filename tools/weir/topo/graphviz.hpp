// SPDX-License-Identifier: Apache-2.0
//
// SVG by Graphviz: its program `dot` is run, so neither the library nor the command is linked with it, and what goes wrong in it
// ends it alone.
#pragma once

#include <string>

namespace weir::tool::topo {

/// The picture of a graph that dot_of() wrote: one document without scripts, light or dark as the viewer prefers, never wider than
/// its window. Throws ToolError if there is no `dot`, naming the package, or with what it says.
std::string svg_by_graphviz(const std::string &dot);

}  // namespace weir::tool::topo
