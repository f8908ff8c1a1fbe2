// SPDX-License-Identifier: Apache-2.0
//
// Buffers are taken out of the document as they are read: there may be a million.
#include "tools/weir/import/pool_snapshot.hpp"

#include "tools/weir/error.hpp"

#include <nlohmann/json.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

namespace weir::tool {
namespace {

using SnapshotJson = nlohmann::json;

constexpr int deepest_document = 8;  // a snapshot has 4
constexpr uint64_t most_document_bytes = uint64_t{4} << 30;
constexpr size_t most_shown_devices = 64;

class SnapshotDocument {
 public:
  explicit SnapshotDocument(std::string name) : name_(std::move(name)) {}

  template <class Input>
  PoolSnapshot read(Input &&input) {
    SnapshotJson document;
    try {
      document = SnapshotJson::parse(
          input, [this](int depth, SnapshotJson::parse_event_t event, SnapshotJson &parsed) {
            return keep(depth, event, parsed);
          });
    } catch (const SnapshotJson::exception &error) {
      refuse(std::string("it is no JSON: ") + error.what());
    }
    if (!document.is_object() || !document.contains("pool") || !document.contains("devices") ||
        !saw_buffers_)
      refuse("it is no snapshot of a pool: 'pool', 'devices' or 'buffers' is missing");
    snapshot_.pool = text(document, "pool");
    fill(document);
    return std::move(snapshot_);
  }

 private:
  [[noreturn]] void refuse(const std::string &reason) const {
    throw ToolError("'" + name_ + "': " + reason);
  }

  /// Whether a part that was parsed stays in the document.
  bool keep(int depth, SnapshotJson::parse_event_t event, SnapshotJson &parsed) {
    if (depth > deepest_document) refuse("it is nested deeper than a snapshot");
    if (event == SnapshotJson::parse_event_t::key && depth == 1) {
      in_buffers_ = parsed == "buffers";
      saw_buffers_ = saw_buffers_ || in_buffers_;
    }
    if (!in_buffers_ || depth != 2 || event != SnapshotJson::parse_event_t::object_end) return true;
    buffer(parsed);
    return false;
  }

  void buffer(const SnapshotJson &of) {
    SnapshotBuffer one;
    one.name = text(of, "name");
    one.allocation = of.is_object() && of.value("allocation", SnapshotJson()) == true;
    one.client = number(of, "client");
    one.stack = number(of, "stack");
    one.size = number(of, "size");
    one.home = number(of, "home");
    one.leases = number(of, "leases");
    one.held = number(of, "held");
    one.device_bytes = number(of, "device_bytes");
    one.peer_bytes = number(of, "peer_bytes");
    one.host_bytes = number(of, "host_bytes");
    one.compressed_bytes = number(of, "compressed_bytes");
    one.storage_bytes = number(of, "storage_bytes");
    snapshot_.buffers.push_back(std::move(one));
  }

  void fill(const SnapshotJson &document) {
    for (const SnapshotJson &of : list(document, "devices")) {
      if (snapshot_.devices.size() == most_shown_devices) refuse("it has more than 64 devices");
      snapshot_.devices.push_back({number(of, "device"), number(of, "budget"), number(of, "bytes"),
                                   number(of, "free_bytes"), number(of, "held_bytes"),
                                   number(of, "peak_bytes")});
    }
    if (document.contains("clients"))
      for (const SnapshotJson &of : list(document, "clients"))
        snapshot_.clients.push_back(text(of, "name"));
    if (const auto found = document.find("stats"); found != document.end() && found->is_object())
      for (const auto &[name, value] : found->items())
        if (value.is_number_unsigned()) snapshot_.stats[name] = value.get<uint64_t>();
    if (const auto found = document.find("modules"); found != document.end() && found->is_array())
      for (const SnapshotJson &of : *found) module(of);
    if (const auto found = document.find("stacks"); found != document.end() && found->is_object())
      for (const auto &[number, lines] : found->items())
        if (lines.is_array()) stack(number, lines);
  }

  void stack(const std::string &number, const SnapshotJson &lines) {
    if (number.empty() || number.size() > 10 ||
        number.find_first_not_of("0123456789") != number.npos)
      refuse("a stack has no number: '" + number.substr(0, 40) + "'");
    std::vector<SnapshotFrame> &frames = snapshot_.stacks[std::stoull(number)];
    for (const SnapshotJson &line : lines)
      if (line.is_string()) frames.push_back(frame(line.get<std::string>()));
  }

  /// Lines name files without their folders: two of one name can't be told apart.
  void module(const SnapshotJson &of) {
    CodeFile file{text(of, "path"), text(of, "build_id")};
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    const auto [found, fresh] = modules_.try_emplace(name, std::move(file));
    if (!fresh) found->second.path.clear();
  }

  /// Of "libm.so.6(cos+0x12) [+0x1a2b]", or without the function.
  SnapshotFrame frame(std::string line) const {
    SnapshotFrame frame;
    const size_t place = line.rfind(" [+0x");
    const size_t open = std::min(line.find('('), place);
    const auto found = modules_.find(line.substr(0, open));
    if (open < place && open + 1 < line.size())
      frame.function = line.substr(open + 1, line.rfind('+', place - 1) - open - 1);
    if (place != line.npos && line.ends_with(']') && found != modules_.end()) {
      const char *const from = line.data() + place + 5;
      if (std::from_chars(from, line.data() + line.size() - 1, frame.offset, 16).ec == std::errc{})
        frame.file = found->second;
    }
    frame.line = std::move(line);
    return frame;
  }

  const SnapshotJson &list(const SnapshotJson &document, const char *key) const {
    const SnapshotJson &found = document.at(key);
    if (!found.is_array()) refuse(std::string("'") + key + "' is no list");
    return found;
  }
  std::string text(const SnapshotJson &of, const char *key) const {
    if (!of.is_object()) refuse("what should have fields has none");
    const auto found = of.find(key);
    if (found == of.end()) return {};
    if (!found->is_string()) refuse(std::string("'") + key + "' is no text");
    return found->get<std::string>();
  }
  uint64_t number(const SnapshotJson &of, const char *key) const {
    if (!of.is_object()) refuse("what should have fields has none");
    const auto found = of.find(key);
    if (found == of.end()) return 0;
    if (!found->is_number_unsigned())
      refuse(std::string("'") + key + "' is no number: " +
             found->dump(-1, ' ', true, SnapshotJson::error_handler_t::replace).substr(0, 40));
    return found->get<uint64_t>();
  }

  std::string name_;
  PoolSnapshot snapshot_;
  std::map<std::string, CodeFile> modules_;  ///< by their names without folders
  bool in_buffers_ = false;
  bool saw_buffers_ = false;
};

}  // namespace

PoolSnapshot read_pool_snapshot(const std::string &path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    throw ToolError("cannot open '" + path + "': " + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw ToolError("cannot read '" + path + "': it is a directory");
  if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) > most_document_bytes)
    throw ToolError("'" + path + "' has more than 4 GiB");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ToolError("cannot open '" + path + "': " + std::strerror(errno));
  return SnapshotDocument(path).read(file);
}

PoolSnapshot parse_pool_snapshot(const std::string &document, const std::string &name) {
  return SnapshotDocument(name).read(document);
}

}  // namespace weir::tool
