// SPDX-License-Identifier: Apache-2.0
//
// The backend that a run of the tests is about. Tests speak of the host backend's options; for another one they are
// told to its simulated machine and to itself. From the environment:
//
//   WEIR_TEST_BACKEND   host (default), cuda, hip, level_zero, vulkan (on whatever driver there is)
//   WEIR_TEST_DRIVER    the simulated driver's library; without it the backend finds a real one
//   WEIR_TEST_MODE      alias (default) or strict: how the simulated machine keeps device memory from the CPU
//   WEIR_TEST_MACHINE   more options of the simulated machine (tests/drivers/sim/control.h)
//   WEIR_TEST_PAGE      bytes of a page, if not the backend's smallest
//
// Device memory is written and read by kernels. Where the CPU may touch it they are host functions in the stream; where
// not, what they write or read is copied, so that the same tests run on a strict machine and on a real device.
// One context is configured at a time. Whatever a program leaves behind in a simulated machine, or does that its
// driver refuses as misuse, fails the run when the next machine is made, or at the end.
#pragma once

#include <weir/backend.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::test {

class Target {
 public:
  static Target &get();

  const std::string &name() const noexcept { return name_; }
  bool host() const noexcept { return name_ == "host"; }
  bool simulated() const noexcept { return !host() && configure_ != nullptr; }
  /// A device of silicon: tests that need a machine of a certain size or shape have no say in it.
  bool real() const noexcept { return !host() && configure_ == nullptr; }
  /// Whether the CPU may not touch device addresses.
  bool by_copies() const noexcept { return !host() && (real() || strict_); }
  uint64_t page() const noexcept { return page_; }

  /// For weir_context_desc.backends; nullptr for the host backend, which is built in.
  weir_backend_query_fn query() const noexcept;
  /// The options that mean the same here, and the machine made to be so. `page` bytes of the host's text stand for one of
  /// this backend's pages.
  std::string options(std::string_view host_options, uint64_t host_page = 16 * 1024);

  /// The started backend that was made last, for kernels by copies.
  weir_be_state *state() const noexcept;
  const weir_backend_table *table() const noexcept { return real_table_; }
  /// Fails the program if something is left behind in the simulated machine or was misused.
  void inspect();

 private:
  Target();
  void load_backend();
  void load_driver();
  void release_contexts();
  static const weir_backend_table *captured(uint32_t abi_major);

  std::string name_;
  bool strict_ = false;
  uint64_t page_ = 16 * 1024;
  const weir_backend_table *real_table_ = nullptr;
  weir_backend_table table_{};
  std::string machine_;  ///< what the simulated machine is configured as
  int (*configure_)(const char *options) = nullptr;
  const char *(*complaint_)() = nullptr;
  uint64_t (*alive_)(const char **text) = nullptr;
  uint64_t (*misuse_)(const char **text) = nullptr;
  int (*count_devices_)(int *count) = nullptr;  ///< of a HIP runtime
  int (*set_device_)(int device) = nullptr;
  int (*reset_device_)() = nullptr;
};

/// What a kernel does with its range.
enum class Access { read, write };

/// Enqueues a kernel on the stream: function(user), which finds its range at *address. By copies, *address is a piece of
/// pinned memory from now on.
weir_result launch(weir_stream stream, Access access, uint64_t *address, uint64_t bytes,
                   weir_host_function function, void *user);
/// Copies between device and host memory on the stream, and waits for it.
void read_device(weir_stream stream, uint64_t address, void *to, uint64_t bytes);
void write_device(weir_stream stream, uint64_t address, const void *from, uint64_t bytes);

}  // namespace weir::test
