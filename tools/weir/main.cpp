// SPDX-License-Identifier: Apache-2.0
//
// The `weir` command: declares and parses the command line, and hands over. Everything that goes
// wrong ends here as one sentence on stderr and exit status 1, or 2 if the command line names no
// command. It and trace_flags.cpp, which has the flags of what reads traces, are the only files that include CLI11, which is slow to compile. The name of an option's value tells also
// what a shell may complete there: FILE, DIR, or the set that it is one of (completion.hpp).
#include "allocator_replay.hpp"
#include "choices.hpp"
#include "commands.hpp"
#include "completion.hpp"
#include "error.hpp"
#include "job.hpp"
#include "trace_flags.hpp"
#include "usage.hpp"

#include "tools/virtual_time/virtual_time.hpp"

#include <weir/weir.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <utility>

namespace {

using weir::tool::AllocatorFlags;
using weir::tool::CalibrateFlags;
using weir::tool::Choices;
using weir::tool::CodecFlags;
using weir::tool::CommandRow;
using weir::tool::CommandTable;
using weir::tool::DoctorFlags;
using weir::tool::ExporterFlags;
using weir::tool::FragFlags;
using weir::tool::ImportFlags;
using weir::tool::one_of;
using weir::tool::OptionRow;
using weir::tool::ReplayFlags;
using weir::tool::SnapshotFlags;
using weir::tool::ToolError;
using weir::tool::TopFlags;
using weir::tool::TopoFlags;
using weir::tool::UsageError;

/// Before the program has a second thread.
void begin_virtual_time() {
  if (!weir::virtual_time::available())
    throw ToolError(
        "--virtual: this program was built with a sanitizer, which has its own threads and clocks");
  (void)setenv("WEIR_LIVE", "0", 1);  // a reader outside has another clock
  weir::virtual_time::start();
  weir::tool::JobRing::sleeps_are_exact = true;
}

void add_codec_flags(CLI::App &command, CodecFlags &flags) {
  command.add_option("files", flags.files, "files of raw bytes, as device memory has them")
      ->required()
      ->type_name("FILE");
  command
      .add_option(
          "--codec", flags.codecs,
          "fast and dense: what pays; more than one: each [default: fast, dense, lz4, zstd]")
      ->allow_extra_args(false)
      ->type_name(one_of(weir::tool::codec_choices()));
  command
      .add_option("--element", flags.element, "what the bytes are [default: found out by looking]")
      ->type_name(one_of(weir::tool::element_choices()));
  command.add_option("--mib", flags.mib, "repeat a file's bytes to at least so many MiB")
      ->capture_default_str();
  command
      .add_option("--seconds", flags.seconds,
                  "measure memcpy, compression and decompression for at least so long each")
      ->capture_default_str();
  command.add_flag("--json", flags.json, "print the figures as JSON");
}

void add_topo_flags(CLI::App &command, TopoFlags &flags) {
  command
      .add_option("--xml", flags.xml,
                  "a machine's topology, as hwloc's lstopo exports it, instead of this machine's")
      ->type_name("FILE");
  command.add_option("--options", flags.options, "options of the context, \"key=value;...\"");
  command
      .add_option("--svg", flags.svg,
                  "write a picture to this file; needs Graphviz (Debian: graphviz)")
      ->type_name("FILE");
  command
      .add_option("--dot", flags.dot,
                  "write the picture's graph to this file, in Graphviz's language")
      ->type_name("FILE");
  command.add_flag("--json", flags.json, "print JSON");
}

void add_calibrate_flags(CLI::App &command, CalibrateFlags &flags) {
  command.add_option("--seconds", flags.seconds, "time for all links together")
      ->capture_default_str();
  command.add_flag("--no-save", flags.no_save, "measure only; later runs do not see the figures");
  command.add_option("--options", flags.options, "options of the context, \"key=value;...\"");
  command.add_flag("--json", flags.json, "print JSON");
}

void add_doctor_flags(CLI::App &command, DoctorFlags &flags) {
  command
      .add_option("--storage", flags.storage,
                  "look at this directory for spilled pages, too; more than one: at each")
      ->allow_extra_args(false)
      ->type_name("DIR");
  command.add_flag("--json", flags.json, "print JSON");
}

void add_exporter_flags(CLI::App &command, ExporterFlags &flags) {
  CLI::Option *listen =
      command
          .add_option("--listen", flags.listen,
                      "where to listen; port 0: the system chooses one, which is printed")
          ->capture_default_str()
          ->type_name("ADDRESS:PORT");
  CLI::Option *auth =
      command
          .add_option("--auth-file", flags.auth_file,
                      "who may ask: a file of lines USER:PASSWORD that is its owner's alone; other "
                      "addresses than loopback need one")
          ->type_name("FILE");
  CLI::Option *once =
      command.add_flag("--once", flags.once, "print the figures to standard output, and end");
  CLI::Option *list =
      command.add_flag("--list", flags.list, "print a table of all metrics, and end");
  once->excludes(listen)->excludes(auth);
  list->excludes(listen)->excludes(auth)->excludes(once);
}

void add_top_flags(CLI::App &command, TopFlags &flags) {
  command.add_flag("--once", flags.once, "print it once instead, after two looks --interval apart");
  command.add_flag("--json", flags.json, "with --once: print JSON");
  command.add_option("--interval", flags.interval, "seconds between two looks")
      ->capture_default_str();
  command.add_option("--pid", flags.process, "only this process [default: all]");
  command.add_option("--sort", flags.sort, "the order of pools")
      ->capture_default_str()
      ->type_name(one_of(weir::tool::sort_choices()));
  command.add_option("--filter", flags.filter,
                     "only what has this text in its program, pool or client, or is this process");
}

/// A command as shells are told of it.
CommandRow row_of(const CLI::App &command) {
  CommandRow row{command.get_name(), command.get_description(), {}};
  for (const CLI::Option *option : command.get_options()) {
    OptionRow &entry = row.options.emplace_back();
    for (const std::string &name : option->get_snames()) entry.names.push_back("-" + name);
    for (const std::string &name : option->get_lnames()) entry.names.push_back("--" + name);
    entry.meaning = option->get_description();
    if (option->get_items_expected_max() != 0)
      entry.value = weir::tool::value_kind(option->get_type_name());
    entry.repeats = option->get_items_expected_max() > 1;
  }
  return row;
}

CommandTable table_of(const CLI::App &app) {
  CommandTable table = {row_of(app)};
  for (const CLI::App *command : app.get_subcommands({})) table.push_back(row_of(*command));
  return table;
}

/// The word, and what it may have been.
std::string unknown_option(const CLI::App &app, const std::string &command,
                           const std::string &word) {
  const CommandRow row = row_of(app);
  Choices options;
  for (const OptionRow &option : row.options)
    options.insert(options.end(), option.names.begin(), option.names.end());
  return weir::tool::no_such_option(command, word, options);
}

/// An option that the command does not have, and that stands among its arguments: CLI11 would list these with it.
void refuse_option(const CLI::App &command) {
  for (const std::string &word : command.remaining())
    if (word.starts_with('-')) throw ToolError(unknown_option(command, command.get_name(), word));
}

/// "snapshot is required" is what CLI11 says of an argument that is not there, "--output is required" of an option.
std::string text_of(const CLI::ParseError &error) {
  const std::string text = error.what();
  constexpr std::string_view ending = " is required";
  if (error.get_name() != "RequiredError" || !text.ends_with(ending)) return text;
  const std::string what = text.substr(0, text.size() - ending.size());
  return what.starts_with('-') ? "the option " + what + " is missing" : "no " + what + " given";
}

/// What CLI11 says of a command's own arguments that it can't parse; of what stands before a command or in its place,
/// what we do.
[[noreturn]] void refuse(const CLI::App &app, const CLI::ParseError &error) {
  const std::vector<CLI::App *> parsed = app.get_subcommands();
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty() && !parsed.empty()) {
    refuse_option(*parsed.front());
    throw ToolError(text_of(error) + " (see weir " + parsed.front()->get_name() + " --help)");
  }
  if (rest.empty()) throw UsageError(text_of(error) + " (see weir --help)");
  if (rest.front().starts_with('-')) throw UsageError(unknown_option(app, "", rest.front()));
  Choices commands;
  for (const CLI::App *command : app.get_subcommands({})) commands.push_back(command->get_name());
  throw UsageError(weir::tool::no_such_command(rest.front(), commands));
}

int print_completion(const std::string &script) {
  if (std::fputs(script.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw ToolError("cannot write to standard output");
  return 0;
}

/// The commands: what each takes, and what runs it.
class Program {
 public:
  Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  int run(int argc, char **argv);

 private:
  struct Command {
    CLI::App *app;
    std::function<int()> run;
  };

  CLI::App &add(const char *name, const char *meaning, std::function<int()> run) {
    CLI::App *command = app_.add_subcommand(name, meaning);
    commands_.push_back({command, std::move(run)});
    return *command;
  }
  int replay() const;

  CLI::App app_{"Weir, a portable virtual-GPU-memory manager", "weir"};
  std::vector<Command> commands_;
  bool devices_json_ = false;
  bool info_json_ = false;
  TopoFlags topo_;
  CalibrateFlags calibrate_;
  DoctorFlags doctor_;
  ExporterFlags exporter_;
  TopFlags top_;
  ReplayFlags replay_;
  AllocatorFlags allocator_;
  FragFlags frag_;
  CodecFlags codec_;
  ImportFlags import_;
  SnapshotFlags snapshot_;
  std::string shell_;
};

Program::Program() {
  using namespace weir::tool;
  app_.set_version_flag("--version", std::string("weir ") + weir_version_string());
  app_.require_subcommand(1);
  add("devices", "list backends and their devices", [this] {
    return run_devices(devices_json_);
  }).add_flag("--json", devices_json_, "print JSON");
  add_topo_flags(add("topo", "show places, devices and the links between them",
                     [this] { return run_topo(topo_); }),
                 topo_);
  add_calibrate_flags(add("calibrate", "measure the links, for this user's later runs",
                          [this] { return run_calibrate(calibrate_); }),
                      calibrate_);
  add("info", "show version, build, limits and options", [this] {
    return run_info(info_json_);
  }).add_flag("--json", info_json_, "print JSON");
  add_doctor_flags(add("doctor", "check what limits Weir here, and say what to change",
                       [this] { return run_doctor(doctor_); }),
                   doctor_);
  add_exporter_flags(add("exporter", "serve the figures of running programs to Prometheus",
                         [this] { return run_exporter(exporter_); }),
                     exporter_);
  add_top_flags(add("top", "watch the pools of running programs", [this] { return run_top(top_); }),
                top_);
  CLI::App &traces = add("replay", "run an allocation and use trace under a memory budget",
                         [this] { return replay(); });
  add_replay_flags(traces, replay_);
  add_allocator_flags(traces, allocator_);
  add_frag_flags(add("frag", "draw how a trace lies in memory",
                     [this] { return run_frag(check_frag_flags(frag_)); }),
                 frag_);
  add_codec_flags(add("codec", "measure what compression makes of files",
                      [this] { return run_codec(check_codec_flags(codec_)); }),
                  codec_);
  add_import_flags(add("import", "make a trace of a memory snapshot of PyTorch",
                       [this] { return run_import(import_); }),
                   import_);
  add_snapshot_flags(add("snapshot", "show what a pool's snapshot says",
                         [this] { return run_snapshot(snapshot_); }),
                     snapshot_);
  add("completion", "print a script by which a shell completes command lines",
      [this] { return print_completion(completion_script(shell_, table_of(app_))); })
      .add_option("shell", shell_, "the shell it is for")
      ->required()
      ->type_name(one_of(shell_choices()));
}

int Program::replay() const {
  using namespace weir::tool;
  if (allocator_.allocator_only)
    return run_allocator_replay(check_allocator_flags(allocator_, replay_.trace, replay_.granule,
                                                      replay_.json, replay_.json_out));
  const ReplayOptions options = check_replay_flags(replay_);
  if (options.virtual_time) begin_virtual_time();
  return run_replay(options);
}

int Program::run(int argc, char **argv) {
  if (argc <= 1) {
    std::fputs(app_.help().c_str(), stderr);
    return weir::tool::usage_status;
  }
  if (argc == 2 && std::string_view(argv[1]) == "help") {
    std::fputs(app_.help().c_str(), stdout);
    return 0;
  }
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) return app_.exit(error);  // --help, --version
    refuse(app_, error);
  }
  for (const Command &command : commands_)
    if (command.app->parsed()) return command.run();
  throw UsageError("no command was named (see weir --help)");
}

}  // namespace

int main(int argc, char **argv) {
  try {
    return Program().run(argc, argv);
  } catch (const UsageError &error) {
    std::fprintf(stderr, "weir: %s\n", error.what());
    return weir::tool::usage_status;
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "weir: out of memory\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "weir: %s\n", error.what());
  }
  return 1;
}
