// SPDX-License-Identifier: Apache-2.0
//
// The files of measured links: what is written comes back, and nothing that was not written here, for these devices, by
// this user, is ever taken for figures.

#include "core/topology/link_cache.hpp"

#include "tests/support/cache_folder.hpp"

#include <cstring>

namespace {

using namespace weir::topology;
using weir::test::CacheFolder;
using weir::test::contents_of;
using weir::test::put;

std::pmr::memory_resource *const heap = std::pmr::get_default_resource();
constexpr const char *identity = "0123456789abcdef0123456789abcdef";
constexpr uint32_t devices = 3;

Figures some_figures() {
  Figures figures(heap);
  figures[{2, WEIR_DEVICE_HOST}] = {12'345'678'901, 1500};
  figures[{WEIR_DEVICE_HOST, 2}] = {UINT64_C(1'000'000'000'000'000'000), 0};
  figures[{0, 1}] = {1, UINT64_C(1'000'000'000'000)};
  return figures;
}

struct Found {
  Figures figures{heap};
  CacheRead result = CacheRead::absent;
  std::pmr::string reason;
};

Found read_at(const std::string &path, std::string_view whose = identity,
              uint32_t count = devices) {
  Found found;
  found.result = read_cache(std::pmr::string(path), whose, count, &found.figures, &found.reason);
  return found;
}

std::string file_in(const CacheFolder &folder) {
  return std::string(cache_file(folder.path(), identity, heap));
}

std::string saved(const CacheFolder &folder) {
  if (!write_cache(std::pmr::string(folder.path()), identity, "host", devices, some_figures()))
    fail_msg("%s", weir::last_error().text);
  return file_in(folder);
}

void ignored_for(const std::string &path, const char *word) {
  const Found found = read_at(path);
  if (found.result != CacheRead::ignored || found.figures.size() != 0)
    fail_msg("%s was not ignored: %zu figures", path.c_str(), found.figures.size());
  for (const char *part : {path.c_str(), word})
    if (std::strstr(found.reason.c_str(), part) == nullptr)
      fail_msg("\"%s\" does not say \"%s\"", found.reason.c_str(), part);
}

void what_is_written_comes_back(void **) {
  const CacheFolder folder;
  const std::string path = saved(folder);
  const Found found = read_at(path);
  assert_true(found.result == CacheRead::found);
  assert_string_equal(found.reason.c_str(), "");
  const Figures wanted = some_figures();
  assert_int_equal(found.figures.size(), wanted.size());
  assert_true(std::equal(found.figures.begin(), found.figures.end(), wanted.begin()));
  assert_int_equal(folder.files().size(), 1);
  struct stat info {};
  assert_int_equal(stat(path.c_str(), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
  // Again, over what is there.
  assert_string_equal(saved(folder).c_str(), path.c_str());
  assert_int_equal(folder.files().size(), 1);
}

void folders_are_made_for_their_owner(void **) {
  const CacheFolder folder;
  const std::string deep = folder.path() + "/a/b";
  assert_true(write_cache(std::pmr::string(deep), identity, "host", devices, some_figures()).ok());
  for (const std::string &each : {folder.path() + "/a", deep}) {
    struct stat info {};
    assert_int_equal(stat(each.c_str(), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
  }
}

void no_file_is_no_figure(void **) {
  const CacheFolder folder;
  for (const std::string &path : {file_in(folder), folder.path() + "/a/b.json"}) {
    const Found found = read_at(path);
    assert_true(found.result == CacheRead::absent);
    assert_string_equal(found.reason.c_str(), "");
  }
}

void every_truncation_is_ignored(void **) {
  const CacheFolder folder;
  const std::string path = saved(folder), whole = contents_of(path);
  assert_int_equal(whole.back(), '\n');
  for (size_t length = 0; length + 1 < whole.size(); ++length) {
    put(path, whole.substr(0, length));
    ignored_for(path, "malformed");
  }
}

/// The text with one part of it replaced.
std::string with(const std::string &text, const std::string &old, const std::string &now) {
  const size_t at = text.find(old);
  if (at == std::string::npos) fail_msg("no %s in %s", old.c_str(), text.c_str());
  return std::string(text).replace(at, old.size(), now);
}

void malformed_files_are_ignored(void **) {
  const CacheFolder folder;
  const std::string path = saved(folder), whole = contents_of(path);
  put(path, whole);
  assert_true(read_at(path).result == CacheRead::found);
  for (const std::string &text :
       {std::string("[]"), std::string("12"), whole + "{}", with(whole, "\"links\"", "\"lines\""),
        std::string(100000, '[')}) {
    put(path, text);
    ignored_for(path, "malformed");
  }
  put(path, with(whole, "\"weir_links\": 1", "\"weir_links\": 0"));
  ignored_for(path, "version");
  put(path, with(whole, "\"weir_links\": 1", "\"weir_links\": 2"));
  ignored_for(path, "version");
  put(path, with(whole, "\"devices\": 3", "\"devices\": 4"));
  ignored_for(path, "number of devices");
  for (const auto &[old, now] : std::vector<std::pair<std::string, std::string>>{
           {"12345678901", "-1"},
           {"12345678901", "0"},
           {"12345678901", "1e9"},
           {"12345678901", "1000000000000000001"},
           {"12345678901", "99999999999999999999999"},
           {"12345678901", "\"12345678901\""},
           {"\"latency_ns\": 1500", "\"latency_ns\": 1000000000001"},
           {"\"latency_ns\": 1500", "\"latency\": 1500"},
           {"\"from\": 0", "\"from\": 3"},
           {"\"from\": 0", "\"from\": 4294967295"},
           {"\"from\": 0", "\"from\": \"device\""},
           {"\"from\": 0", "\"from\": 1"},  // to itself
           {"\"from\": 0", "\"from\": null"}}) {
    put(path, with(whole, old, now));
    ignored_for(path, "a link in it is malformed");
  }
  // The same link twice.
  const size_t first = whole.find('{', 1), end = whole.find('}', first);
  const std::string link = whole.substr(first, end + 1 - first);
  put(path, with(whole, link, link + "," + link));
  ignored_for(path, "a link in it is malformed");
}

void another_machines_file_is_ignored(void **) {
  const CacheFolder folder;
  const std::string path = saved(folder);
  const Found found = read_at(path, "0123456789abcdef0123456789abcdee");
  assert_true(found.result == CacheRead::ignored);
  assert_int_equal(found.figures.size(), 0);
  assert_non_null(std::strstr(found.reason.c_str(), "another machine"));
  assert_true(read_at(path, identity, devices + 1).result == CacheRead::ignored);
}

void files_that_others_may_write_are_ignored(void **) {
  const CacheFolder folder;
  const std::string path = saved(folder);
  for (const mode_t mode : {0602, 0620, 0666}) {
    assert_int_equal(chmod(path.c_str(), mode), 0);
    ignored_for(path, "others may write");
  }
  assert_int_equal(chmod(path.c_str(), 0644), 0);
  assert_true(read_at(path).result == CacheRead::found);
  if (geteuid() == 0) {
    assert_int_equal(chown(path.c_str(), 12345, 12345), 0);
    ignored_for(path, "another user");
  }
}

void what_is_no_file_is_ignored(void **) {
  const CacheFolder folder;
  const std::string path = saved(folder), other = folder.path() + "/other";
  assert_int_equal(rename(path.c_str(), other.c_str()), 0);
  assert_int_equal(symlink(other.c_str(), path.c_str()), 0);
  ignored_for(path, "not used");
  assert_int_equal(unlink(path.c_str()), 0);
  assert_int_equal(mkfifo(path.c_str(), 0600), 0);
  ignored_for(path, "no file");
  assert_int_equal(unlink(path.c_str()), 0);
  assert_int_equal(mkdir(path.c_str(), 0700), 0);
  ignored_for(path, "no file");
}

void too_large_a_file_is_ignored(void **) {
  const CacheFolder folder;
  const std::string path = saved(folder);
  assert_int_equal(truncate(path.c_str(), static_cast<off_t>(largest_cache_file) + 1), 0);
  ignored_for(path, "too large");
}

void refused(const std::string &folder, const char *word) {
  const weir::Status status =
      write_cache(std::pmr::string(folder), identity, "host", devices, some_figures());
  assert_int_equal(status.code(), WEIR_ERROR_IO);
  const weir::LastError &error = weir::last_error();
  if (std::strstr(error.text, word) == nullptr)
    fail_msg("\"%s\" does not say \"%s\"", error.text, word);
  assert_true(error.detail.native != 0);
}

void a_folder_that_cannot_be_written_is_an_error(void **) {
  const CacheFolder folder;
  const std::string file = folder.path() + "/file";
  put(file, "");
  refused(file, file.c_str());
  refused(file + "/below", file.c_str());
  refused("/proc/weir/cache", "/proc/weir");
  // The place of the file is taken: what was drafted is gone again.
  const std::string path = file_in(folder);
  assert_int_equal(mkdir(path.c_str(), 0700), 0);
  put(path + "/x", "");
  refused(folder.path(), path.c_str());
  assert_int_equal(folder.files().size(), 2);
  if (geteuid() == 0) return;  // root may write everywhere
  const std::string closed = folder.path() + "/closed";
  assert_int_equal(mkdir(closed.c_str(), 0500), 0);
  refused(closed, closed.c_str());
}

std::string identity_of(std::string_view machine, std::string_view backend,
                        std::string_view version, std::string_view options,
                        const std::vector<weir_be_device> &all) {
  std::vector<weir::Owned<weir::backend::Device>> owned;
  for (const weir_be_device &each : all) {
    owned.push_back(weir::make_owned<weir::backend::Device>(heap));
    owned.back()->description = each;
  }
  return std::string(cache_identity({machine, backend, version, options}, owned, heap));
}

void whatever_tells_machines_apart_counts(void **) {
  weir_be_device one{};
  std::strcpy(one.name, "GPU");
  std::strcpy(one.pci_address, "0000:17:00.0");
  weir_be_device renamed = one, moved = one, other = one;
  std::strcpy(renamed.name, "GPV");
  std::strcpy(moved.pci_address, "0000:18:00.0");
  other.uuid[15] = 1;
  const std::vector<std::string> all{
      identity_of("m", "cuda", "12", "", {one}),
      identity_of("n", "cuda", "12", "", {one}),
      identity_of("m", "hip", "12", "", {one}),
      identity_of("m", "cuda", "13", "", {one}),
      identity_of("m", "cuda", "12", "a=1", {one}),
      identity_of("m", "cud", "a12", "", {one}),
      identity_of("m", "cuda", "12", "", {renamed}),
      identity_of("m", "cuda", "12", "", {moved}),
      identity_of("m", "cuda", "12", "", {other}),
      identity_of("m", "cuda", "12", "", {one, other}),
      identity_of("m", "cuda", "12", "", {other, one}),
      identity_of("m", "cuda", "12", "", {}),
  };
  for (size_t i = 0; i < all.size(); ++i) {
    assert_int_equal(all[i].size(), 32);
    for (size_t k = 0; k < i; ++k) assert_true(all[i] != all[k]);
  }
  assert_true(all[0] == identity_of("m", "cuda", "12", "", {one}));
  assert_true(machine_id(heap) == machine_id(heap));
}

void the_environment_names_the_folder(void **) {
  const CacheFolder folder;  // so that the variable is put back
  const auto is = [](const char *wanted) {
    assert_string_equal(cache_folder(heap).c_str(), wanted);
  };
  const char *home = std::getenv("HOME"), *xdg = std::getenv("XDG_CACHE_HOME");
  const std::string home_before = home != nullptr ? home : "",
                    xdg_before = xdg != nullptr ? xdg : "";
  is(folder.path().c_str());
  setenv("WEIR_CACHE_DIR", "", 1);
  setenv("XDG_CACHE_HOME", "/x", 1);
  setenv("HOME", "/h", 1);
  is("/x/weir");
  setenv("XDG_CACHE_HOME", "x", 1);  // not absolute
  is("/h/.cache/weir");
  unsetenv("XDG_CACHE_HOME");
  is("/h/.cache/weir");
  unsetenv("HOME");
  is("");
  if (home != nullptr) setenv("HOME", home_before.c_str(), 1);
  if (xdg != nullptr) setenv("XDG_CACHE_HOME", xdg_before.c_str(), 1);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_comes_back),
      cmocka_unit_test(folders_are_made_for_their_owner),
      cmocka_unit_test(no_file_is_no_figure),
      cmocka_unit_test(every_truncation_is_ignored),
      cmocka_unit_test(malformed_files_are_ignored),
      cmocka_unit_test(another_machines_file_is_ignored),
      cmocka_unit_test(files_that_others_may_write_are_ignored),
      cmocka_unit_test(what_is_no_file_is_ignored),
      cmocka_unit_test(too_large_a_file_is_ignored),
      cmocka_unit_test(a_folder_that_cannot_be_written_is_an_error),
      cmocka_unit_test(whatever_tells_machines_apart_counts),
      cmocka_unit_test(the_environment_names_the_folder),
  };
  return cmocka_run_group_tests_name("files of measured links", tests, nullptr, nullptr);
}
