// SPDX-License-Identifier: Apache-2.0
//
// `weir devices`: every backend, found or the reason why not, and its devices; and those of Weir's that are not installed, with the
// package that has each. It only asks; it creates no pool.
#include "backend_packages.hpp"
#include "commands.hpp"
#include "error.hpp"
#include "handles.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr struct {
  uint64_t bit;
  const char *name;
} capability_names[] = {
    {WEIR_CAP_VMM, "vmm"},
    {WEIR_CAP_MULTI_MAP, "multi_map"},
    {WEIR_CAP_MAP_MAY_BLOCK_DEVICE, "map_may_block_device"},
    {WEIR_CAP_STREAM_ANY_THREAD, "stream_any_thread"},
    {WEIR_CAP_PEER, "peer"},
    {WEIR_CAP_EXPORT_FD, "export_fd"},
    {WEIR_CAP_BATCH_COPY, "batch_copy"},
    {WEIR_CAP_KERNELS, "kernels"},
    {WEIR_CAP_HOST_CALL, "host_call"},
    {WEIR_CAP_HOST_ACCESS, "host_access"},
    {WEIR_CAP_MAP_ANY_THREAD, "map_any_thread"},
    {WEIR_CAP_HOST_REGISTER, "host_register"},
    {WEIR_CAP_EXPORT_FABRIC, "export_fabric"},
    {WEIR_CAP_MAP_PART, "map_part"},
    {WEIR_CAP_INTEGRATED, "integrated"},
    {WEIR_CAP_SHARED_RANGE, "shared_range"},
    {WEIR_CAP_MAP_RUN, "map_run"},
    {WEIR_CAP_ACCESS_LATER, "access_later"},
    {WEIR_CAP_TRANSFER_STREAM, "transfer_stream"},
    {WEIR_CAP_NATIVE_MEMORY, "native_memory"},
};

Json capabilities_json(uint64_t bits) {
  Json list = Json::array();
  for (const auto &capability : capability_names)
    if ((bits & capability.bit) != 0) list.push_back(capability.name);
  return list;
}

std::string uuid_text(const uint8_t (&uuid)[16]) {
  std::string text;
  char byte[3];
  for (size_t i = 0; i < sizeof uuid; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::snprintf(byte, sizeof byte, "%02x", uuid[i]);
    text += byte;
  }
  return text;
}

Json link_json(weir_context context, weir_device from, weir_device to) {
  weir_link_info link = WEIR_LINK_INFO_INIT;
  if (weir_link_info_get(context, from, to, &link) != WEIR_SUCCESS) return nullptr;
  return {{"kind", weir_link_kind_string(link.kind)},
          {"bandwidth", link.bandwidth},
          {"source", weir_link_figure_string(link.source)},
          {"latency_ns", link.latency_ns},
          {"hops", link.hops},
          {"direct", link.direct != 0},
          {"shared_with", link.shared_with}};
}

/// To the other devices of its backend; between backends there is only the host.
Json peers_json(weir_context context, const weir_backend_info &backend, weir_device device) {
  Json list = Json::array();
  for (uint32_t i = 0; i < backend.device_count; ++i) {
    const weir_device other = backend.first_device + i;
    Json link = other != device ? link_json(context, device, other) : Json(nullptr);
    if (link.is_null()) continue;
    link["device"] = other;
    list.push_back(std::move(link));
  }
  return list;
}

Json device_json(weir_context context, const weir_backend_info &backend, weir_device device) {
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  require(weir_device_info_get(context, device, &info),
          "cannot ask about device " + std::to_string(device));
  Json json;
  json["index"] = device;
  json["wish"] = std::string(backend.name) + ":" + std::to_string(device - backend.first_device);
  json["name"] = info.name;
  json["memory_total"] = info.memory_total;
  json["memory_free"] = info.memory_free;
  json["granule"] = info.granule;
  json["numa_node"] = info.numa_node == UINT32_MAX ? Json(nullptr) : Json(info.numa_node);
  json["pci_address"] = info.pci_address;
  json["parent"] = info.parent;
  json["partition"] = info.partition;
  json["partition_count"] = info.partition_count;
  json["uuid"] = uuid_text(info.uuid);
  json["capabilities"] = capabilities_json(info.capabilities);
  json["host_link"] = link_json(context, device, WEIR_DEVICE_HOST);
  json["peer_links"] = peers_json(context, backend, device);
  return json;
}

Json backends_json(weir_context context) {
  uint32_t count = 0;
  require(weir_backend_count(context, &count), "cannot list the backends");
  Json backends = Json::array();
  for (uint32_t i = 0; i < count; ++i) {
    weir_backend_info info = WEIR_BACKEND_INFO_INIT;
    require(weir_backend_info_get(context, i, &info),
            "cannot ask about backend " + std::to_string(i));
    Json json;
    json["name"] = info.name;
    json["available"] = info.available != 0;
    json["version"] = info.version;
    json["reason"] = info.reason;
    json["path"] = info.path;
    json["devices"] = Json::array();
    for (uint32_t k = 0; info.available != 0 && k < info.device_count; ++k)
      json["devices"].push_back(device_json(context, info, info.first_device + k));
    backends.push_back(std::move(json));
  }
  return backends;
}

/// "nvlink, 419 GiB/s one way, 2 hops".
std::string link_text(const Json &link) {
  const uint64_t bandwidth = link["bandwidth"];
  std::string text = link["kind"].get<std::string>() + ", ";
  text += bandwidth == 0 ? "speed unknown" : format_bytes(bandwidth) + "/s one way";
  if (link["hops"] > 1) text += ", " + std::to_string(link["hops"].get<unsigned>()) + " hops";
  if (link["shared_with"] > 1)
    text += ", shared by " + std::to_string(link["shared_with"].get<unsigned>()) + " partitions";
  return link["direct"].get<bool>() ? text : text + ", through the host";
}

void print_device(const Json &device) {
  std::string joined;
  for (const auto &name : device["capabilities"]) {
    if (!joined.empty()) joined += ' ';
    joined += name.get<std::string>();
  }
  std::printf("  device %u, %s: %s%s%s\n", device["index"].get<unsigned>(),
              device["wish"].get<std::string>().c_str(), device["name"].get<std::string>().c_str(),
              device["pci_address"] == "" ? "" : " at ",
              device["pci_address"].get<std::string>().c_str());
  if (device["partition_count"] > 1)
    std::printf("    partition    %u of %u of the card of device %u\n",
                device["partition"].get<unsigned>(), device["partition_count"].get<unsigned>(),
                device["parent"].get<unsigned>());
  std::printf("    memory       %s, %s free; granule %s\n",
              format_bytes(device["memory_total"]).c_str(),
              format_bytes(device["memory_free"]).c_str(),
              device["granule"] == 0 ? "none" : format_bytes(device["granule"]).c_str());
  std::printf("    capabilities %s\n", joined.empty() ? "none" : joined.c_str());
  const Json &host = device["host_link"];
  if (!host.is_null()) std::printf("    host link    %s\n", link_text(host).c_str());
  for (const Json &link : device["peer_links"])
    std::printf("    to device %-2u %s\n", link["device"].get<unsigned>(), link_text(link).c_str());
}

void print_backend(const Json &backend) {
  const std::string version = backend["version"];
  std::printf("%s (%s)%s%s: ", backend["name"].get<std::string>().c_str(),
              backend["path"].get<std::string>().c_str(), version.empty() ? "" : ", version ",
              version.c_str());
  if (!backend["available"].get<bool>()) {
    std::printf("not available: %s\n", backend["reason"].get<std::string>().c_str());
    return;
  }
  const size_t count = backend["devices"].size();
  std::printf("%zu device%s\n", count, count == 1 ? "" : "s");
  for (const Json &device : backend["devices"]) print_device(device);
}

Json missing_json(const Json &backends) {
  std::vector<std::string> found;
  for (const Json &backend : backends) found.push_back(backend["name"]);
  Json list = Json::array();
  for (const MissingBackend &missing : missing_backends(found, plugin_folder()))
    list.push_back({{"name", missing.name},
                    {"devices", missing.devices},
                    {"library", missing.library},
                    {"package", missing.package}});
  return list;
}

void print_missing(const Json &missing) {
  std::printf(
      "%s: not installed: there is no %s; Debian package %s brings it, for %s\n",
      missing["name"].get<std::string>().c_str(), missing["library"].get<std::string>().c_str(),
      missing["package"].get<std::string>().c_str(), missing["devices"].get<std::string>().c_str());
}

}  // namespace

int run_devices(bool json) {
  const Context context = open_context({});
  const Json backends = backends_json(context.get());
  const Json missing = missing_json(backends);
  if (json) {
    std::printf("%s\n", Json{{"backends", backends}, {"not_installed", missing}}.dump(2).c_str());
  } else {
    for (const Json &backend : backends) print_backend(backend);
    for (const Json &each : missing) print_missing(each);
  }
  if (std::fflush(stdout) != 0) throw ToolError("cannot write to standard output");
  return 0;
}

}  // namespace weir::tool
