// SPDX-License-Identifier: Apache-2.0
//
// Folders: where measured links are kept, and where pages are spilled to. A folder is judged by a file that is made in it and gone
// again; what Weir would make itself need not be there yet.
#include "checks.hpp"

#include "tools/weir/text.hpp"

#include <cerrno>
#include <cstring>

namespace weir::tool::doctor {
namespace {

/// What makes a folder one in which this user may write.
std::vector<std::string> make_writable(const std::string &path, int error) {
  if (error == ENOENT) return {"mkdir -p " + shell_quoted(path)};
  if (error == EACCES || error == EPERM)
    return {"sudo install -d -o \"$(id -un)\" -m 700 " + shell_quoted(path)};
  return {};
}

std::string parent_of(const std::string &path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? end : path.find_last_of('/', end);
  if (slash == std::string::npos) return path.starts_with('/') ? "/" : ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Finding check_cache_folder(const Machine &machine) {
  const std::string elsewhere = "export WEIR_CACHE_DIR=\"/var/tmp/weir-$(id -u)\"";
  Finding finding{"cache-folder", Level::ok, "", "", {}};
  finding.why = "weir calibrate keeps there what it measures of the links, for later programs";
  const std::string &path = machine.cache_folder;
  if (path.empty()) {
    finding.level = Level::warn;
    finding.found = "none: WEIR_CACHE_DIR, XDG_CACHE_HOME and HOME name no folder";
    finding.change = {elsewhere};
    return finding;
  }
  // It is made when it is needed, with those above it.
  std::string there = path;
  Folder folder = machine.look_at_folder(there);
  while (folder.error == ENOENT && there != "/" && there != ".") {
    there = parent_of(there);
    folder = machine.look_at_folder(there);
  }
  finding.found = "'" + path + "'" + (there == path ? "" : ", which does not exist yet");
  if (folder.error == 0) return finding;
  finding.level = Level::warn;
  finding.found += "; no file can be made in '" + there + "': " + std::strerror(folder.error);
  finding.change = make_writable(path, folder.error);
  finding.change.push_back(elsewhere);
  return finding;
}

Finding check_storage_folder(const Machine &machine, const std::string &path) {
  const std::string disks = "findmnt -t ext4,xfs,btrfs  # folders on disks that suit";
  Finding finding{"storage", Level::ok, "", "", {}};
  finding.why =
      "STORAGE keeps what it spills in one file in each folder, whose room is taken when the pool "
      "is "
      "made, and reads and writes past the page cache";
  const Folder folder = machine.look_at_folder(path);
  if (folder.error != 0) {
    finding.level = Level::bad;
    finding.found = "no file can be made in '" + path + "': " + std::strerror(folder.error);
    finding.change = make_writable(path, folder.error);
    if (finding.change.empty()) finding.change = {disks};
    return finding;
  }
  finding.found = "'" + path + "', " + format_bytes(folder.free_bytes) + " free";
  if (folder.in_memory)
    finding.found += ", in memory (tmpfs): what is spilled there leaves no memory free";
  else if (!folder.direct)
    finding.found += ", without O_DIRECT: what is spilled goes through the page cache";
  else
    return finding;
  finding.level = Level::warn;
  finding.change = {disks};
  return finding;
}

}  // namespace weir::tool::doctor
