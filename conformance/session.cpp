// SPDX-License-Identifier: Apache-2.0
//
// Loading, starting, and the sentences about wrong answers.
#include "conformance/session.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace weir::conformance {
namespace {

struct Name {
  weir_result result;
  const char *text;
};
constexpr std::array<Name, 21> names{{
    {WEIR_SUCCESS, "SUCCESS"},
    {WEIR_NOT_READY, "NOT_READY"},
    {WEIR_ERROR_INVALID_ARGUMENT, "INVALID_ARGUMENT"},
    {WEIR_ERROR_INVALID_HANDLE, "INVALID_HANDLE"},
    {WEIR_ERROR_NOT_SUPPORTED, "NOT_SUPPORTED"},
    {WEIR_ERROR_OUT_OF_HOST_MEMORY, "OUT_OF_HOST_MEMORY"},
    {WEIR_ERROR_OVER_BUDGET, "OVER_BUDGET"},
    {WEIR_ERROR_WOULD_BLOCK, "WOULD_BLOCK"},
    {WEIR_ERROR_TIMEOUT, "TIMEOUT"},
    {WEIR_ERROR_LEASE_CONFLICT, "LEASE_CONFLICT"},
    {WEIR_ERROR_BUSY, "BUSY"},
    {WEIR_ERROR_DEVICE_OOM, "DEVICE_OOM"},
    {WEIR_ERROR_DEVICE_LOST, "DEVICE_LOST"},
    {WEIR_ERROR_DATA_LOST, "DATA_LOST"},
    {WEIR_ERROR_CORRUPT, "CORRUPT"},
    {WEIR_ERROR_BACKEND, "BACKEND"},
    {WEIR_ERROR_STREAM_CAPTURING, "STREAM_CAPTURING"},
    {WEIR_ERROR_FORKED, "FORKED"},
    {WEIR_ERROR_IO, "IO"},
    {WEIR_ERROR_CANCELLED, "CANCELLED"},
    {WEIR_ERROR_INTERNAL, "INTERNAL"},
}};

}  // namespace

std::string result_name(weir_result result) {
  const auto *found = std::find_if(names.begin(), names.end(),
                                   [result](const Name &name) { return name.result == result; });
  return found != names.end() ? found->text : "the unknown result " + std::to_string(result);
}

std::string place(const Site &site) {
  const std::string file = site.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line());
}

std::string number(uint64_t value) {
  if (value < 1'000'000) return std::to_string(value);
  char text[24];
  std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(value));
  return text;
}

void Complaints::add(std::string text) {
  const std::lock_guard hold(mutex_);
  if (first_.passed()) first_ = Outcome::failure(std::move(text));
}

std::string Complaints::first() const {
  const std::lock_guard hold(mutex_);
  return first_.text();
}

Outcome Library::open(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char *why = dlerror();
    return Outcome::failure("cannot load " + path + ": " + (why != nullptr ? why : "no reason"));
  }
  void *symbol = dlsym(library, WEIR_BACKEND_QUERY_SYMBOL);
  CHECK(symbol != nullptr, path, " does not export ", WEIR_BACKEND_QUERY_SYMBOL);
  std::memcpy(&query_, &symbol, sizeof query_);
  return {};
}

const weir_backend_table *Library::query(uint32_t abi_major) const {
  return query_ != nullptr ? query_(abi_major) : nullptr;
}

Outcome Library::table(weir_backend_table *table) const {
  const weir_backend_table *theirs = query(WEIR_BACKEND_ABI_MAJOR);
  CHECK(theirs != nullptr, "no table for ABI version ", uint32_t{WEIR_BACKEND_ABI_MAJOR});
  *table = weir_backend_table{};
  std::memcpy(table, theirs, std::min<size_t>(theirs->struct_size, sizeof *table));
  return {};
}

std::string Want::text() const {
  if (kind_ == Kind::error) return "an error";
  std::string text = result_name(first_);
  if (second_ != first_) text += " or " + result_name(second_);
  if (third_ != second_) text += " or " + result_name(third_);
  return text;
}

Watch *&Watch::current() noexcept {
  static thread_local Watch *current = nullptr;
  return current;
}

Outcome Session::start(const Library &library, const std::string &options, weir_log_callback log,
                       void *log_user, Site site) {
  TRY(library.table(&table));
  if (table.start == nullptr) return missing(site, "start");
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = options.c_str();
  desc.log = log;
  desc.log_user = log_user;
  const char *reason = nullptr;
  const weir_result result = start_called(table, &desc, &state, &reason, site);
  if (result == WEIR_SUCCESS) return Watch::after("start");
  state = nullptr;
  const std::string why = reason != nullptr ? ": " + word(reason) : ", and no reason is given";
  return Outcome::failure(place(site) + ": the backend does not start: start(\"" + options +
                          "\") = " + result_name(result) + why);
}

void Session::stop() {
  if (state == nullptr) return;
  stop_called(table, state);
  state = nullptr;
  keep(Watch::after("stop"));
}

Outcome Session::missing(const Site &site, const char *name) const {
  return Outcome::failure(place(site) + ": the table has no entry " + name);
}

Outcome Session::unexpected(const Site &site, const Want &want, const char *name,
                            const std::string &arguments, weir_result result) const {
  std::string text = place(site) + ": " + name + "(" + arguments + ") = " + result_name(result);
  if (result < 0 && table.last_error_code != nullptr && table.error_text != nullptr) {
    const int64_t native = called(site, "last_error_code", table.last_error_code, state);
    text += " (native " + std::to_string(native) + ": " +
            word(called(site, "error_text", table.error_text, state, native)) + ")";
  }
  return Outcome::failure(text + ", wanted " + want.text());
}

}  // namespace weir::conformance
