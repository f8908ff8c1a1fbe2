// SPDX-License-Identifier: Apache-2.0
//
// Reads the options "topology.key=value" and WEIR_TOPOLOGY_XML.

#include "core/topology/settings.hpp"

#include "core/topology/text.hpp"

#include <algorithm>
#include <cstdlib>

namespace weir::topology {
namespace {

constexpr uint64_t most_throttle = 1'000'000;

Status refuse(std::string_view pair, const char *wanted) {
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "option \"%.*s\": %s", static_cast<int>(pair.size()),
              pair.data(), wanted);
}

Status apply(std::string_view pair, Settings *settings) {
  const size_t equals = pair.find('=');
  if (equals == std::string_view::npos) return refuse(pair, "it has no '='");
  const std::string_view key = pair.substr(0, equals), value = pair.substr(equals + 1);
  const auto set = [&](bool *flag) {
    if (value != "0" && value != "1") return refuse(pair, "0 or 1 is needed");
    *flag = value == "1";
    return Status{};
  };
  if (key == "topology.rehearse") return set(&settings->rehearse);
  if (key == "topology.cache") return set(&settings->cache);
  if (key == "topology.xml") {
    if (value.empty()) return refuse(pair, "the path of a file is needed");
    settings->file = value;
    return {};
  }
  if (key != "topology.throttle")
    return refuse(
        pair, "there are topology.xml, topology.cache, topology.rehearse and topology.throttle");
  settings->throttle = whole_number(value).value_or(UINT64_MAX);
  if (settings->throttle <= most_throttle) return {};
  return refuse(pair, "a whole number from 0 to 1000000 is needed");
}

}  // namespace

Status read_settings(const char *options, Settings *settings) {
  for (std::string_view rest = options; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.starts_with("topology.")) WEIR_TRY(apply(pair, settings));
  }
  const char *file = secure_getenv("WEIR_TOPOLOGY_XML");
  if (settings->file.empty() && file != nullptr) settings->file = file;
  if (settings->throttle != 0 && !settings->rehearse)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "option topology.throttle is for a rehearsed machine (topology.rehearse=1)");
  return {};
}

}  // namespace weir::topology
