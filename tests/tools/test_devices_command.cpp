// SPDX-License-Identifier: Apache-2.0
//
// `weir devices`: what it says of backends that are not installed, and that the packages it names are those that the build makes.
// WEIR_BIN_DIR says where the program is; without it the test skips.
#include "tests/tools/program.hpp"
#include "tools/weir/backend_packages.hpp"
#include "tools/weir/choices.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

namespace {

using weir::test::contains;
using weir::test::Outcome;
using weir::test::run_program;
using weir::test::run_weir;
using weir::test::text_of;
using weir::tool::missing_backends;
using weir::tool::MissingBackend;

void those_that_are_missing(void **) {
  const std::vector<MissingBackend> all = missing_backends({"host"}, "/usr/lib/weir/1");
  assert_int_equal(all.size(), 5);
  assert_string_equal(all[2].name.c_str(), "level_zero");
  assert_string_equal(all[2].library.c_str(), "/usr/lib/weir/1/libweir_backend_level_zero.so");
  assert_string_equal(all[2].package.c_str(), "weir-backend1-level-zero");
  const std::vector<MissingBackend> some =
      missing_backends({"hip", "cuda", "vulkan", "other", "opencl"}, "");
  assert_int_equal(some.size(), 1);
  assert_string_equal(some[0].library.c_str(), "libweir_backend_level_zero.so");
  assert_true(missing_backends({"vulkan", "level_zero", "opencl", "hip", "cuda"}, "/x").empty());
}

/// The vendors for which the build makes packages, and their names.
void packages_are_those_of_the_build(void **) {
  const char *tree = std::getenv("WEIR_SOURCE_DIR");
  if (tree == nullptr) return;
  const std::string rules = text_of(std::string(tree) + "/cmake/WeirPackages.cmake");
  assert_true(contains(rules, "weir-backend${weir_backend_abi}-${weir_vendor} libs"));
  assert_true(contains(rules, "string(REPLACE \"_\" \"-\" weir_vendor ${vendor})"));
  std::set<std::string> packed, known;
  const std::regex call("\\nweir_vendor_package\\((\\w+)");
  for (std::sregex_iterator each(rules.begin(), rules.end(), call), end; each != end; ++each)
    packed.insert((*each)[1]);
  for (const MissingBackend &backend : missing_backends({}, "")) known.insert(backend.name);
  assert_true(!known.empty() && packed == known);
  const weir::tool::Choices choices = weir::tool::backend_choices();
  assert_int_equal(choices.size(), known.size() + 1);  // and host
}

/// Every vendor is told of once, whichever are installed here.
void each_is_told_of(void **) {
  const auto report = nlohmann::json::parse(run_weir({"devices", "--json"}).output);
  std::multiset<std::string> names;
  for (const char *list : {"backends", "not_installed"})
    for (const auto &backend : report[list]) names.insert(backend["name"]);
  for (const std::string_view name : weir::tool::backend_choices())
    assert_int_equal(names.count(std::string(name)), 1);
}

/// A copy of the library in a folder of its own, with no backends beside it.
void a_library_alone(void **) {
  const char *libraries = std::getenv("WEIR_LIB_DIR");
  if (libraries == nullptr) return;
  std::string name = (std::filesystem::temp_directory_path() / "weir-alone-XXXXXX").string();
  assert_non_null(mkdtemp(name.data()));
  const std::filesystem::path folder = name;
  bool copied = false;
  for (const auto &entry : std::filesystem::directory_iterator(libraries)) {
    const std::string file = entry.path().filename();
    if (!std::regex_match(file, std::regex("libweir\\.so\\.[0-9]+"))) continue;
    std::filesystem::create_symlink(std::filesystem::canonical(entry.path()), folder / file);
    copied = true;
  }
  const std::string path = "LD_LIBRARY_PATH=" + name;
  const Outcome outcome = run_program({"/usr/bin/env", path, weir::test::weir_path(), "devices"});
  const Outcome json =
      run_program({"/usr/bin/env", path, weir::test::weir_path(), "devices", "--json"});
  std::filesystem::remove_all(folder);
  if (!copied) return;
  assert_int_equal(outcome.status, 0);
  assert_true(contains(outcome.output, "host (built-in)"));
  for (const MissingBackend &backend : missing_backends({}, name + "/weir/1"))
    assert_true(contains(outcome.output, backend.name + ": not installed: there is no " +
                                             backend.library + "; Debian package " +
                                             backend.package + " brings it"));
  const auto missing = nlohmann::json::parse(json.output)["not_installed"];
  assert_int_equal(missing.size(), 4);
  assert_string_equal(missing[0]["package"].get<std::string>().c_str(), "weir-backend1-cuda");
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(those_that_are_missing),
      cmocka_unit_test(packages_are_those_of_the_build),
      cmocka_unit_test(each_is_told_of),
      cmocka_unit_test(a_library_alone),
  };
  return cmocka_run_group_tests_name("weir devices", tests, nullptr, nullptr);
}
