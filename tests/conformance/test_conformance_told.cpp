// SPDX-License-Identifier: Apache-2.0
//
// What a failure tells: wrong bytes explained, the calls under way, failures that the runner knows of while they are held, and
// streams that are waited for before memory goes. The last is shown on a table of entries of the test's own. What the program says
// of backends that crash and hang is shown by the mutants (conformance_told_... in cmake/WeirTreeTests.cmake).

#include "conformance/explain.hpp"
#include "conformance/fixtures.hpp"
#include "tests/support/cmocka.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace weir::conformance;
using Vector = std::vector<std::byte>;

void expect_text(const std::string &is, const std::string &wanted) {
  if (is == wanted) return;
  assert_string_equal(is.c_str(), wanted.c_str());
}

void expect_part(const std::string &text, const std::string &part) {
  if (text.find(part) == std::string::npos) assert_string_equal(text.c_str(), part.c_str());
}

void expect_no_part(const std::string &text, const std::string &part) {
  if (text.find(part) != std::string::npos) assert_string_equal(text.c_str(), "without it");
}

Vector pattern(size_t bytes, uint64_t seed) {
  Vector made(bytes);
  fill_pattern(made, seed);
  return made;
}

void fill(Vector &bytes, size_t from, size_t count, uint8_t value) {
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), count,
              static_cast<std::byte>(value));
}

// ---- bytes

void values_of_the_suite_are_known(void **) {
  const Vector wanted(4096, std::byte{17});
  Vector is = wanted;
  fill(is, 5, 4091, 0xEE);
  expect_text(explain(is, wanted),
              "byte 5 of 4096 is 238 (nothing was copied), not 17; 4091 bytes are wrong, the last "
              "is 4095");
  fill(is, 5, 4091, 0xC3);
  expect_part(explain(is, wanted), "is 195 (what lay around the bytes before), not 17");
  fill(is, 5, 4091, 0);
  expect_part(explain(is, wanted), "is 0 (never written), not 17");
  fill(is, 5, 4091, 3);
  expect_part(explain(is, wanted), "byte 5 of 4096 is 3, not 17; 4091");
  is = wanted;
  fill(is, 4095, 1, 0);
  expect_text(explain(is, wanted),
              "byte 4095 of 4096 is 0 (never written), not 17; no other byte is wrong");
}

void borders_are_named_from_a_page_on(void **) {
  const Vector wanted(size_t{256} << 10U, std::byte{17});
  Vector is = wanted;
  fill(is, size_t{192} << 10U, 10, 3);
  expect_part(explain(is, wanted), "; the first stands at a multiple of 65536");
  is = wanted;
  fill(is, 2048, 10, 3);
  expect_no_part(explain(is, wanted), "multiple");
  is = wanted;
  fill(is, 0, 10, 3);
  expect_no_part(explain(is, wanted), "multiple");
}

void bytes_from_elsewhere_are_found(void **) {
  const Vector wanted = pattern(size_t{256} << 10U, 41);
  Vector is = wanted;
  std::memcpy(is.data() + 8192, wanted.data() + 8192 + 65536, 4096);
  expect_part(explain(is, wanted), "(these bytes belong 65536 bytes further on), not");
  is = wanted;
  std::memcpy(is.data() + 8192, wanted.data() + 4096, 4096);
  expect_part(explain(is, wanted), "(these bytes belong 4096 bytes further back), not");
  // So little may be anything.
  is = wanted;
  std::memcpy(is.data() + 8192, wanted.data() + 8192 + 65536, 4);
  expect_no_part(explain(is, wanted), "belong");
  // What lies behind the bytes that are looked at.
  const auto failed = check_pattern(std::span(wanted).subspan(4096, 4096), 41, "memory").text();
  expect_part(failed, "(these bytes belong 4096 bytes further on), not");
}

void bytes_of_other_seeds_are_found(void **) {
  Vector before(65536);
  make_pattern(before, 3);
  for (uint64_t seed = 100; seed < 120; ++seed) make_pattern(before, seed);
  const Vector wanted = pattern(65536, 43), third = pattern(65536, 3);
  Vector is = wanted;
  std::memcpy(is.data() + 100, third.data() + 100, 1000);
  expect_part(explain(is, wanted), "(the bytes of seed 3, written before), not");
  std::memcpy(is.data() + 100, third.data() + 612, 1000);
  expect_part(explain(is, wanted),
              "(the bytes of seed 3, written before, that belong 512 bytes further on), not");
  // Of the last 64 alone.
  for (uint64_t seed = 200; seed < 264; ++seed) make_pattern(before, seed);
  expect_no_part(explain(is, wanted), "seed");
}

void all_comparisons_explain(void **) {
  const Vector nothing(4096, std::byte{0xEE});
  expect_part(check_value(nothing, 1, "here").text(), "here: byte 0 of 4096 is 238 (nothing was");
  expect_part(check_pattern(nothing, 1, "here").text(), "here: byte 0 of 4096 is 238 (nothing was");
  expect_part(check_same(nothing, Vector(4096), "here").text(), "238 (nothing was copied), not 0");
  assert_true(check_same(nothing, nothing, "here").passed());
  assert_true(check_pattern(pattern(5000, 9), 9, "here").passed());
}

// ---- failures that are held

void a_failure_is_told_while_it_is_held(void **) {
  CallPage &page = call_page();
  page.process = thread_number();
  expect_text(failure_told(page), "");
  {
    const Outcome first = Outcome::failure("the first");
    const Outcome second = Outcome::failure("the second: " + first.text());
    expect_text(failure_told(page), "the first");
    assert_true(failing_episode() != 0 && taking_down(page));
    expect_text(told_end(page, "killed", "outside"),
                "fail: the first; then killed while it was taken down, outside");
  }
  expect_text(failure_told(page), "");
  assert_true(failing_episode() == 0);
  Outcome kept;
  {
    const Outcome inner = Outcome::failure("inner");
    kept = Outcome::failure("device 1: " + inner.text());
  }
  expect_text(failure_told(page), "device 1: inner");
  // A copy holds it as well.
  const Outcome copy = kept;
  kept = Outcome();
  expect_text(failure_told(page), "device 1: inner");
}

void what_is_pending_is_not_told(void **) {
  const Outcome waited = Outcome::pending("not waited");
  assert_false(waited.passed());
  expect_text(failure_told(call_page()), "");
  assert_true(failing_episode() == 0);
  expect_text(told_end(call_page(), "not ended after 2 s", "in x()"),
              "not ended after 2 s, in x()");
}

// ---- calls

const weir_be_fence some_fence = 12;

void calls_are_told_while_they_are_under_way(void **) {
  CallPage &page = call_page();
  page.process = thread_number();
  expect_part(calls_under_way(page, now_ns()), "outside of any call");
  const uint64_t later = now_ns() + 58'400'000'000;
  {
    const Call call(Site::current(), "fence_wait", some_fence, int32_t{-2}, nullptr);
    const std::string text = calls_under_way(page, later);
    expect_part(text, "in fence_wait(12, -2, NULL), called at test_conformance_told.cpp:");
    expect_part(text, ", for 58 s");
    expect_no_part(calls_under_way(page, now_ns()), ", for ");
    std::string both;
    std::thread([&] {
      const Call other(Site::current(), "map", uint32_t{1});
      both = calls_under_way(page, later);
    }).join();
    expect_part(both, "; another thread in map(1), called at ");
    expect_no_part(calls_under_way(page, later), "map");
  }
  expect_part(calls_under_way(page, later),
              "outside of any call, the last of the main thread was fence_wait(12, -2, NULL)");
}

void the_last_calls_are_kept(void **) {
  for (uint32_t i = 0; i < 40; ++i) {
    Call call(Site::current(), "granule_import_fabric", i);
    (void)call.ends(i % 2 == 0 ? WEIR_SUCCESS : WEIR_ERROR_BUSY);
  }
  const std::string text = last_calls(call_page());
  expect_part(
      text,
      "the last calls of the main thread:\n  granule_import_fabric(24) = SUCCESS, called at ");
  expect_part(text, "  granule_import_fabric(39) = BUSY, called at ");
  expect_no_part(text, "granule_import_fabric(23)");
  // What takes things down after a failure pushes none of them out, and is told by itself.
  {
    const Outcome failed = Outcome::failure("a");
    for (uint32_t i = 0; i < 20; ++i) (void)Call(Site::current(), "plain_free", i);
    const std::string both = last_calls(call_page());
    expect_part(
        both,
        "the last calls of the main thread:\n  granule_import_fabric(24) = SUCCESS, called at ");
    expect_part(both,
                "of the main thread after something had failed:\n  plain_free(4), called at ");
  }
  (void)Call(Site::current(), "stream_query", uint32_t{1});
  expect_no_part(last_calls(call_page()), "plain_free");
}

void more_threads_than_slots_do_no_harm(void **) {
  for (int round = 0; round < 3; ++round) {
    const Outcome outcome = in_threads(100, [](uint32_t index) -> Outcome {
      const Call call(Site::current(), "stream_query", index);
      return {};
    });
    assert_true(outcome.passed());
  }
}

// ---- rest

/// What a table of the test's own sees.
struct Seen {
  std::string order;
  int busy = 0;  ///< how often the stream says that it has something to do
  weir_host_function function = nullptr;
  void *user = nullptr;
};
Seen seen;

weir_backend_table watching_table() {
  weir_backend_table table{};
  table.stream_create = [](weir_be_state *, uint32_t, uint64_t, weir_be_stream *stream) {
    *stream = reinterpret_cast<weir_be_stream>(&seen);
    return weir_result{WEIR_SUCCESS};
  };
  table.stream_destroy = [](weir_be_state *, weir_be_stream) {
    seen.order += "destroy ";
    return weir_result{WEIR_SUCCESS};
  };
  table.stream_query = [](weir_be_state *, weir_be_stream) {
    if (seen.busy > 0) return --seen.busy, weir_result{WEIR_NOT_READY};
    seen.order += "idle ";
    return weir_result{WEIR_SUCCESS};
  };
  table.stream_synchronize = [](weir_be_state *, weir_be_stream) {
    seen.order += "synchronized ";
    return weir_result{WEIR_SUCCESS};
  };
  table.stream_host_call = [](weir_be_state *, weir_be_stream, weir_host_function function,
                              void *user) {
    seen.function = function;
    seen.user = user;
    return weir_result{WEIR_SUCCESS};
  };
  table.plain_allocate = [](weir_be_state *, uint32_t, uint64_t, uint64_t, uint64_t *address) {
    *address = 4096;
    return weir_result{WEIR_SUCCESS};
  };
  table.plain_free = [](weir_be_state *, uint32_t, uint64_t, uint64_t) {
    seen.order += "free ";
    return weir_result{WEIR_SUCCESS};
  };
  table.host_allocate = [](weir_be_state *, uint64_t, void **memory) {
    *memory = &seen;
    return weir_result{WEIR_SUCCESS};
  };
  table.host_free = [](weir_be_state *, void *, uint64_t) {
    seen.order += "host_free ";
    return weir_result{WEIR_SUCCESS};
  };
  table.stop = [](weir_be_state *) {};
  return table;
}

struct Scene {
  explicit Scene(int busy) : session(complaints) {
    seen = Seen{};
    seen.busy = busy;
    session.table = watching_table();
    session.state = reinterpret_cast<weir_be_state *>(&seen);
  }
  Complaints complaints;
  Session session;
};

/// The order in which things ended: memory that a stream uses, declared behind the stream.
std::string ends_of(int busy, const Outcome &outcome) {
  Scene scene(busy);
  {
    Stream stream(scene.session);
    Plain plain(scene.session);
    assert_true(stream.create().passed() && plain.allocate(4096).passed());
    (void)outcome;
  }
  return seen.order;
}

void memory_goes_when_streams_are_at_rest(void **) {
  expect_text(ends_of(3, {}), "free destroy ");
  expect_text(ends_of(3, Outcome::failure("a")), "idle synchronized free destroy ");
  expect_text(ends_of(3, Outcome::pending("a")), "free destroy ");
}

void a_failing_step_keeps_its_locals_until_streams_are_at_rest(void **) {
  Scene scene(3);
  const auto step = [&]() -> Outcome {
    Stream stream(scene.session);
    struct Local {
      ~Local() { seen.order += "local "; }
    } local;
    TRY(stream.create());
    CHECK(stream.get() == nullptr, "a check that fails");
    return {};
  };
  assert_false(step().passed());
  expect_text(seen.order, "idle synchronized local destroy ");
}

void gates_are_opened_first(void **) {
  Scene scene(0);
  Stream stream(scene.session);
  Gate gate(scene.session);
  assert_true(stream.create().passed());
  assert_true(gate.hold(stream).passed());
  const Outcome failed = Outcome::failure("a");
  assert_true(come_to_rest());
  // Who comes to the gate now goes through.
  seen.function(seen.user);
  assert_false(gate.gave_up());
}

void a_stream_that_a_test_ended_leaves_memory_to_stop(void **) {
  Scene scene(0);
  {
    Stream stream(scene.session), other(scene.session);
    Plain plain(scene.session);
    assert_true(stream.create().passed() && plain.allocate(4096).passed());
    assert_true(stream.destroy().passed());
    const Outcome failed = Outcome::failure("a");
    assert_false(come_to_rest());
  }
  // No failure is held any more.
  expect_text(seen.order, "destroy free ");
}

void a_mover_ends_its_stream_before_its_memory(void **) {
  Scene scene(0);
  {
    Mover mover(scene.session);
    assert_true(mover.make(64).passed());
  }
  expect_text(seen.order, "destroy host_free ");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(values_of_the_suite_are_known),
      cmocka_unit_test(borders_are_named_from_a_page_on),
      cmocka_unit_test(bytes_from_elsewhere_are_found),
      cmocka_unit_test(bytes_of_other_seeds_are_found),
      cmocka_unit_test(all_comparisons_explain),
      cmocka_unit_test(a_failure_is_told_while_it_is_held),
      cmocka_unit_test(what_is_pending_is_not_told),
      cmocka_unit_test(calls_are_told_while_they_are_under_way),
      cmocka_unit_test(the_last_calls_are_kept),
      cmocka_unit_test(more_threads_than_slots_do_no_harm),
      cmocka_unit_test(memory_goes_when_streams_are_at_rest),
      cmocka_unit_test(a_failing_step_keeps_its_locals_until_streams_are_at_rest),
      cmocka_unit_test(gates_are_opened_first),
      cmocka_unit_test(a_mover_ends_its_stream_before_its_memory),
      cmocka_unit_test(a_stream_that_a_test_ended_leaves_memory_to_stop),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
