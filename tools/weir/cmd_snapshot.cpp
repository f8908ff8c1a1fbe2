// SPDX-License-Identifier: Apache-2.0
//
// `weir snapshot`: what a pool's snapshot says, as a table; or as a file that pytorch.org/memory_viz opens.
#include "commands.hpp"
#include "core/base/name.hpp"
#include "error.hpp"
#include "import/memory_viz.hpp"
#include "import/pool_snapshot.hpp"
#include "report.hpp"
#include "text.hpp"
#include "trace_file.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

namespace weir::tool {
namespace {

constexpr size_t shown_buffers = 10, shown_frames = 4;

/// As wide as its characters are many.
std::string cell_of(std::string text, size_t width) {
  const auto wide = static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }));
  text.append(wide < width ? width - wide : 1, ' ');
  return text;
}

/// What the file says may be anything.
std::string name_of(const SnapshotBuffer &buffer) {
  if (buffer.allocation) return "memory of weir_malloc";
  if (buffer.name.empty()) return "-";
  std::array<char, 25> text;
  return {text.data(), show_name(buffer.name, text.data(), text.size())};
}

std::string table_row(const std::string &name, const std::vector<std::string> &cells) {
  std::string line = "  " + cell_of(name, 26);
  for (const std::string &cell : cells) line += cell_of(cell, 13);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

/// Where the calls lead that made the buffer: of the frames that have a name those within, at most four.
std::string made_by(const PoolSnapshot &snapshot, const SnapshotBuffer &buffer,
                    const Symbols &symbols) {
  const auto found = snapshot.stacks.find(buffer.stack);
  if (buffer.stack == 0 || found == snapshot.stacks.end()) return {};
  std::string text;
  for (size_t i = 0; i < std::min(shown_frames, found->second.size()); ++i) {
    const SnapshotFrame &of = found->second[i];
    text +=
        (i == 0 ? "    by " : " < ") +
        printable(of.file.path.empty() ? of.line : symbols.frame(of.file, of.offset, of.function));
  }
  return text.empty() ? text : text + "\n";
}

std::string text_of(const PoolSnapshot &snapshot, const Symbols &symbols) {
  std::string text = "pool '" + shown(snapshot.pool) +
                     "': " + std::to_string(snapshot.buffers.size()) + " buffers of " +
                     std::to_string(snapshot.clients.size()) + " clients\n";
  text += table_row("", {"budget", "taken", "free", "held", "peak"});
  for (const SnapshotDevice &device : snapshot.devices)
    text += table_row(
        "device " + std::to_string(device.device),
        {format_bytes(device.budget), format_bytes(device.bytes), format_bytes(device.free_bytes),
         format_bytes(device.held_bytes), format_bytes(device.peak_bytes)});
  for (const char *tier : {"host", "compressed", "storage"}) {
    const std::string name = tier;
    if (snapshot.stat(name + "_budget") == 0) continue;
    text += table_row(name, {format_bytes(snapshot.stat(name + "_budget")),
                             format_bytes(snapshot.stat(name + "_bytes"))});
  }
  std::vector<const SnapshotBuffer *> buffers;
  for (const SnapshotBuffer &buffer : snapshot.buffers) buffers.push_back(&buffer);
  const size_t count = std::min(shown_buffers, buffers.size());
  std::partial_sort(
      buffers.begin(), buffers.begin() + static_cast<std::ptrdiff_t>(count), buffers.end(),
      [](const SnapshotBuffer *a, const SnapshotBuffer *b) { return a->size > b->size; });
  if (count != 0)
    text += table_row("largest buffers", {"size", "device", "neighbours", "host", "below"});
  for (size_t i = 0; i < count; ++i) {
    const SnapshotBuffer &one = *buffers[i];
    text += table_row(name_of(one), {format_bytes(one.size), format_bytes(one.device_bytes),
                                     format_bytes(one.peer_bytes), format_bytes(one.host_bytes),
                                     format_bytes(one.compressed_bytes + one.storage_bytes)});
    text += made_by(snapshot, one, symbols);
  }
  return text;
}

}  // namespace

int run_snapshot(const SnapshotFlags &flags) {
  if (flags.memory_viz != !flags.output.empty())
    throw ToolError(flags.memory_viz ? "--memory-viz needs --output FILE"
                                     : "--output: '" + flags.output + "' needs --memory-viz");
  std::optional<OutputFile> file;
  if (flags.memory_viz) file.emplace(flags.output);
  const PoolSnapshot snapshot = read_pool_snapshot(flags.file);
  const Symbols symbols = symbols_of(snapshot);
  for (const std::string &note : symbols.notes())
    std::fprintf(stderr, "weir: '%s': %s\n", flags.file.c_str(), note.c_str());
  if (file) {
    file->commit(memory_viz(snapshot, symbols));
    return 0;
  }
  const std::string text = text_of(snapshot, symbols);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw ToolError("cannot write the table to standard output");
  return 0;
}

}  // namespace weir::tool
