// SPDX-License-Identifier: Apache-2.0
//
// `weir topo`: the machine as the library sees it, of this system or of a file. It only asks: all words are
// weir_topology_export's, and the graph is made of its JSON.
#include "commands.hpp"
#include "error.hpp"
#include "handles.hpp"
#include "topo/dot.hpp"
#include "topo/graphviz.hpp"

#include <cstdio>
#include <memory>

namespace weir::tool {
namespace {

std::string exported(weir_context context, uint32_t format) {
  size_t needed = 0;
  require(weir_topology_export(context, format, nullptr, 0, &needed),
          "cannot describe the machine");
  std::string text(needed, '\0');
  require(weir_topology_export(context, format, text.data(), text.size(), nullptr),
          "cannot describe the machine");
  text.resize(needed - 1);
  return text;
}

void write_file(const std::string &path, const std::string &text) {
  const std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
      std::fflush(file.get()) != 0)
    throw ToolError("cannot write " + path);
}

/// Of a file nothing is wanted of this machine, so no backend is started unless options ask for one.
Context open(const TopoFlags &flags) {
  if (flags.xml.empty()) return open_context(flags.options);
  if (flags.xml.find(';') != std::string::npos)
    throw ToolError("--xml: a path with ';' in it cannot be given as an option");
  std::string options = "topology.xml=" + flags.xml;
  if (!flags.options.empty()) options += ";" + flags.options;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.options = options.c_str();
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  if (flags.options.empty()) desc.flags |= WEIR_CONTEXT_NO_HOST_BACKEND;
  weir_context context = nullptr;
  require(weir_context_create(&desc, &context), "cannot read the topology");
  return Context(context);
}

}  // namespace

int run_topo(const TopoFlags &flags) {
  const Context context = open(flags);
  const bool drawn = !flags.svg.empty() || !flags.dot.empty();
  if (drawn) {
    const std::string dot =
        topo::dot_of(topo::machine_of(exported(context.get(), WEIR_TOPOLOGY_JSON)));
    if (!flags.dot.empty()) write_file(flags.dot, dot);
    if (!flags.svg.empty()) write_file(flags.svg, topo::svg_by_graphviz(dot));
  }
  if (drawn && !flags.json) return 0;
  const std::string text =
      exported(context.get(), flags.json ? WEIR_TOPOLOGY_JSON : WEIR_TOPOLOGY_TEXT);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0) throw ToolError("cannot write to standard output");
  return 0;
}

}  // namespace weir::tool
