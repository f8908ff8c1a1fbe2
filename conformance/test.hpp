// SPDX-License-Identifier: Apache-2.0
//
// Requirements and what their bodies are given. A requirement is registered with the capabilities it needs,
// never recognised by its name; its body runs in a process of its own, with a state of its own.
#pragma once

#include "conformance/session.hpp"
#include "conformance/settings.hpp"

#include <cstdint>
#include <string>
#include <vector>

/// What makes bytes in memory that only its own thread knows: the thread sanitizer, to which every single access is a call,
/// has nothing to find there.
#if defined(__SANITIZE_THREAD__)
#define UNSEEN __attribute__((no_sanitize("thread")))
#else
#define UNSEEN
#endif

namespace weir::conformance {

/// Numbers that depend on the seed and on nothing else.
class Random {
 public:
  explicit Random(uint64_t seed) noexcept : state_(seed) {}
  UNSEEN uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
    return z ^ (z >> 31U);
  }
  /// Below `end`, which is not 0.
  uint64_t below(uint64_t end) noexcept { return next() % end; }

 private:
  uint64_t state_;
};

/// What a device must have, and must not have, for a requirement to apply to it.
struct Needs {
  uint64_t with = 0;     ///< WEIR_CAP_*
  uint64_t without = 0;  ///< WEIR_CAP_*
  uint32_t devices = 1;
  bool alone = false;    ///< measures something that other tests on the device would disturb
  bool advised = false;  ///< a backend that does not keep it conforms all the same, and is told
};
constexpr Needs always() { return {}; }
constexpr Needs needs(uint64_t capabilities, uint32_t devices = 1) {
  return {capabilities, 0, devices, false, false};
}
constexpr Needs lacks(uint64_t capabilities, uint64_t with = 0) {
  return {with, capabilities, 1, false, false};
}
constexpr Needs alone(Needs other = {}) {
  other.alone = true;
  return other;
}
constexpr Needs advised(Needs other = {}) {
  other.advised = true;
  return other;
}
inline constexpr Needs vmm = needs(WEIR_CAP_VMM);
inline constexpr Needs host_call = needs(WEIR_CAP_HOST_CALL);

inline constexpr uint64_t kib = 1024;
inline constexpr uint64_t mib = uint64_t{1} << 20U;
/// What is in an output before a call that must leave it alone.
inline constexpr uint64_t untouched = 0x5afe5afe5afe5afe;

class Test : public Session {
 public:
  Test(const Settings &settings_, const Library &library_, Complaints &complaints, uint64_t seed_)
      : Session(complaints), settings(settings_), library(library_), seed(seed_), random(seed_) {}
  /// Starts the state and looks at the devices.
  Outcome prepare();

  /// Something a person should know about a verdict.
  void note(const std::string &text) { notes += (notes.empty() ? "" : "; ") + text; }

  /// What a body returns that found nothing to look at: the requirement applied, and is neither kept nor broken.
  static Outcome nothing(std::string why) { return Outcome::nothing(std::move(why)); }

  const Settings &settings;
  const Library &library;
  const uint64_t seed;
  Random random;
  std::string notes;

  uint32_t device_count = 0;
  uint32_t other = UINT32_MAX;  ///< another device, if there is one
  weir_be_device about{};       ///< the device under test
  uint64_t granule = 0;         ///< 0 without VMM
  uint64_t budget = 0;          ///< bytes of the device that a test may hold
  uint64_t slack = 0;  ///< by how much free memory may differ for reasons of the runtime's own

  bool has(uint64_t capability) const noexcept {
    return (about.capabilities & capability) == capability;
  }
  Outcome describe(uint32_t index, weir_be_device *description);
  /// A device that does not exist.
  uint32_t no_device() const noexcept { return device_count; }
};

struct Requirement {
  const char *id;
  const char *sentence;
  Needs needs;
  Outcome (*run)(Test &t);
};

/// All of them in the order of groups and numbers.
const std::vector<Requirement> &requirements();
const Requirement *find_requirement(const std::string &id);
/// The group's name: "ranges" for AR-001.
std::string group_of(const Requirement &requirement);
/// "required", "VMM", "PEER, 2 devices", "VMM, without MULTI_MAP", "advised", "VMM, advised".
std::string level_of(const Needs &needs);
/// "VMM+PEER"; "none" for 0.
std::string capability_names(uint64_t capabilities);

struct Registration {
  explicit Registration(const Requirement &requirement);
};

/// Another process that a requirement talks to, with a backend of its own.
class Channel;
struct Helper {
  const char *name;
  Outcome (*run)(Test &t, Channel &channel);
};
struct HelperRegistration {
  explicit HelperRegistration(const Helper &helper);
};
const Helper *find_helper(const std::string &name);

}  // namespace weir::conformance

/// REQUIRE("VM-001", needs(WEIR_CAP_VMM), "What must hold.") { body that returns an Outcome }
#define REQUIRE(id, needs, sentence) WEIR_REQUIRE_AS(__COUNTER__, id, needs, sentence)
#define WEIR_REQUIRE_AS(number, id, needs, sentence)                                    \
  static ::weir::conformance::Outcome WEIR_JOIN(requirement_,                           \
                                                number)(::weir::conformance::Test & t); \
  static const ::weir::conformance::Registration WEIR_JOIN(                             \
      registration_, number)({id, sentence, needs, &WEIR_JOIN(requirement_, number)});  \
  static ::weir::conformance::Outcome WEIR_JOIN(                                        \
      requirement_, number)([[maybe_unused]] ::weir::conformance::Test & t)

/// HELPER(name) { body that returns an Outcome; it has t and channel }
#define HELPER(name)                                                                        \
  static ::weir::conformance::Outcome helper_##name(::weir::conformance::Test &t,           \
                                                    ::weir::conformance::Channel &channel); \
  static const ::weir::conformance::HelperRegistration helper_registration_##name(          \
      {#name, &helper_##name});                                                             \
  static ::weir::conformance::Outcome helper_##name(                                        \
      [[maybe_unused]] ::weir::conformance::Test &t,                                        \
      [[maybe_unused]] ::weir::conformance::Channel &channel)
