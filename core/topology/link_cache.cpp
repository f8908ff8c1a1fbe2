// SPDX-License-Identifier: Apache-2.0
//
// The file is JSON: "weir_links" is the version of its form, "identity" says again whose it is (files get copied and
// renamed), "backend" and "devices" are for people and for a check, "links" has an object for each figure. An end is a
// number, or "host".

#include "core/topology/link_cache.hpp"

#include "core/base/own_file.hpp"
#include "core/topology/text.hpp"

#include <nlohmann/json.hpp>

#include <sys/utsname.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>

namespace weir::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t form = 1;
constexpr uint64_t most_bandwidth = 1'000'000'000'000'000'000;
constexpr uint64_t most_latency = 1'000'000'000'000;

/// Why this file may have been written by another user; "" if it is the user's own, or the system's.
const char *untrusted(const struct stat &info) noexcept {
  if (!S_ISREG(info.st_mode)) return "it is no file";
  if (info.st_uid != geteuid() && info.st_uid != 0) return "it belongs to another user";
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write to it";
  if (static_cast<uint64_t>(info.st_size) > largest_cache_file) return "it is too large";
  return "";
}

std::optional<uint64_t> number(const Json &object, const char *key, uint64_t most) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_unsigned() || at->get<uint64_t>() > most) return {};
  return at->get<uint64_t>();
}

std::optional<uint32_t> link_end(const Json &link, const char *key, uint32_t devices) {
  const auto at = link.find(key);
  if (at != link.end() && *at == "host") return WEIR_DEVICE_HOST;
  const std::optional<uint64_t> device = number(link, key, UINT32_MAX);
  if (!device || *device >= devices) return {};
  return static_cast<uint32_t>(*device);
}

/// False if it is malformed, or there already.
bool add_link(const Json &link, uint32_t devices, Figures *figures) {
  if (!link.is_object()) return false;
  const auto from = link_end(link, "from", devices), to = link_end(link, "to", devices);
  const auto bandwidth = number(link, "bandwidth", most_bandwidth);
  const auto latency = number(link, "latency_ns", most_latency);
  if (!from || !to || *from == *to || bandwidth.value_or(0) == 0 || !latency) return false;
  return figures->try_emplace({*from, *to}, Reading{*bandwidth, *latency}).second;
}

/// "" or what is wrong; then *figures is as it was.
const char *parse(const std::pmr::string &text, std::string_view identity, uint32_t devices,
                  Figures *figures) {
  const Json file = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!file.is_object()) return "it is malformed";
  if (number(file, "weir_links", form) != form) return "it is of another version";
  const auto owner = file.find("identity");
  if (owner == file.end() || *owner != std::string(identity))
    return "it is another machine's, or of other devices";
  if (number(file, "devices", UINT32_MAX) != devices) return "it has another number of devices";
  const auto links = file.find("links");
  if (links == file.end() || !links->is_array()) return "it is malformed";
  Figures found;
  for (const Json &link : *links)
    if (!add_link(link, devices, &found)) return "a link in it is malformed";
  for (const auto &[ends, reading] : found) figures->insert_or_assign(ends, reading);
  return "";
}

std::string written(std::string_view identity, std::string_view backend, uint32_t devices,
                    const Figures &figures) {
  const auto end = [](uint32_t device) {
    return device == WEIR_DEVICE_HOST ? Json("host") : Json(device);
  };
  Json links = Json::array();
  for (const auto &[ends, reading] : figures)
    links.push_back({{"from", end(ends.first)},
                     {"to", end(ends.second)},
                     {"bandwidth", reading.bandwidth},
                     {"latency_ns", reading.latency_ns}});
  const Json file{{"weir_links", form},
                  {"identity", std::string(identity)},
                  {"backend", std::string(backend)},
                  {"devices", devices},
                  {"links", std::move(links)}};
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status cannot(const char *what, const std::pmr::string &path, int error) {
  return fail(WEIR_ERROR_IO, {.native = error}, "measured links are not saved: cannot %s %s: %s",
              what, path.c_str(), std::strerror(error));
}

/// The folder and those above it that are missing.
Status make_folders(const std::pmr::string &folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) == 0)
    return S_ISDIR(info.st_mode) ? Status{} : cannot("use the folder", folder, ENOTDIR);
  const size_t slash = folder.find_last_of('/');
  if (slash != std::pmr::string::npos && slash != 0)
    WEIR_TRY(make_folders(std::pmr::string(folder, 0, slash, folder.get_allocator())));
  // Another process may have made it meanwhile.
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return cannot("make the folder", folder, errno);
}

}  // namespace

std::pmr::string cache_identity(std::initializer_list<std::string_view> words,
                                std::span<const Owned<backend::Device>> devices,
                                std::pmr::memory_resource *memory) {
  std::pmr::string fields(memory);
  // With its length, so that no two lists of fields are the same bytes.
  const auto add = [&fields](std::string_view value) {
    const uint64_t length = value.size();
    fields.append(reinterpret_cast<const char *>(&length), sizeof length).append(value);
  };
  for (const std::string_view each : words) add(each);
  for (const auto &device : devices) {
    const weir_be_device &about = device->description;
    add({about.name, strnlen(about.name, sizeof about.name)});
    add({about.pci_address, strnlen(about.pci_address, sizeof about.pci_address)});
    add({reinterpret_cast<const char *>(about.uuid), sizeof about.uuid});
  }
  const XXH128_hash_t hash = XXH3_128bits(fields.data(), fields.size());
  return std::pmr::string(printed("%016llx%016llx", llu(hash.high64), llu(hash.low64)), memory);
}

std::pmr::string machine_id(std::pmr::memory_resource *memory) {
  std::pmr::string id(memory);
  for (const char *path : {"/etc/machine-id", "/var/lib/dbus/machine-id"}) {
    id.clear();
    if (TextFile(path).read(256, &id) != 0) continue;
    id.resize(id.find_last_not_of('\n') + 1);
    if (!id.empty()) return id;
  }
  utsname system{};
  id = uname(&system) == 0 ? system.nodename : "";
  return id;
}

std::pmr::string cache_folder(std::pmr::memory_resource *memory) {
  const auto get = [](const char *name) {
    const char *value = secure_getenv(name);
    return std::string_view(value != nullptr ? value : "");
  };
  std::pmr::string folder(get("WEIR_CACHE_DIR"), memory);
  if (!folder.empty()) return folder;
  // A base folder that is not absolute is to be ignored, by the XDG specification.
  for (const auto &[name, below] :
       {std::pair{"XDG_CACHE_HOME", "/weir"}, std::pair{"HOME", "/.cache/weir"}}) {
    folder = get(name);
    if (folder.starts_with('/')) return folder += below;
  }
  folder.clear();
  return folder;
}

std::pmr::string cache_file(std::string_view folder, std::string_view identity,
                            std::pmr::memory_resource *memory) {
  std::pmr::string path(folder, memory);
  return path.append("/links-").append(identity).append(".json");
}

CacheRead read_cache(const std::pmr::string &path, std::string_view identity, uint32_t devices,
                     Figures *figures, std::pmr::string *reason) {
  const auto ignored = [&](const char *why) {
    *reason = "measured links in ";
    reason->append(path).append(" are not used: ").append(why);
    return CacheRead::ignored;
  };
  // Neither a link to elsewhere nor a pipe without a writer is followed or waited for.
  const TextFile file(path.c_str(), O_NOFOLLOW);
  struct stat info {};
  const int error = file.about(&info);
  if (error == ENOENT || error == ENOTDIR) return CacheRead::absent;
  if (error != 0) return ignored(std::strerror(error));
  if (const char *why = untrusted(info); *why != '\0') return ignored(why);
  std::pmr::string text(path.get_allocator());
  if (file.read(largest_cache_file, &text) != 0) return ignored("it cannot be read");
  if (const char *why = parse(text, identity, devices, figures); *why != '\0') return ignored(why);
  return CacheRead::found;
}

Status write_cache(const std::pmr::string &folder, std::string_view identity,
                   std::string_view backend, uint32_t devices, const Figures &figures) {
  const std::string text = written(identity, backend, devices, figures);
  const auto memory = folder.get_allocator().resource();
  const std::pmr::string path = cache_file(folder, identity, memory);
  if (text.size() > largest_cache_file) return cannot("write", path, EFBIG);
  WEIR_TRY(make_folders(folder));
  std::pmr::string draft(folder, memory);
  draft += "/.links-XXXXXX";
  const int file = mkostemp(draft.data(), O_CLOEXEC);  // mode 0600
  if (file < 0) return cannot("write into", folder, errno);
  int error = write_all(file, text.data(), text.size(), 0);
  close(file);
  if (error == 0 && rename(draft.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  (void)unlink(draft.c_str());
  return cannot("write", path, error);
}

}  // namespace weir::topology
