// SPDX-License-Identifier: Apache-2.0
//
// NUMA: which nodes this system has, with their processors and distances, and where a thread's new memory and the
// thread itself go. Nodes are read once from /sys/devices/system/node; one that is not there (another machine's, as a
// rehearsed topology names them) is never given to the kernel. Placement by node is a wish: whatever the kernel refuses
// changes nothing, and nothing here can make an allocation fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::numa {

inline constexpr uint32_t unknown = UINT32_MAX;

class Nodes {
 public:
  /// `root` is prefixed to every path; tests give a directory with files of their own.
  explicit Nodes(const std::string &root = "");

  /// Those that are online; 0 where the kernel tells of none.
  size_t count() const noexcept { return nodes_.size(); }
  bool has(uint32_t node) const noexcept { return find(node) != nullptr; }
  /// By the firmware's table, 10 within a node; `far` where it has no such nodes.
  uint32_t distance(uint32_t from, uint32_t to) const noexcept;
  static constexpr uint32_t far = 255;
  /// The numbers of the node's processors; none where it has only memory.
  const std::vector<uint32_t> &cpus(uint32_t node) const noexcept;

 private:
  struct Node {
    uint32_t number = 0;
    std::vector<uint32_t> cpus;
    std::vector<uint32_t> distances;  ///< to each of nodes_, in their order
  };
  const Node *find(uint32_t node) const noexcept;

  std::vector<Node> nodes_;
};

/// "0-3,8" as numbers; a text that is no such list gives none.
std::vector<uint32_t> read_list(const std::string &text);

/// The node of the processor that the calling thread is on, or unknown.
uint32_t current_node() noexcept;

/// Where a page of this process lies, or unknown; it must have been touched.
uint32_t node_of(const void *page) noexcept;

/// While it lives, memory that the calling thread is the first to touch comes from this node as long as that has some. Then
/// the thread's own policy is back. Does nothing for a node that is unknown or not the system's.
class PreferNode {
 public:
  PreferNode(const Nodes &nodes, uint32_t node) noexcept;
  ~PreferNode();
  PreferNode(const PreferNode &) = delete;
  PreferNode &operator=(const PreferNode &) = delete;
  bool active() const noexcept { return active_; }

  static constexpr uint32_t most_nodes = 1024;

 private:
  static constexpr size_t words = most_nodes / 64;
  uint64_t mask_[words + 1] = {};  // of the thread's policy before
  int mode_ = 0;
  bool active_ = false;
};

/// The calling thread runs on the node's processors from now on, as far as it was allowed to run there before. False: it
/// stays as it is (a node that is not the system's, the only one, or none of whose processors it may use).
bool stay_on(const Nodes &nodes, uint32_t node) noexcept;

}  // namespace weir::numa
