// SPDX-License-Identifier: Apache-2.0
//
// `weir import`: a memory snapshot of PyTorch becomes a trace. The output is opened before the work, so that an unwritable place is known
// at once, and appears when it is whole.
#include "commands.hpp"
#include "error.hpp"
#include "import/import_trace.hpp"
#include "import/pickle.hpp"
#include "report.hpp"
#include "text.hpp"
#include "trace_file.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

/// "dir/snapshot.pickle" becomes "snapshot".
std::string name_of(const std::string &path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  for (const std::string_view ending : {".pickle", ".pkl"})
    if (name.size() > ending.size() && name.ends_with(ending))
      name.resize(name.size() - ending.size());
  return printable(name);
}

std::string figure_row(const std::string &label, const std::string &value) {
  return "  " + label + std::string(label.size() < 24 ? 24 - label.size() : 1, ' ') + value + "\n";
}

std::string text_of(const ImportFlags &flags, const ImportResult &result) {
  std::string text = flags.output + ": " + std::to_string(result.allocations) + " allocations, " +
                     std::to_string(result.before) + " of them from before its history\n";
  text += figure_row("frees", std::to_string(result.frees));
  text += figure_row("devices, streams",
                     std::to_string(result.devices) + ", " + std::to_string(result.streams));
  text += figure_row("peak allocated", format_bytes(result.peak_live_bytes));
  text += figure_row("peak reserved", format_bytes(result.peak_reserved_bytes) + " by PyTorch");
  if (result.left_out != 0)
    text += figure_row("events that do not fit", std::to_string(result.left_out));
  return text;
}

std::string json_of(const ImportFlags &flags, const ImportResult &result) {
  const Json json = {{"trace", flags.output},
                     {"allocations", result.allocations},
                     {"pre_existing", result.before},
                     {"frees", result.frees},
                     {"devices", result.devices},
                     {"streams", result.streams},
                     {"peak_live_bytes", result.peak_live_bytes},
                     {"peak_reserved_bytes", result.peak_reserved_bytes},
                     {"left_out", result.left_out}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int run_import(const ImportFlags &flags) {
  if (flags.output.empty()) throw ToolError("--output: '' names no file");
  OutputFile file(flags.output);
  const Pickle pickle(flags.file);
  const TorchSnapshot snapshot = read_torch_snapshot(pickle);
  const ImportResult result =
      import_trace(snapshot, name_of(flags.file), flags.output.ends_with(".zst"));
  file.commit(result.trace);
  const std::string text = flags.json ? json_of(flags, result) : text_of(flags, result);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw ToolError("cannot write the figures to standard output");
  return 0;
}

}  // namespace weir::tool
