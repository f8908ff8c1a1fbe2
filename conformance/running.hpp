// SPDX-License-Identifier: Apache-2.0
//
// A process under test: what it prints and tells, when it ends, and how. Its whole group is killed with it.
#pragma once

#include "conformance/calls.hpp"
#include "conformance/process.hpp"

#include <string>
#include <vector>

namespace weir::conformance {

class Running {
 public:
  Running() = default;
  ~Running();
  Running(Running &&) = delete;
  Running &operator=(Running &&) = delete;

  /// "" or why it could not be started.
  std::string start(const std::vector<std::string> &arguments, uint64_t timeout_ns);
  /// Reads what there is, ends the process if its time is over, and says whether it has ended. One that was killed and
  /// does not end, since it sleeps in its driver, is left behind: then it is stuck(), and nothing waits for it.
  bool step();
  /// Descriptors on which something will come before it ends.
  int told_descriptor() const noexcept { return told_.get(); }
  int output_descriptor() const noexcept { return output_.get(); }
  uint64_t deadline_ns() const noexcept { return deadline_ns_; }

  const std::string &told() const noexcept { return told_text_; }
  const std::string &output() const noexcept { return output_text_; }
  bool timed_out() const noexcept { return timed_out_; }
  bool stuck() const noexcept { return stuck_; }
  /// "" if it ended with status 0.
  std::string bad_end() const;
  uint64_t duration_ns() const noexcept { return ended_ns_ - started_ns_; }
  /// How the process ended, as bad_end() or the runner says it, with what had failed and which calls were under way.
  std::string told_end(const std::string &end) const;
  /// The last calls of each of its threads, "" if it made none.
  std::string last_calls() const;

 private:
  /// For the process's calls.
  Descriptor make_page();

  struct Unmap {
    void operator()(CallPage *page) const noexcept;
  };
  std::unique_ptr<CallPage, Unmap> calls_;
  std::string under_way_;  ///< when its time was over
  Descriptor told_, output_;
  std::string told_text_, output_text_;
  pid_t process_ = -1;
  int status_ = 0;
  bool timed_out_ = false;
  bool stuck_ = false;
  uint64_t started_ns_ = 0, ended_ns_ = 0;
  uint64_t deadline_ns_ = 0;  ///< when to look at the latest
  uint64_t gives_up_ns_ = 0;  ///< on a process that was killed
};

/// Waits until one of them has something to tell, has ended, or has used up its time.
void wait_for_any(const std::vector<Running *> &running);
/// Lets a process run to its end. "" or why it could not be started.
std::string run_to_end(Running &running, const std::vector<std::string> &arguments,
                       uint64_t timeout_ns);

}  // namespace weir::conformance
