// SPDX-License-Identifier: Apache-2.0
//
// The sub-commands of `weir`. Each returns the exit status and throws ToolError for what ends it
// early.
#pragma once

#include "codec_options.hpp"
#include "frag_options.hpp"
#include "replay_options.hpp"

#include <string>
#include <vector>

namespace weir::tool {

/// What `weir topo` was asked for.
struct TopoFlags {
  std::string xml;      ///< "" = this machine
  std::string options;  ///< of the context
  std::string svg;      ///< the picture to write; "" = none
  std::string dot;      ///< the same as a graph in Graphviz's language; "" = none
  bool json = false;
};

/// What `weir calibrate` was asked for.
struct CalibrateFlags {
  double seconds = 5;   ///< for all links together
  std::string options;  ///< of the context
  bool no_save = false;
  bool json = false;
};

/// What `weir doctor` was asked for.
struct DoctorFlags {
  std::vector<std::string> storage;  ///< folders for spilled pages that are to be looked at
  bool json = false;
};

/// What `weir import` was asked for.
struct ImportFlags {
  std::string file;    ///< a pickle
  std::string output;  ///< the trace; compressed if it ends in .zst
  bool json = false;
};

/// What `weir snapshot` was asked for.
struct SnapshotFlags {
  std::string file;    ///< JSON of weir_pool_snapshot
  std::string output;  ///< of what is written; "" = a table, to standard output
  bool memory_viz = false;
};

/// What `weir exporter` was asked for.
struct ExporterFlags {
  std::string listen = "127.0.0.1:9464";
  std::string auth_file;  ///< "" = no password is asked for
  bool once = false;      ///< print the figures, and no more
  bool list = false;      ///< print which metrics there are
};

/// What `weir top` was asked for.
struct TopFlags {
  bool once = false;
  bool json = false;
  double interval = 1;  ///< seconds
  int process = 0;      ///< 0 = all
  std::string sort = "pid";
  std::string filter;
};

int run_devices(bool json);
int run_exporter(const ExporterFlags &flags);
int run_doctor(const DoctorFlags &flags);
int run_calibrate(const CalibrateFlags &flags);
int run_top(const TopFlags &flags);
int run_topo(const TopoFlags &flags);
int run_info(bool json);
int run_replay(const ReplayOptions &options);
int run_frag(const FragOptions &options);
int run_codec(const CodecOptions &options);
int run_import(const ImportFlags &flags);
int run_snapshot(const SnapshotFlags &flags);

}  // namespace weir::tool
