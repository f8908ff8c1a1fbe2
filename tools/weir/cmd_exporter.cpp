// SPDX-License-Identifier: Apache-2.0
//
// `weir exporter`: the figures of the user's running programs for Prometheus, until the exporter is told to end.
#include "commands.hpp"
#include "error.hpp"
#include "exporter/server.hpp"

#include "core/metrics/text.hpp"

#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

namespace weir::tool {
namespace {

void flush_figures() {
  if (std::fflush(stdout) != 0) throw ToolError("cannot write to standard output");
}

void print_family(const metrics::Family &family) {
  std::printf("| `%s` | %s | %s | %s |\n", family.name, metrics::type_name(family.type),
              family.labels, family.help.c_str());
}

/// As docs/metrics.md has it.
int print_families() {
  std::printf("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n");
  for (const metrics::Family &family : metrics::families()) print_family(family);
  for (const metrics::Family &family : exporter::Collector::own_families()) print_family(family);
  flush_figures();
  return 0;
}

int print_figures() {
  metrics::TextSink sink;
  exporter::Collector().tell(sink);
  const std::string text = sink.take();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw ToolError("cannot write to standard output");
  flush_figures();
  return 0;
}

/// What ends it, which all threads made from now on leave to this one.
sigset_t ending_signals() {
  sigset_t signals;
  (void)sigemptyset(&signals);
  (void)sigaddset(&signals, SIGINT);
  (void)sigaddset(&signals, SIGTERM);
  (void)pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace

int run_exporter(const ExporterFlags &flags) {
  if (flags.list) return print_families();
  if (flags.once) return print_figures();
  exporter::Listen listen = exporter::parse_listen(flags.listen);
  std::optional<exporter::AuthFile> auth;
  if (!flags.auth_file.empty()) {
    auth = exporter::AuthFile::read(flags.auth_file);
  } else if (!listen.loopback) {
    throw ToolError("--listen: " + listen.address +
                    " can be reached by other machines: that needs --auth-file, with a line "
                    "USER:PASSWORD");
  }
  const sigset_t signals = ending_signals();
  const exporter::Server server(listen, std::move(auth), std::make_shared<exporter::Collector>());
  listen.port = server.port();
  std::printf("serving http://%s/metrics\n", listen.text().c_str());
  flush_figures();
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  return 0;
}

}  // namespace weir::tool
