// SPDX-License-Identifier: Apache-2.0
//
// `weir exporter`: where it listens, whom it lets ask, what it tells of the user's programs and when their series end, how it ends; and
// that docs/metrics.md has the metrics that there are. Nothing but loopback is used.
#include "tests/tools/live_home.hpp"
#include "tests/tools/program.hpp"
#include "tools/weir/exporter/auth_file.hpp"
#include "tools/weir/exporter/collector.hpp"
#include "tools/weir/exporter/listen.hpp"

#include "core/metrics/text.hpp"

#include <weir/weir.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <thread>

namespace {

using namespace weir::test;
namespace live = weir::live;
namespace metrics = weir::metrics;
using weir::tool::LiveReader;
using weir::tool::exporter::AuthFile;
using weir::tool::exporter::Collector;
using weir::tool::exporter::Listen;
using weir::tool::exporter::parse_listen;

void places_to_listen(void **) {
  const struct {
    const char *text, *shown;
    bool loopback;
  } good[] = {
      {"127.0.0.1:9464", "127.0.0.1:9464", true},
      {"127.8.9.1:1", "127.8.9.1:1", true},
      {"localhost:0", "127.0.0.1:0", true},
      {"[::1]:65535", "[::1]:65535", true},
      {"[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", true},
      {"0.0.0.0:9464", "0.0.0.0:9464", false},
      {"[::]:9464", "[::]:9464", false},
      {"10.0.0.1:80", "10.0.0.1:80", false},
      {"[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.1]:1", false},
  };
  for (const auto &each : good) {
    const Listen listen = parse_listen(each.text);
    assert_string_equal(listen.text().c_str(), each.shown);
    assert_int_equal(listen.loopback, each.loopback);
  }
  // "127.1" and the like mean an address to some and none to others.
  for (const char *bad :
       {"", "9464", "127.0.0.1", ":9464", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
        "127.0.0.1:-1", "127.1:9464", "::1:9464", "[::1]9464", "[127.0.0.1]:9464",
        "example.org:9464", "127.0.0.1:80,0.0.0.0:81", "127.0.0.1 :80", "+9464:1"}) {
    const std::string error = error_of([bad] { (void)parse_listen(bad); });
    if (!contains(error, "--listen: '" + std::string(bad) + "'"))
      fail_msg("%s: %s", bad, error.c_str());
  }
}

void files_of_accounts(void **) {
  const TemporaryFile file("# comment\n\nreader:secret\nother:pass:word\n");
  const AuthFile accounts = AuthFile::read(file.path());
  assert_true(accounts.allows("reader", "secret") && accounts.allows("other", "pass:word"));
  for (const auto &[user, password] :
       std::vector<std::pair<std::string, std::string>>{{"reader", "secre"},
                                                        {"reader", "secrets"},
                                                        {"reader", ""},
                                                        {"", ""},
                                                        {"", "secret"},
                                                        {"reader", "pass:word"},
                                                        {"reade", "secret"},
                                                        {"# comment", ""},
                                                        {"reader", "secretsecret"}})
    assert_false(accounts.allows(user, password));
  const auto refused = [](const std::string &path, const char *words) {
    const std::string error = error_of([&path] { (void)AuthFile::read(path); });
    if (!contains(error, path) || !contains(error, words) || contains(error, "secret"))
      fail_msg("%s, not: %s", error.c_str(), words);
  };
  assert_int_equal(chmod(file.path().c_str(), 0640), 0);
  refused(file.path(), "mode 640");
  refused("/nowhere/file", "No such file");
  refused("/tmp", "no file");
  for (const char *text : {"user\n", ":secret\n", "user:\n"}) {
    const TemporaryFile bad(text);
    refused(bad.path(), "line 1 is not USER:PASSWORD");
  }
  const TemporaryFile empty("#\n");
  refused(empty.path(), "no line");
}

/// A context of this process, with a pool.
class Shown {
 public:
  explicit Shown(const char *pool_name) {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH;
    desc.options = "host.memory=16M;host.granule=16K;host.granule_large=0";
    assert_int_equal(weir_context_create(&desc, &context_), WEIR_SUCCESS);
    const weir_pool_device device = {0, 0, 1 << 20, {0, 0}};
    weir_pool_desc pool = WEIR_POOL_DESC_INIT;
    pool.device_count = 1;
    pool.devices = &device;
    pool.host_budget = 1 << 20;
    pool.flags = WEIR_POOL_NO_BACKGROUND;
    pool.name = pool_name;
    assert_int_equal(weir_pool_create(context_, &pool, &pool_), WEIR_SUCCESS);
  }
  ~Shown() {
    assert_int_equal(weir_pool_destroy(pool_), WEIR_SUCCESS);
    assert_int_equal(weir_context_destroy(context_), WEIR_SUCCESS);
  }
  /// Bytes come back from a buffer of it.
  void works() {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = 1 << 19;
    weir_buffer buffer = nullptr;
    assert_int_equal(weir_buffer_create(pool_, &desc, &buffer), WEIR_SUCCESS);
    std::vector<char> bytes(desc.size, 'x'), back(desc.size);
    assert_int_equal(weir_buffer_write(pool_, buffer, 0, bytes.size(), bytes.data()), WEIR_SUCCESS);
    assert_int_equal(weir_buffer_read(pool_, buffer, 0, back.size(), back.data()), WEIR_SUCCESS);
    assert_true(bytes == back);
    assert_int_equal(weir_buffer_destroy(pool_, buffer), WEIR_SUCCESS);
  }
  Shown(const Shown &) = delete;
  Shown &operator=(const Shown &) = delete;

 private:
  weir_context context_ = nullptr;
  weir_pool pool_ = nullptr;
};

std::string told_by(Collector &collector) {
  metrics::TextSink sink;
  collector.tell(sink);
  return sink.take();
}

std::string budget_line(int program, const char *pool, int number) {
  return "weir_memory_budget_bytes{program=\"test_exporter\",program_number=\"" +
         std::to_string(program) + "\",pool=\"" + pool + "\",pool_number=\"" +
         std::to_string(number) + "\",tier=\"device\",device=\"0\"} 1048576\n";
}

void series_end_with_their_program(void **) {
  const LiveHome home;
  Collector collector{LiveReader(home.where())};
  assert_false(contains(told_by(collector), "weir_buffers"));
  auto first = std::make_unique<Shown>("a pool");
  auto second = std::make_unique<Shown>("a pool");
  std::string text = told_by(collector);
  assert_true(contains(text, budget_line(0, "a pool", 0)) &&
              contains(text, budget_line(1, "a pool", 0)));
  assert_true(contains(text, "weir_exporter_programs{state=\"seen\"} 1\n"));
  assert_true(
      contains(text, "weir_build_info{program=\"test_exporter\",program_number=\"0\",version=\"" +
                         std::string(weir_version_string()) + "\"} 1\n"));
  first.reset();
  text = told_by(collector);
  assert_true(!contains(text, budget_line(0, "a pool", 0)) &&
              contains(text, budget_line(1, "a pool", 0)));
  second.reset();
  assert_false(contains(told_by(collector), "weir_buffers"));
}

void pages_of_others_are_not_believed(void **) {
  const LiveHome home;
  const MadeUpPage page;
  home.put(std::to_string(getpid()), page.entry().line());
  Collector collector{LiveReader(home.where())};
  std::string text = told_by(collector);
  assert_true(contains(
      text, "{program=\"made-up\",program_number=\"0\",pool=\"first\",pool_number=\"0\"}"));
  // More reasons and counters than this version knows, and names that would break the text.
  live::Pool &pool = page.slot(0).pool;
  pool.reason_count = live::most_reasons;
  pool.counter_count = live::most_counters;
  pool.duration_count = live::most_durations;
  std::strcpy(pool.name.data(), "x\"} 1\n");
  std::strcpy(page.header().program.data(), "\\\"");
  page.slot(5).pool.serial = pool.serial;  // two slots, one pool
  page.header().pools_without_slot = 3;
  text = told_by(collector);
  assert_true(contains(
      text, "weir_buffers{program=\"\\\\\\\"\",program_number=\"0\",pool=\"x\\\"} 1\\\\x0a\","));
  assert_true(contains(text, "weir_pools_hidden{program=\"\\\\\\\"\",program_number=\"0\"} 4\n"));
  page.header().version = 77;
  text = told_by(collector);
  assert_false(contains(text, "weir_buffers"));
  assert_true(contains(text, "weir_exporter_programs{state=\"refused\"} 1\n"));
}

void figures_are_printed_once(void **) {
  const LiveHome home;
  const Shown shown("a pool");
  const Outcome outcome = run_weir({"exporter", "--once"});
  assert_int_equal(outcome.status, 0);
  assert_true(contains(outcome.output, budget_line(0, "a pool", 0)));
  const std::string promtool = installed("promtool");
  if (promtool.empty()) return;
  const TemporaryFile text(outcome.output);
  const Outcome checked =
      run_program({"/bin/sh", "-c", "exec \"$0\" check metrics <\"$1\"", promtool, text.path()});
  if (checked.status != 0 || !checked.errors.empty())
    fail_msg("%s%s", checked.output.c_str(), checked.errors.c_str());
}

void the_documentation_has_all_metrics(void **) {
  const Outcome outcome = run_weir({"exporter", "--list"});
  assert_int_equal(outcome.status, 0);
  const char *source = std::getenv("WEIR_SOURCE_DIR");
  if (source == nullptr) skip();
  const std::string page = text_of(std::string(source) + "/docs/metrics.md");
  if (!contains(page, "\n" + outcome.output + "\n"))
    fail_msg("docs/metrics.md does not have this table:\n%s", outcome.output.c_str());
}

void refusals(void **) {
  const auto refused = [](std::vector<std::string> arguments, const char *words) {
    arguments.insert(arguments.begin(), "exporter");
    const Outcome outcome = run_weir(arguments);
    assert_int_equal(outcome.status, 1);
    assert_string_equal(outcome.output.c_str(), "");
    if (!contains(outcome.errors, words)) fail_msg("%s, not: %s", outcome.errors.c_str(), words);
  };
  refused({"--listen", "0.0.0.0:0"}, "0.0.0.0 can be reached by other machines");
  refused({"--listen", "[::]:0"}, ":: can be reached by other machines");
  refused({"--listen", "nowhere:0"}, "'nowhere:0'");
  // TEST-NET-1 is nobody's.
  const TemporaryFile accounts("reader:secret\n");
  refused({"--listen", "192.0.2.1:0", "--auth-file", accounts.path()},
          "Cannot assign requested address");
  refused({"--auth-file", "/nowhere/file"}, "/nowhere/file");
  refused({"--once", "--listen", "127.0.0.1:0"}, "--listen");
}

// ---- as a server ----

/// An exporter that runs, until this ends.
class Exporter {
 public:
  explicit Exporter(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {weir_path(), "exporter"});
    std::vector<char *> pointers;
    for (std::string &argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    int output[2];
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    child_ = fork();
    if (child_ == 0) {
      dup2(output[1], STDOUT_FILENO);
      dup2(errors_fd(), STDERR_FILENO);
      execv(pointers[0], pointers.data());
      _exit(127);
    }
    close(output[1]);
    for (char letter = 0; letter != '\n' && read(output[0], &letter, 1) == 1;) line_ += letter;
    close(output[0]);
    const size_t colon = line_.rfind(':');
    if (colon != std::string::npos)
      port_ = static_cast<uint16_t>(std::atoi(line_.c_str() + colon + 1));
  }
  ~Exporter() {
    if (child_ > 0) (void)end(SIGKILL);
  }
  Exporter(const Exporter &) = delete;
  Exporter &operator=(const Exporter &) = delete;

  const std::string &line() const { return line_; }
  std::string errors() const { return text_of(errors_.path()); }
  uint16_t port() const { return port_; }
  /// Its exit status; -1: it was killed.
  int end(int signal) {
    int status = 0;
    if (signal != 0) assert_int_equal(kill(child_, signal), 0);
    assert_int_equal(waitpid(child_, &status, 0), child_);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int errors_fd() const { return open(errors_.path().c_str(), O_WRONLY | O_CLOEXEC); }

  TemporaryFile errors_{""};
  pid_t child_ = 0;
  uint16_t port_ = 0;
  std::string line_;
};

int connected_to(uint16_t port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(file, reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
  return file;
}

/// The whole answer, head and all.
std::string get(uint16_t port, const std::string &path, const std::string &more = "") {
  const int file = connected_to(port);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + more + "\r\n";
  assert_int_equal(send(file, request.data(), request.size(), MSG_NOSIGNAL), request.size());
  std::string answer;
  char part[4096];
  for (ssize_t got = 0; (got = recv(file, part, sizeof part, 0)) > 0;)
    answer.append(part, static_cast<size_t>(got));
  close(file);
  return answer;
}

/// A weir that was built without prometheus-cpp serves nothing, and says so.
bool serves(Exporter &exporter) {
  if (exporter.port() != 0) return true;
  assert_int_equal(exporter.end(0), 1);
  assert_true(contains(exporter.errors(), "prometheus-cpp"));
  std::puts("skipped: this weir was built without prometheus-cpp");
  return false;
}

void it_serves_and_ends(void **) {
  const LiveHome home;
  const Shown shown("a pool");
  for (const int signal : {SIGTERM, SIGINT}) {
    Exporter exporter({"--listen", "127.0.0.1:0"});
    if (!serves(exporter)) skip();
    const std::string line = exporter.line(), answer = get(exporter.port(), "/metrics");
    assert_string_equal(
        line.c_str(),
        ("serving http://127.0.0.1:" + std::to_string(exporter.port()) + "/metrics\n").c_str());
    assert_true(answer.starts_with("HTTP/1.1 200 OK\r\n"));
    assert_true(contains(answer, "text/plain"));
    assert_true(contains(answer, "weir_memory_budget_bytes{program=\"test_exporter\","));
    assert_true(contains(get(exporter.port(), "/"), " 404 "));
    assert_int_equal(exporter.end(signal), 0);
    assert_string_equal(exporter.errors().c_str(), "");
  }
}

/// In the midst of an answer, or of nothing: for the program nothing changes, and the next one serves it.
void one_that_is_killed_changes_nothing(void **) {
  const LiveHome home;
  Shown shown("a pool");
  for (const bool asks : {false, true}) {
    Exporter exporter({"--listen", "127.0.0.1:0"});
    if (!serves(exporter)) skip();
    assert_true(contains(get(exporter.port(), "/metrics"), "pool=\"a pool\""));
    const int file = asks ? connected_to(exporter.port()) : -1;
    if (asks) {
      const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
      assert_int_equal(send(file, request.data(), request.size(), MSG_NOSIGNAL), request.size());
    }
    assert_int_equal(exporter.end(SIGKILL), -1);
    if (asks) close(file);
    shown.works();
    assert_int_equal(home.files(), 1);
  }
  Exporter next({"--listen", "127.0.0.1:0"});
  assert_true(contains(get(next.port(), "/metrics"), "pool=\"a pool\""));
  assert_int_equal(next.end(SIGTERM), 0);
}

void it_asks_who_it_is(void **) {
  const LiveHome home;
  const TemporaryFile accounts("reader:secret\n");
  Exporter exporter({"--listen", "127.0.0.1:0", "--auth-file", accounts.path()});
  if (!serves(exporter)) skip();
  const auto asked = [&exporter](const char *word) {
    return get(exporter.port(), "/metrics",
               *word != '\0' ? std::string("Authorization: Basic ") + word + "\r\n" : "");
  };
  assert_true(asked("cmVhZGVyOnNlY3JldA==").starts_with("HTTP/1.1 200"));  // reader:secret
  assert_true(asked("cmVhZGVyOnNlY3JldHM=").starts_with("HTTP/1.1 401"));  // reader:secrets
  assert_true(asked("cmVhZGVyOg==").starts_with("HTTP/1.1 401"));          // reader:
  assert_true(asked("").starts_with("HTTP/1.1 401"));
  assert_true(asked("!!!!").starts_with("HTTP/1.1 401"));
  assert_false(contains(asked(""), "weir_exporter"));
  assert_int_equal(exporter.end(SIGTERM), 0);
}

void a_port_that_is_taken_is_named(void **) {
  const LiveHome home;
  Exporter exporter({"--listen", "127.0.0.1:0"});
  if (!serves(exporter)) skip();
  const std::string place = "127.0.0.1:" + std::to_string(exporter.port());
  const Outcome outcome = run_weir({"exporter", "--listen", place});
  assert_int_equal(outcome.status, 1);
  assert_true(contains(outcome.errors, "can't listen on " + place));
  assert_int_equal(exporter.end(SIGTERM), 0);
}

/// Who sends garbage, or nothing, is in nobody's way, and who asks at once with others gets the same.
void many_ask_and_some_mean_ill(void **) {
  const LiveHome home;
  const Shown shown("a pool");
  Exporter exporter({"--listen", "127.0.0.1:0"});
  if (!serves(exporter)) skip();
  const int silent = connected_to(exporter.port());
  const int garbage = connected_to(exporter.port());
  const std::string bytes(20'000, '\x01');
  (void)send(garbage, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::vector<std::thread> askers;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i)
    askers.emplace_back([&] {
      for (int turn = 0; turn < 5; ++turn)
        if (contains(get(exporter.port(), "/metrics"),
                     "weir_memory_budget_bytes{program=\"test_exporter\","))
          ++good;
    });
  for (std::thread &asker : askers) asker.join();
  assert_int_equal(good.load(), 20);
  close(silent);
  close(garbage);
  assert_int_equal(exporter.end(SIGTERM), 0);
}

}  // namespace

int main() {
  if (!weir_is_there()) return skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(places_to_listen),
      cmocka_unit_test(files_of_accounts),
      cmocka_unit_test(series_end_with_their_program),
      cmocka_unit_test(pages_of_others_are_not_believed),
      cmocka_unit_test(figures_are_printed_once),
      cmocka_unit_test(the_documentation_has_all_metrics),
      cmocka_unit_test(refusals),
      cmocka_unit_test(it_serves_and_ends),
      cmocka_unit_test(one_that_is_killed_changes_nothing),
      cmocka_unit_test(it_asks_who_it_is),
      cmocka_unit_test(a_port_that_is_taken_is_named),
      cmocka_unit_test(many_ask_and_some_mean_ill),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
