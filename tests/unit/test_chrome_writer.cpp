// SPDX-License-Identifier: Apache-2.0
//
// The timeline's writer by itself, fed with notes: how threads are named, and what a refusal says.

#include "tests/support/cmocka.hpp"
#include "tests/unit/timeline_file.hpp"

#include "core/base/own_file.hpp"
#include "core/trace/chrome_writer.hpp"

#include <weir/lease.h>

#include <unistd.h>

#include <cstring>

namespace {

using namespace weir;
using namespace weir::test;

class NoPools final : public trace::Pools {
 public:
  std::vector<std::string> operations(uint32_t) override { return {}; }
  uint32_t device_at(uint32_t, uint8_t place) override { return place; }
  bool passed(uint64_t) override { return true; }
};

template <class Of>
Of note(notes::Kind kind, uint16_t thread, uint64_t ns) {
  Of of;
  of.kind = kind;
  of.thread = thread;
  of.ns = ns;
  return of;
}

/// The file of what `tell` gives to a writer.
template <class Tell>
TimelineFile written(Tell &&tell) {
  std::string path;
  OwnFile made(create_own_file("/tmp/weir-chrome-writer", ".json", true, &path));
  assert_true(made.number() >= 0);
  NoPools pools;
  {
    trace::ChromeWriter writer(std::move(made), uint64_t{1} << 20, 0, pools);
    tell(writer);
    writer.finish(0);
    assert_null(writer.ended());
  }
  TimelineFile file(path);
  (void)unlink(path.c_str());
  return file;
}

/// What the file shows as the track's name: the last that it was given.
std::string name_of(const TimelineFile &file, uint32_t track) {
  std::string name;
  for (const Json &event : file.all("M"))
    if (event["name"] == "thread_name" && event["tid"] == track) name = event["args"]["name"];
  return name;
}

void a_thread_is_named_by_its_work_whatever_it_did_first(void **) {
  const TimelineFile file = written([](trace::ChromeWriter &writer) {
    // The evictor's thread tells the round before the stretch of work that it lies in.
    auto round = note<notes::Evictions>(notes::round, 3, 2000);
    round.begin_ns = 1000;
    round.number = 1;
    round.pages = 1;
    writer.take(round);
    auto work = note<notes::Work>(notes::stretch, 3, 3000);
    work.begin_ns = 500;
    work.what = "the evictor's thread";
    writer.take(work);
    // What a program's thread evicts makes no worker of it.
    round = note<notes::Evictions>(notes::round, 1, 5000);
    round.begin_ns = 4000;
    round.number = 2;
    writer.take(round);
    work = note<notes::Work>(notes::stretch, 3, 7000);
    work.begin_ns = 6000;
    work.what = "the evictor's thread";
    writer.take(work);
  });
  assert_string_equal(name_of(file, 3).c_str(), "weir: the evictor's thread");
  assert_string_equal(name_of(file, 1).c_str(), "thread 1");
  // As it works again it is not named again.
  size_t names = 0;
  for (const Json &event : file.all("M"))
    if (event["name"] == "thread_name") ++names;
  assert_int_equal(names, 3);
}

/// An acquire that was refused has no lease: the slice says which stream asked, and for what.
void a_refusal_says_what_was_asked_for(void **) {
  const TimelineFile file = written([](trace::ChromeWriter &writer) {
    auto pool = note<notes::Pool>(notes::pool, 1, 1);
    pool.pool_id = 7;
    std::strcpy(pool.name, "rays");
    writer.take(pool);
    struct Named {
      notes::Buffer note;
      char name[8] = "meshes";
    } named;
    named.note = note<notes::Buffer>(notes::buffer, 1, 2);
    named.note.buffer = 5;
    named.note.pool_id = 7;
    named.note.name_bytes = 6;
    writer.take(named.note);
    struct Asked {
      notes::Acquire note;
      weir_use use = WEIR_USE(nullptr, WEIR_READ);
    } asked;
    asked.note = note<notes::Acquire>(notes::acquire, 1, 9000);
    asked.note.begin_ns = 8000;
    asked.note.pool_id = 7;
    asked.note.uses = asked.note.uses_told = 1;
    asked.note.result = WEIR_ERROR_OVER_BUDGET;
    asked.use.buffer = reinterpret_cast<weir_buffer>(uintptr_t{5});
    writer.take(asked.note);
  });
  const std::vector<Json> refused = file.all("X", "wait");
  assert_int_equal(refused.size(), 1);
  assert_string_equal(refused[0]["name"].get<std::string>().c_str(), "acquire (refused)");
  assert_string_equal(refused[0]["args"]["of"].get<std::string>().c_str(), "meshes");
  assert_string_equal(refused[0]["args"]["pool"].get<std::string>().c_str(), "rays");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_thread_is_named_by_its_work_whatever_it_did_first),
      cmocka_unit_test(a_refusal_says_what_was_asked_for),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
