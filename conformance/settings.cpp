// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing arguments.
#include "conformance/settings.hpp"

#include <charconv>

namespace weir::conformance {
namespace {

bool read_number(const std::string &text, uint64_t *value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Options with a value: where it goes.
struct Place {
  const char *name;
  std::string Settings::*text = nullptr;
  uint32_t Settings::*small = nullptr;
  uint64_t Settings::*large = nullptr;
};

constexpr Place places[] = {
    {"--options", &Settings::options},
    {"--filter", &Settings::filter},
    {"--junit", &Settings::junit},
    {"--bundle", &Settings::bundle},
    {"--waivers", &Settings::waivers},
    {"--device", nullptr, &Settings::device},
    {"--jobs", nullptr, &Settings::jobs},
    {"--timeout", nullptr, nullptr, &Settings::timeout_s},
    {"--seed", nullptr, nullptr, &Settings::seed},
    {"--soak", nullptr, nullptr, &Settings::soak_s},
    {"--order", nullptr, nullptr, &Settings::least_order},
};

std::string store(const Place &place, const std::string &value, Settings *settings) {
  if (place.text != nullptr) {
    settings->*place.text = value;
    return {};
  }
  uint64_t number = 0;
  if (!read_number(value, &number) || (place.small != nullptr && number > UINT32_MAX))
    return std::string(place.name) + " " + value + ": a number is needed";
  if (place.small == &Settings::device) settings->device_named = true;
  if (place.small != nullptr) {
    settings->*place.small = static_cast<uint32_t>(number);
  } else {
    settings->*place.large = number;
  }
  return {};
}

const Place *find_place(const std::string &name) {
  for (const Place &place : places) {
    if (name == place.name) return &place;
  }
  return nullptr;
}

/// Arguments that are understood by themselves, or with what they are about.
bool take_role(const std::string &name, Settings *settings, bool *wants_subject) {
  *wants_subject = name == "--run-one" || name == "--helper";
  if (name == "--run-one") settings->role = Settings::Role::one;
  if (name == "--helper") settings->role = Settings::Role::helper;
  if (name == "--describe") settings->role = Settings::Role::describe;
  return *wants_subject || name == "--describe";
}

bool take_flag(const std::string &name, Settings *settings) {
  if (name == "--list") settings->list = true;
  if (name == "--help" || name == "-h") settings->help = true;
  if (name == "--allow-oom") settings->allow_oom = true;
  if (name == "--all-devices") settings->all_devices = true;
  return name == "--list" || name == "--help" || name == "-h" || name == "--allow-oom" ||
         name == "--all-devices";
}

/// "" or which arguments exclude each other.
std::string clash(const Settings &settings) {
  if (!settings.all_devices) return {};
  if (settings.device_named)
    return "--all-devices and --device exclude each other: every device, or the one that is named";
  if (settings.role == Settings::Role::one)
    return "--all-devices and --run-one exclude each other: a requirement is run on one device, "
           "which --device names";
  return {};
}

/// As a shell takes it for one word.
std::string quoted(const std::string &text) {
  if (text.find_first_of("\"\\$`!") == std::string::npos) return "\"" + text + "\"";
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

/// The same, without quotes where there is no need of any.
std::string shell_word(const std::string &text) {
  static const std::string plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+./:=@%,";
  return !text.empty() && text.find_first_not_of(plain) == std::string::npos ? text : quoted(text);
}

}  // namespace

std::string read_arguments(const std::vector<std::string> &arguments, Settings *settings) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &name = arguments[i];
    bool wants_subject = false;
    const Place *place = find_place(name);
    const bool role = take_role(name, settings, &wants_subject);
    if (place != nullptr || wants_subject) {
      if (i + 1 == arguments.size()) return name + " needs a value";
      const std::string &value = arguments[++i];
      if (wants_subject) settings->subject = value;
      if (place == nullptr) continue;
      if (std::string why = store(*place, value, settings); !why.empty()) return why;
    } else if (!role && !take_flag(name, settings)) {
      if (name.starts_with("-")) return "unknown argument " + name;
      if (!settings->backend.empty()) return "a second backend: " + name;
      settings->backend = name;
    }
  }
  if (settings->help || settings->list) return {};
  if (settings->backend.empty()) return "no backend is named";
  if (settings->backend.find('/') == std::string::npos) settings->backend.insert(0, "./");
  if (settings->jobs == 0) return "--jobs 0: at least one is needed";
  if (settings->timeout_s == 0) return "--timeout 0: at least a second is needed";
  return clash(*settings);
}

std::vector<std::string> arguments_for(const Settings &settings, Settings::Role role,
                                       const std::string &subject) {
  std::vector<std::string> arguments{
      settings.backend, "--device", std::to_string(settings.device), "--options",
      settings.options, "--seed",   std::to_string(settings.seed)};
  if (settings.allow_oom) arguments.emplace_back("--allow-oom");
  switch (role) {
    case Settings::Role::one:
      arguments.insert(arguments.end(), {"--run-one", subject});
      break;
    case Settings::Role::helper:
      arguments.insert(arguments.end(), {"--helper", subject});
      break;
    case Settings::Role::describe:
      arguments.emplace_back("--describe");
      break;
    case Settings::Role::runner:
      break;
  }
  return arguments;
}

std::string again(const Settings &settings, const std::string &id) {
  return shell_word(settings.program) + " " + shell_word(settings.backend) + " --device " +
         std::to_string(settings.device) + " --options " + quoted(settings.options) + " --seed " +
         std::to_string(settings.seed) + (settings.allow_oom ? " --allow-oom" : "") +
         " --run-one " + id;
}

const char *usage() {
  return "usage: weir-conformance BACKEND.so [argument...]\n"
         "       weir-conformance --list\n"
         "  --device N          the device under test (0)\n"
         "  --all-devices       every device, one after the other\n"
         "  --options TEXT      the backend's options, \"key=value;key=value\"\n"
         "  --filter IDS        globs of requirements, such as VM-*,-VM-013; a '-' leaves out\n"
         "  --jobs N            tests at a time (1)\n"
         "  --timeout SECONDS   for one test (60)\n"
         "  --seed N            of all that is random (1)\n"
         "  --soak SECONDS      then the random model of FA-007 with seeds N, N+1, ...\n"
         "  --order N           fail where fewer of the requirements that hold a stream up "
         "applied\n"
         "  --allow-oom         fill the device to its last byte, however large it is\n"
         "  --waivers FILE      lines of: backend | device glob | test glob | issue | YYYY-MM-DD | "
         "reason\n"
         "  --junit FILE        results as JUnit XML\n"
         "  --bundle DIR        what is handed in: log, TAP, results, versions, machine\n"
         "  --run-one ID        one requirement in this process, as under a debugger\n"
         "Results go to stdout as TAP. Exit status: 0 = nothing failed, 1 = something did, 2 = it "
         "could not run.\n";
}

}  // namespace weir::conformance
