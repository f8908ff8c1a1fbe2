// SPDX-License-Identifier: Apache-2.0
//
// `weir top`: the figures between two looks, the screen without a terminal, what it prints once, and the screen in a terminal (tmux) on
// several programs, of which one is killed and one's page turns to garbage meanwhile. The programs are children of this test, which
// uses no pool itself. WEIR_BIN_DIR says where the command is; without it, and without tmux, the tests that need them skip.
#include "tests/support/watchdog.hpp"
#include "tests/tools/live_home.hpp"
#include "tests/tools/program.hpp"
#include "tools/weir/live/frame.hpp"

#include <weir/weir.h>

#include <nlohmann/json.hpp>

#include <sys/prctl.h>

#include <algorithm>
#include <clocale>
#include <cwchar>
#include <memory>

namespace {

using namespace weir::test;
namespace live = weir::live;
using weir::tool::draw_top;
using weir::tool::LiveContext;
using weir::tool::LiveProgram;
using weir::tool::LiveReader;
using weir::tool::LiveView;
using weir::tool::PoolRates;
using weir::tool::rates_between;
using weir::tool::ScreenLine;
using weir::tool::ScreenRun;
using weir::tool::Top;
using weir::tool::TopChoice;
using weir::tool::TopRow;
using weir::tool::TopSort;

volatile std::sig_atomic_t told_to_end = 0;

/// A program with a pool of the name, that takes what does not fit by turns, until it is told to end. It says that it runs by a
/// byte.
[[noreturn]] void run_a_program(const char *name, int says) {
  struct sigaction end {};
  end.sa_handler = [](int) { told_to_end = 1; };
  (void)sigaction(SIGTERM, &end, nullptr);
  const auto must = [](weir_result result) {
    if (result != WEIR_SUCCESS) {
      std::fprintf(stderr, "the program: %s\n", weir_last_error());
      _exit(3);
    }
  };
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  context_desc.flags = WEIR_CONTEXT_NO_SEARCH;
  context_desc.options = "host.memory=16M;host.granule=64K;host.granule_large=0";
  weir_context context = nullptr;
  must(weir_context_create(&context_desc, &context));
  weir_stream stream = nullptr;
  must(weir_stream_create(context, 0, 0, &stream));
  const weir_pool_device device{0, 0, uint64_t{1} << 20U, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &device;
  desc.device_count = 1;
  desc.host_budget = uint64_t{8} << 20U;
  desc.name = name;
  weir_pool pool = nullptr;
  must(weir_pool_create(context, &desc, &pool));
  weir_client_desc client_desc = WEIR_CLIENT_DESC_INIT;
  client_desc.name = "the tenant";
  weir_client client = nullptr;
  must(weir_client_create(pool, &client_desc, &client));
  std::array<weir_buffer, 8> buffers{};
  for (weir_buffer &buffer : buffers) {
    weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
    buffer_desc.size = uint64_t{256} << 10U;
    buffer_desc.client = client;
    must(weir_buffer_create(pool, &buffer_desc, &buffer));
  }
  for (size_t i = 0; told_to_end == 0; ++i) {
    weir_use use = WEIR_USE(buffers[i % buffers.size()], WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    must(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
    must(weir_release(lease, stream));
    if (i == 2 * buffers.size() && write(says, "r", 1) != 1) _exit(3);
    (void)usleep(2000);  // leaves the machine to others
  }
  for (const weir_buffer buffer : buffers) must(weir_buffer_destroy(pool, buffer));
  must(weir_pool_destroy(pool));
  must(weir_stream_close(stream));
  must(weir_context_destroy(context));
  _exit(0);
}

/// The argument with which this test is such a program.
constexpr const char *as_program = "--program";

class Program {
 public:
  explicit Program(const char *name) {
    int ends[2] = {-1, -1};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    process_ = fork();
    if (process_ == 0) {
      // A program of its own: this process has a watchdog's thread, and a child of such a one may not make threads everywhere.
      (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string says = std::to_string(dup(ends[1]));  // stays open
      (void)execl("/proc/self/exe", "test_top", as_program, name, says.c_str(), nullptr);
      _exit(3);
    }
    (void)close(ends[1]);
    char byte = 0;
    if (read(ends[0], &byte, 1) != 1) fail_msg("the program %s does not run", name);
    (void)close(ends[0]);
  }
  ~Program() {
    if (process_ > 0) (void)end(SIGKILL);
  }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  pid_t process() const { return process_; }
  /// Its exit status; -1: it was killed.
  int end(int signal) {
    (void)kill(process_, signal);
    int status = 0;
    (void)waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = 0;
};

// ---- figures ----

void rates_of_two_looks(void **) {
  const auto before = std::make_unique<live::Pool>(), after = std::make_unique<live::Pool>();
  before->counter_count = after->counter_count = live::counter_count;
  before->reason_count = after->reason_count = live::reason_count;
  const auto set = [](live::Pool &pool, const char *name, uint64_t value) {
    uint32_t at = 0;
#define WEIR_SET(field, meaning)                                 \
  if (std::strcmp(name, #field) == 0) pool.counters[at] = value; \
  ++at;
    WEIR_POOL_STATS_FIELDS(WEIR_SET)
#undef WEIR_SET
  };
  before->written_ns = 1'000'000'000;
  after->written_ns = 3'000'000'000;
  set(*after, "promoted_bytes", 4000);
  set(*after, "refaulted_bytes", 1000);
  set(*after, "hits", 90);
  set(*after, "misses", 10);
  set(*before, "demoted_bytes", 500);  // went backwards
  after->waits[live::wait_copy].total_ns = 1'000'000'000;
  const PoolRates rates = rates_between(*before, *after);
  const auto near = [](double value, double expected) { return std::abs(value - expected) < 1e-9; };
  assert_true(near(rates.up, 2000) && near(rates.down, 0) && near(rates.uses, 50));
  assert_true(near(rates.hit_rate, 0.9) && near(rates.refaults, 0.25) && near(rates.waits, 0.5));
  assert_true(near(rates.waits_for[live::wait_copy], 0.5));
  // Nothing was written meanwhile, or a clock went backwards.
  assert_true(rates_between(*after, *after).up == 0 && rates_between(*after, *before).up == 0);
}

/// A view of made-up programs; `wild`: with names and figures as somebody would choose who means ill.
LiveView made_up(uint32_t programs, bool wild) {
  LiveView view;
  view.now_ns = 5'000'000'000;
  const MadeUpPage page;
  const std::string hostile = "\x1b[2J\xc2\x9b漢字\xffname\t\u202e";
  for (uint32_t i = 0; i < programs; ++i) {
    if (wild) {
      std::memset(&page.slot(0).pool.tiers, 0xff, sizeof page.slot(0).pool.tiers);
      std::memset(&page.slot(0).pool.counters, 0xff, sizeof page.slot(0).pool.counters);
      std::memset(&page.slot(0).pool.devices[0].amounts, 0xff, sizeof(live::Amounts));
      std::memset(&page.slot(0).pool.waits, 0xff, sizeof page.slot(0).pool.waits);
      page.slot(0).pool.written_ns = i;
      page.slot(0).pool.devices[1].id = UINT32_MAX;
      std::strcpy(page.slot(0).pool.name.data(), hostile.c_str());
      std::strcpy(page.slot(0).pool.client[1].name.data(), hostile.c_str());
    }
    LiveProgram program;
    std::string reason;
    LiveContext context;
    program.process = wild ? INT32_MAX : static_cast<pid_t>(1000 + i);
    program.start_time = i;
    if (!read_live_page(page.file(), page.entry(), &context, &program.name, &reason))
      fail_msg("%s", reason.c_str());
    program.name = wild ? weir::tool::live_text(hostile) : "program" + std::to_string(i);
    program.contexts.push_back(std::move(context));
    if (i % 5 == 4) {
      program.contexts.clear();
      program.state = LiveProgram::State::refused;
      program.reason = "slot 3: a value is 12345678901234567890, which is no such value at all";
    }
    view.programs.push_back(std::move(program));
  }
  return view;
}

/// In columns of a terminal; -1: it has what commands one.
int columns_of(const ScreenLine &line, bool utf8) {
  int columns = 0;
  for (const ScreenRun &run : line) {
    for (size_t at = 0; at < run.text.size();) {
      wchar_t wide = 0;
      std::mbstate_t state{};
      const size_t length = std::mbrtowc(&wide, &run.text[at], run.text.size() - at, &state);
      if (length == 0 || length > 4 || (!utf8 && length != 1)) return -1;
      const int width = wcwidth(wide);
      if (width < 0) return -1;
      columns += width;
      at += length;
    }
  }
  return columns;
}

std::string text_of(const std::vector<ScreenLine> &lines) {
  std::string text;
  for (const ScreenLine &line : lines) {
    for (const ScreenRun &run : line) text += run.text;
    text += '\n';
  }
  return text;
}

void any_size_and_any_name(void **) {
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) skip();
  for (const bool wild : {false, true}) {
    for (const uint32_t programs : {0U, 1U, 3U, 20U}) {
      Top top;
      top.take(made_up(programs, wild));
      top.take(made_up(programs, wild));
      for (const auto &[width, height] :
           {std::pair(80, 24), {200, 50}, {1, 1}, {2, 3}, {5, 5}, {39, 10}, {79, 7}, {300, 100}}) {
        for (unsigned way = 0; way < 24; ++way) {
          TopChoice choice;
          choice.utf8 = way % 2 == 0;
          choice.tab = static_cast<TopChoice::Tab>(way % 3);
          choice.help = way % 8 == 7;
          choice.frozen = way % 4 == 1;
          choice.typing = way % 6 == 5;
          choice.filter = way % 8 == 6 ? "zzz" : "";
          choice.selected = way;
          choice.moved = true;
          choice.sort = static_cast<TopSort>(way % static_cast<unsigned>(TopSort::count));
          const auto lines =
              draw_top(top, top.rows(choice.sort, choice.filter), &choice, height, width);
          assert_int_equal(lines.size(), height);
          for (const ScreenLine &line : lines) {
            const int columns = columns_of(line, choice.utf8);
            if (columns < 0 || columns > width)
              fail_msg("%d columns of %d: %s", columns, width, text_of({line}).c_str());
          }
        }
      }
      // Printed once it is as tame, and JSON.
      const auto rows = top.rows(TopSort::process, "");
      for (const unsigned char letter : top_text(top, rows))
        assert_true(letter >= ' ' || letter == '\n');
      const auto json = nlohmann::json::parse(top_json(top, rows));
      assert_int_equal(json["programs"].size(), programs);
    }
  }
}

void order_and_filter(void **) {
  LiveView view = made_up(3, false);
  view.programs[0].name = "zebra";
  view.programs[1].contexts[0].pools[0].tiers[live::device_tier].used = uint64_t{4} << 30U;
  std::strcpy(view.programs[2].contexts[0].pools[1].client[2].name.data(), "Tenant");
  Top top;
  top.take(std::move(view));
  assert_int_equal(top.rows(TopSort::process, "").size(), 6);
  assert_string_equal(top.rows(TopSort::program, "").back().program->name.c_str(), "zebra");
  assert_int_equal(top.rows(TopSort::used, "")[0].program->process, 1001);
  assert_int_equal(top.rows(TopSort::process, "tenant").size(), 1);
  assert_int_equal(top.rows(TopSort::process, "ZEB").size(), 2);
  assert_int_equal(top.rows(TopSort::process, "1002").size(), 2);
  assert_int_equal(top.rows(TopSort::process, "second").size(), 3);
  assert_true(top.rows(TopSort::process, "nobody").empty());
}

/// The pool that was chosen stays so while others come and go.
void a_choice_follows_its_pool(void **) {
  Top top;
  top.take(made_up(4, false));
  TopChoice choice;
  choice.selected = 5;
  choice.moved = true;
  (void)draw_top(top, top.rows(choice.sort, ""), &choice, 24, 80);
  LiveView less = made_up(4, false);
  less.programs.erase(less.programs.begin());
  top.take(std::move(less));
  (void)draw_top(top, top.rows(choice.sort, ""), &choice, 24, 80);
  assert_int_equal(choice.selected, 3);
  top.take(made_up(0, false));
  (void)draw_top(top, top.rows(choice.sort, ""), &choice, 24, 80);
  assert_int_equal(choice.selected, 0);
}

// ---- the command ----

void once(void **) {
  if (!weir_is_there()) skip();
  const LiveHome home;
  // The user's own programs may be running, and are found in /tmp.
  const Outcome nothing =
      run_weir({"top", "--once", "--interval", "0.1", "--filter", "no such name"});
  assert_int_equal(nothing.status, 0);
  assert_true(contains(nothing.output, "no program of this user shows pools"));
  Program first("first pool"), second("second pool");
  const MadeUpPage page;
  page.header().version = 77;
  home.put("1", page.entry().line());
  const Outcome text = run_weir({"top", "--once", "--interval", "0.1"});
  assert_int_equal(text.status, 0);
  for (const std::string &words :
       {std::string("first pool"), std::string("second pool"), std::to_string(first.process()),
        std::string("the version is 77, not 1")})
    if (!contains(text.output, words)) fail_msg("no %s in %s", words.c_str(), text.output.c_str());
  const Outcome printed = run_weir({"top", "--once", "--json", "--interval", "0.3"});
  assert_int_equal(printed.status, 0);
  const auto json = nlohmann::json::parse(printed.output);
  assert_int_equal(json["schema"], 1);
  uint32_t seen = 0, refused = 0;
  for (const auto &program : json["programs"]) {
    if (program["pid"] == getpid()) {
      assert_true(program["state"] == "refused");
      ++refused;
    }
    if (program["pid"] != first.process() && program["pid"] != second.process()) continue;
    ++seen;
    const auto &pool = program["pools"][0];
    assert_true(program["state"] == "seen" && pool["background"] == true);
    assert_true(pool["tiers"]["device"]["budget"] == 1U << 20U);
    assert_true(pool["counters"]["misses"] > 0 && pool["rates"]["up_bytes_per_s"] >= 0);
    assert_true(pool["waits"].size() == live::reason_count && pool["clients"].size() == 2);
    assert_true(pool["clients"][1]["name"] == "the tenant" &&
                pool["clients"][1]["tiers"]["device"]["used"] > 0);
    assert_true(program["contexts"][0]["devices"][0]["backend"] == "host");
  }
  assert_true(seen == 2 && refused == 1);
  const Outcome one = run_weir(
      {"top", "--once", "--json", "--interval", "0.1", "--pid", std::to_string(second.process())});
  const auto only = nlohmann::json::parse(one.output);
  assert_int_equal(only["programs"].size(), 1);
  assert_string_equal(only["programs"][0]["pools"][0]["name"].get<std::string>().c_str(),
                      "second pool");
  // Whoever ends properly takes its line along; of whoever does not, a reader removes it.
  assert_int_equal(first.end(SIGTERM), 0);
  assert_int_equal(home.files(), 2);
  assert_int_equal(second.end(SIGKILL), -1);
  assert_int_equal(home.files(), 2);
  (void)run_weir({"top", "--once", "--interval", "0.1"});
  assert_int_equal(home.files(), 1);
}

void what_is_refused(void **) {
  if (!weir_is_there()) skip();
  const LiveHome home;
  const struct {
    std::vector<std::string> arguments;
    const char *words;
  } cases[] = {{{"top", "--json"}, "--json goes with --once"},
               {{"top", "--once", "--interval", "0"}, "--interval: 0.000000 is not from 0.1"},
               {{"top", "--once", "--interval", "nan"}, "--interval"},
               {{"top", "--once", "--pid", "-4"}, "--pid: -4 is no process"},
               {{"top", "--once", "--interval", "0.1", "--pid", "2147483647"},
                "process 2147483647 shows no pools: there is no such process"},
               {{"top", "--once", "--interval", "0.1", "--pid", std::to_string(getpid())},
                "shows no pools: it has no context of Weir's"},
               {{"top", "--once", "--sort", "sise"}, "--sort: 'sise' is not"},
               {{"top"}, "weir top --once prints"}};
  for (const auto &each : cases) {
    const Outcome outcome = run_weir(each.arguments);
    if (outcome.status != 1 || !contains(outcome.errors, each.words))
      fail_msg("%d, no \"%s\" in %s", outcome.status, each.words, outcome.errors.c_str());
  }
}

/// A terminal of its own, by a server of its own.
class Tmux {
 public:
  Tmux(const LiveHome &home, std::string program, int width, int height)
      : socket_((home.root() / "tmux").string()), program_(std::move(program)) {
    (void)setenv("LC_ALL", "C.UTF-8", 1);
    const Outcome made =
        tmux({"-f", "/dev/null", "new-session", "-d", "-x", std::to_string(width), "-y",
              std::to_string(height), "exec timeout --foreground 200 " + program_});
    if (made.status != 0) fail_msg("tmux: %s", made.errors.c_str());
  }
  ~Tmux() { (void)tmux({"kill-server"}); }
  Tmux(const Tmux &) = delete;
  Tmux &operator=(const Tmux &) = delete;

  std::string screen() const { return tmux({"capture-pane", "-p"}).output; }
  void press(const std::string &key) const { (void)tmux({"send-keys", key}); }
  void resize(int width, int height) const {
    (void)tmux({"resize-window", "-x", std::to_string(width), "-y", std::to_string(height)});
  }
  /// Until the screen has the text, or has it no more.
  std::string await(const std::string &text, bool there = true) const {
    for (;;) {
      const std::string now = screen();
      if (contains(now, text) == there) return now;
      (void)usleep(20'000);
    }
  }
  /// The program's own process, below what ends it should the test not.
  pid_t process() const {
    const std::string above = tmux({"display-message", "-p", "#{pane_pid}"}).output;
    const std::string pane = std::to_string(std::atoi(above.c_str()));
    return std::atoi(weir::test::text_of("/proc/" + pane + "/task/" + pane + "/children").c_str());
  }
  bool ended() const { return tmux({"has-session"}).status != 0; }

 private:
  Outcome tmux(std::vector<std::string> arguments) const {
    std::vector<std::string> all{installed("tmux"), "-S", socket_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run_program(std::move(all));
  }
  std::string socket_, program_;
};

/// What a test has on the screen. It is ended where the test fails, too.
struct Stage {
  LiveHome home;
  std::vector<std::unique_ptr<Program>> programs;
  MadeUpPage page;
  std::unique_ptr<Tmux> screen;
  Watchdog dog;
};
std::unique_ptr<Stage> stage;

int clear_the_stage(void **) {
  stage.reset();
  return 0;
}

/// False: there is no terminal here, or the command has no screen.
bool set_the_stage(std::initializer_list<const char *> pools, const char *interval) {
  if (!weir_is_there()) return false;
  if (installed("tmux").empty() || !weir::tool::has_top_screen()) {
    std::puts("skipped: there is no tmux, or the command has no screen");
    return false;
  }
  stage = std::make_unique<Stage>();
  stage->dog.at("the programs run");
  for (const char *pool : pools) stage->programs.push_back(std::make_unique<Program>(pool));
  if (pools.size() > 1) stage->home.put("1", stage->page.entry().line());
  stage->screen = std::make_unique<Tmux>(
      stage->home, weir_path() + " top --filter test_top --interval " + std::string(interval), 80,
      24);
  stage->dog.at("all are shown");
  return true;
}

void the_screen(void **) {
  if (!set_the_stage({"stage 1st", "stage 2nd", "stage 3rd"}, "0.2")) skip();
  const LiveHome &home = stage->home;
  Program &first = *stage->programs[0], &second = *stage->programs[1], &third = *stage->programs[2];
  const MadeUpPage &page = stage->page;
  const auto good = [&page] {
    page.be_good();
    std::strcpy(page.header().program.data(), "test_top");
    std::strcpy(page.slot(0).pool.name.data(), "made up");
  };
  good();
  const Tmux &screen = *stage->screen;
  Watchdog &dog = stage->dog;
  std::string shown = screen.await("4 programs, 5 pools");
  for (const char *words : {"weir top   4 programs, 5 pools", "stage 1st", "stage 2nd", "stage 3rd",
                            "made up", "F10Quit", "DEVICE", "WAITING"})
    if (!contains(shown, words)) fail_msg("no %s in\n%s", words, shown.c_str());
  dog.at("one is killed");
  assert_int_equal(second.end(SIGKILL), -1);
  shown = screen.await("stage 2nd", false);
  assert_true(contains(shown, "3 programs, 4 pools"));
  dog.at("a page turns to garbage");
  page.slot(5).pool.client_count = 4000;
  shown = screen.await("client_count is 4000");
  assert_true(contains(shown, "stage 1st") && contains(shown, "stage 3rd"));
  good();
  shown = screen.await("client_count", false);
  std::memset(page.bytes(), 0xa5, live::page_bytes);
  shown = screen.await("the mark is");
  good();
  page.slot(0).sequence = page.slot(5).sequence = 1;  // for ever
  shown = screen.await("busy");
  dog.at("keys");
  screen.press("/");
  for (const char *letter : {"3", "r", "d"}) screen.press(letter);
  shown = screen.await("filter: 3rd_");
  screen.press("Enter");
  shown = screen.await("F4Filter:3rd");
  assert_false(contains(shown, "stage 1st"));
  screen.press("Tab");
  shown = screen.await("the tenant");
  screen.press("Tab");
  shown = screen.await("host memory");
  screen.press("F5");
  shown = screen.await("FROZEN");
  screen.press("Escape");
  shown = screen.await("F4Filter:", false);
  screen.press("F6");
  shown = screen.await("F6Sort:program");
  screen.press("F1");
  shown = screen.await("this page, and back");
  screen.press("F1");
  dog.at("sizes");
  screen.resize(200, 50);
  shown = screen.await("COMPRESSED");
  screen.resize(20, 5);
  shown = screen.await("COMPRESSED", false);
  screen.resize(80, 24);
  shown = screen.await("F10Quit");
  dog.at("the end");
  screen.press("q");
  while (!screen.ended()) (void)usleep(20'000);
  assert_int_equal(first.end(SIGTERM), 0);
  assert_int_equal(third.end(SIGTERM), 0);
  assert_int_equal(home.files(), 1);
}

/// A reader that is stopped in the midst of its work, and one that is killed: the program goes on, and ends as it would.
void a_reader_that_is_stopped(void **) {
  if (!set_the_stage({"stage of one"}, "0.1")) skip();
  const LiveHome &home = stage->home;
  Program &program = *stage->programs[0];
  const Tmux &screen = *stage->screen;
  Watchdog &dog = stage->dog;
  (void)screen.await("stage of one");
  const pid_t reader = screen.process();
  assert_int_equal(kill(reader, SIGSTOP), 0);
  const auto misses = [&] {
    const LiveView view = LiveReader(home.where()).look(program.process());
    for (const LiveProgram &each : view.programs)
      for (const LiveContext &context : each.contexts)
        for (const live::Pool &pool : context.pools) return weir::tool::counter_of(pool, "misses");
    return uint64_t{0};
  };
  dog.at("the program goes on");
  uint64_t before = 0;
  while ((before = misses()) == 0) (void)usleep(10'000);
  while (misses() < before + 50) (void)usleep(10'000);
  dog.at("the program goes on without its reader");
  assert_int_equal(kill(reader, SIGKILL), 0);
  before = misses();
  while (misses() < before + 50) (void)usleep(10'000);
  assert_int_equal(program.end(SIGTERM), 0);
  assert_int_equal(home.files(), 0);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 4 && std::strcmp(argv[1], as_program) == 0)
    run_a_program(argv[2], std::atoi(argv[3]));
  const CMUnitTest tests[] = {
      cmocka_unit_test(rates_of_two_looks),
      cmocka_unit_test(any_size_and_any_name),
      cmocka_unit_test(order_and_filter),
      cmocka_unit_test(a_choice_follows_its_pool),
      cmocka_unit_test(once),
      cmocka_unit_test(what_is_refused),
      cmocka_unit_test_teardown(the_screen, clear_the_stage),
      cmocka_unit_test_teardown(a_reader_that_is_stopped, clear_the_stage),
  };
  return cmocka_run_group_tests_name("top", tests, nullptr, nullptr);
}
