// SPDX-License-Identifier: Apache-2.0
//
// Finding and starting backends. A backend that can't start is a state with a reason; one that was asked for by
// name and is no backend is an error.

#include "core/pool/context.hpp"

#include "core/base/environment.hpp"
#include "core/base/grow.hpp"
#include "core/pool/pool.hpp"

#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace weir::pool {
namespace {

/// Cuts the first option off a list.
std::string_view next_option(std::string_view *rest) noexcept {
  const std::string_view option = rest->substr(0, rest->find(';'));
  rest->remove_prefix(std::min(rest->size(), option.size() + 1));
  return option;
}

bool is_for(std::string_view option, std::string_view backend) noexcept {
  return option.starts_with(backend) && option.substr(backend.size()).starts_with('.');
}

/// The options of one backend, without its prefix. "host.a=1;cuda.b=2;host.c" -> "a=1;c" for "host".
std::pmr::string options_of(std::string_view options, std::string_view name,
                            std::pmr::memory_resource *memory) {
  std::pmr::string result(memory);
  while (!options.empty()) {
    const std::string_view option = next_option(&options);
    if (!is_for(option, name)) continue;
    if (!result.empty()) result += ';';
    result += option.substr(name.size() + 1);
  }
  return result;
}

}  // namespace

Context::Context(const weir_allocator &allocator, const Log &log)
    : memory_(allocator),
      log_(log),
      runtimes_(&memory_),
      places_(&memory_, log_),
      rehearsal_(&memory_),
      streams_(&memory_, &ticks_),
      watch_(*this) {}

Status Context::start(const weir_context_desc &desc, weir_backend_query_fn built_in,
                      const char *search_folder) {
  constexpr uint64_t usual_start_ns = uint64_t{60} * 1'000'000'000;
  if ((desc.flags & WEIR_CONTEXT_STACKS) != 0 || switched_on("WEIR_STACKS", log_))
    watch_.stacks = make_owned<Stacks>(&memory_, &memory_);
  if (const char *folder = secure_getenv("WEIR_OOM_DUMP")) watch_.oom_folder = folder;
  watch_.profilers.start(log_);
  start_timeout_ns_ = desc.start_timeout_ns != 0 ? desc.start_timeout_ns : usual_start_ns;
  const char *options = desc.options;
  const char *environment = secure_getenv("WEIR_OPTIONS");
  if (environment == nullptr) environment = "";
  if (options == nullptr) options = environment;
  if (environment[0] != '\0' && std::strcmp(options, environment) != 0)
    log_(WEIR_LOG_WARNING,
         "WEIR_OPTIONS is \"%s\", and has no effect: the program gives options of its own, \"%s\"",
         environment, options);
  Given given{options, {}};
  WEIR_TRY(given.natives.read(desc));
  topology::Settings settings(&memory_);
  WEIR_TRY(topology::read_settings(options, &settings));
  WEIR_TRY(places_.prepare(settings, &rehearsal_));
  if (built_in != nullptr) WEIR_TRY(add_backend(built_in, "built-in", given));
  for (uint32_t i = 0; i < desc.backend_count; ++i)
    WEIR_TRY(add_backend(desc.backends[i], "linked", given));
  for (const char *const *path = desc.backend_paths; path != nullptr && *path != nullptr; ++path)
    WEIR_TRY(add_library(*path, given));
  if (search_folder != nullptr) WEIR_TRY(search(search_folder, given));
  WEIR_TRY(check_options(options));
  WEIR_TRY(given.natives.check_all([this](const char *name) {
    return std::any_of(runtimes_.begin(), runtimes_.end(), [name](const auto &runtime) {
      return std::strcmp(runtime->name(), name) == 0 && runtime->available();
    });
  }));
  WEIR_TRY(places_.complete());
  watch_.live.open(log_, shown_places(), live::Folder::Surroundings::own());
  return {};
}

std::vector<live::Place> Context::shown_places() const {
  std::vector<live::Place> places(places_.count());
  for (uint32_t id = 0; id < places.size(); ++id) {
    const backend::Device &device = *places_.find(id);
    places[id].id = id;
    places[id].memory_bytes = device.description.memory_total;
    places[id].name = live::short_name(device.description.name);
    places[id].backend = live::short_name(device.runtime->name());
  }
  return places;
}

/// A rehearsed machine's come first: the caller's say how large its devices are, and what they can do.
std::pmr::string Context::options_for(const backend::Runtime &runtime, const char *options) {
  std::pmr::string own = options_of(options, runtime.name(), &memory_);
  if (rehearsal_.empty() || std::strcmp(runtime.name(), "host") != 0) return own;
  return own.empty() ? rehearsal_ : rehearsal_ + ";" + own;
}

Status Context::add_backend(weir_backend_query_fn query, const char *path, const Given &given) {
  auto runtime = make_owned<backend::Runtime>(&memory_, &memory_);
  WEIR_TRY(runtime->adopt(query, path));
  return start_backend(std::move(runtime), given);
}

Status Context::add_library(const char *path, const Given &given) {
  auto runtime = make_owned<backend::Runtime>(&memory_, &memory_);
  WEIR_TRY(runtime->load(path));
  return start_backend(std::move(runtime), given);
}

Status Context::start_backend(Owned<backend::Runtime> runtime, const Given &given) {
  const std::pmr::string own = options_for(*runtime, given.options);
  grow_by(runtimes_);
  WEIR_TRY(runtime->start(own.c_str(), given.natives.of(runtime->name()), log_, start_timeout_ns_));
  if (!runtime->available()) {
    log_(WEIR_LOG_INFO, "backend %s is not available: %s", runtime->name(), runtime->reason());
  } else {
    WEIR_TRY(places_.add(*runtime, static_cast<uint32_t>(runtimes_.size()), own));
  }
  runtimes_.push_back(std::move(runtime));
  return {};
}

/// Libraries beside libweir, in the order of their names. One that is broken, or no backend, is reported, and told like a
/// runtime that is not there.
Status Context::search(const char *folder, const Given &given) {
  DIR *dir = opendir(folder);
  if (dir == nullptr) return {};
  std::pmr::vector<std::pmr::string> found(&memory_);
  while (const dirent *entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    const bool backend = name.starts_with("libweir_backend_") && name.ends_with(".so") &&
                         name != "libweir_backend_host.so";
    if (backend) found.emplace_back(std::pmr::string(folder, &memory_) + "/" + entry->d_name);
  }
  closedir(dir);
  std::sort(found.begin(), found.end());
  for (const std::pmr::string &path : found) {
    const Status added = add_library(path.c_str(), given);
    if (added) continue;
    auto broken = make_owned<backend::Runtime>(&memory_, &memory_);
    broken->stand_for(path.c_str(), last_error().text);
    // A wrong option is the caller's mistake and is told as such; and what the program has for a backend is not left aside.
    if (added.code() == WEIR_ERROR_INVALID_ARGUMENT || !given.natives.of(broken->name()).empty())
      return added;
    log_(WEIR_LOG_WARNING, "%s", last_error().text);
    runtimes_.push_back(std::move(broken));
  }
  return {};
}

/// Every option must be for a backend that is there, or the context itself, whose own have been read.
Status Context::check_options(const char *options) {
  for (std::string_view rest = options; !rest.empty();) {
    const std::string_view option = next_option(&rest);
    const bool known =
        option.empty() || option.starts_with("topology.") ||
        std::any_of(runtimes_.begin(), runtimes_.end(),
                    [option](const auto &runtime) { return is_for(option, runtime->name()); });
    if (!known)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "option \"%.*s\" is for no backend of this context",
                  static_cast<int>(option.size()), option.data());
  }
  return {};
}

Status Context::may_end() {
  std::string names;
  if (any_pool([&names](const Pool &pool) {
        if (!names.empty()) names += ',';
        names += QuotedName(pool.name()).c_str();
        return names.size() > 300;
      }))
    names += " and more";
  if (!names.empty()) return fail(WEIR_ERROR_BUSY, "the context still has pools:%s", names.c_str());
  // One is being made, or ends.
  if (std::ranges::any_of(pools_, [](const auto &pool) { return pool.load() != nullptr; }))
    return fail(WEIR_ERROR_BUSY, "the context still has pools");
  if (user_streams.load() == 0) return {};
  const std::string open = streams_.describe_open(this);
  return fail(WEIR_ERROR_BUSY, "the context still has %s", open.empty() ? "streams" : open.c_str());
}

uint32_t Context::first_device(uint32_t backend) const noexcept {
  uint32_t id = 0;
  while (id < places_.count() && places_.find(id)->backend < backend) ++id;
  return id;
}

Status Context::reserve_pool(uint32_t *id) {
  // Handles of buffers and leases name their pool by this number. Two contexts must not meet in it, nor two pools that follow
  // each other: a foreign or dead handle is to be recognised. So the next number is the process's.
  static std::atomic<uint32_t> turn{0};
  const uint32_t first = turn.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < max_pools - 1; ++i) {
    const uint32_t next = 1 + (first + i) % (max_pools - 1);
    Pool *none = nullptr;
    if (pools_[next].compare_exchange_strong(none, reserved())) {
      *id = next;
      return {};
    }
  }
  return fail(WEIR_ERROR_NOT_SUPPORTED, "a context has at most %u pools", max_pools - 1);
}

}  // namespace weir::pool
