// SPDX-License-Identifier: Apache-2.0
//
// Running `dot`. It reads and writes files without names, not pipes: neither side can wait for the other.
#include "tools/weir/topo/graphviz.hpp"

#include "tools/weir/error.hpp"
#include "tools/weir/topo/dot.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace weir::tool::topo {
namespace {

using File = std::unique_ptr<FILE, int (*)(FILE *)>;

File nameless_file() {
  File file(std::tmpfile(), std::fclose);
  if (file == nullptr)
    throw ToolError(std::string("--svg: no temporary file can be made: ") + std::strerror(errno));
  return file;
}

std::string text_in(FILE *file) {
  std::string text;
  std::rewind(file);
  char part[65536];
  for (size_t got; (got = std::fread(part, 1, sizeof part, file)) != 0;) text.append(part, got);
  return text;
}

/// The exit status, or -1 if it did not exit by itself.
int run_dot(FILE *input, FILE *output, FILE *errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(input), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(output), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(errors), STDERR_FILENO);
  char name[] = "dot", format[] = "-Tsvg";
  char *arguments[] = {name, format, nullptr};
  pid_t child = 0;
  const int failure = posix_spawnp(&child, name, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT || failure == EACCES)
    throw ToolError(
        "--svg needs Graphviz, whose program 'dot' is not in PATH; on Debian and Ubuntu: apt "
        "install graphviz. "
        "--dot writes the graph without it");
  if (failure != 0)
    throw ToolError(std::string("--svg: dot does not start: ") + std::strerror(failure));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Without the titles, which are the names of nodes in the graph and would be shown under the pointer.
std::string untitled(std::string svg) {
  const std::string begin = "<title>", end = "</title>\n";
  for (size_t from; (from = svg.find(begin)) != std::string::npos;) {
    const size_t to = svg.find(end, from);
    if (to == std::string::npos) throw ToolError("--svg: dot wrote no whole picture");
    svg.erase(from, to + end.size() - from);
  }
  return svg;
}

/// Without what stands before the element, whose width becomes a bound, and with rules for dark pages.
std::string finished(const std::string &svg) {
  const size_t from = svg.find("<svg"), to = from == std::string::npos ? from : svg.find('>', from);
  if (to == std::string::npos) throw ToolError("--svg: dot wrote no picture");
  std::string text = svg.substr(from, to - from);
  text +=
      " style=\"max-width:100%;height:auto\">\n<style>@media (prefers-color-scheme:dark){"
      ":root{background:#12161c}" +
      dark_rules() + "}</style>";
  return text + untitled(svg.substr(to + 1));
}

}  // namespace

std::string svg_by_graphviz(const std::string &dot) {
  const File input = nameless_file(), output = nameless_file(), errors = nameless_file();
  if (std::fwrite(dot.data(), 1, dot.size(), input.get()) != dot.size() ||
      std::fflush(input.get()) != 0)
    throw ToolError(std::string("--svg: the graph cannot be written: ") + std::strerror(errno));
  std::rewind(input.get());
  const int status = run_dot(input.get(), output.get(), errors.get());
  if (status != 0) {
    const std::string said = text_in(errors.get());
    throw ToolError("--svg: dot failed: " + (said.empty() ? "status " + std::to_string(status)
                                                          : said.substr(0, said.find('\n'))));
  }
  return finished(text_in(output.get()));
}

}  // namespace weir::tool::topo
