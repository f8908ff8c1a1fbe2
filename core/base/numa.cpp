// SPDX-License-Identifier: Apache-2.0
//
// sysfs and the kernel's calls, which the C library has no functions for.

#include "core/base/numa.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace weir::numa {
namespace {

std::string read_file(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool read_number(const char *&at, const char *end, uint32_t *value) {
  const auto [next, wrong] = std::from_chars(at, end, *value);
  if (wrong != std::errc()) return false;
  at = next;
  return true;
}

}  // namespace

std::vector<uint32_t> read_list(const std::string &text) {
  constexpr uint32_t most = 1U << 16U;
  std::vector<uint32_t> numbers;
  const char *at = text.data();
  const char *end = at + text.size();
  while (at != end && *at != '\n') {
    uint32_t first = 0;
    if (!read_number(at, end, &first)) return {};
    uint32_t last = first;
    if (at != end && *at == '-' && !read_number(++at, end, &last)) return {};
    if (last < first || last >= most) return {};
    for (uint32_t each = first; each <= last; ++each) numbers.push_back(each);
    if (at != end && *at == ',') ++at;
  }
  return numbers;
}

Nodes::Nodes(const std::string &root) {
  const std::string folder = root + "/sys/devices/system/node/";
  for (const uint32_t number : read_list(read_file(folder + "online"))) {
    if (number >= PreferNode::most_nodes) continue;
    const std::string of = folder + "node" + std::to_string(number) + "/";
    Node node{number, read_list(read_file(of + "cpulist")), {}};
    std::istringstream distances(read_file(of + "distance"));
    for (uint32_t distance = 0; distances >> distance;) node.distances.push_back(distance);
    nodes_.push_back(std::move(node));
  }
}

const Nodes::Node *Nodes::find(uint32_t node) const noexcept {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [node](const Node &each) { return each.number == node; });
  return found != nodes_.end() ? &*found : nullptr;
}

uint32_t Nodes::distance(uint32_t from, uint32_t to) const noexcept {
  if (from == unknown || to == unknown) return far;
  if (from == to) return 10;
  const Node *a = find(from);
  const Node *b = find(to);
  if (a == nullptr || b == nullptr) return far;
  const auto column = static_cast<size_t>(b - nodes_.data());
  return column < a->distances.size() ? std::min(a->distances[column], far) : far;
}

const std::vector<uint32_t> &Nodes::cpus(uint32_t node) const noexcept {
  static const std::vector<uint32_t> none;
  const Node *found = find(node);
  return found != nullptr ? found->cpus : none;
}

uint32_t current_node() noexcept {
  unsigned cpu = 0, node = 0;
  return syscall(SYS_getcpu, &cpu, &node, nullptr) == 0 ? node : unknown;
}

uint32_t node_of(const void *page) noexcept {
  int node = -1;
  const long result =
      syscall(SYS_get_mempolicy, &node, nullptr, 0UL, page, MPOL_F_NODE | MPOL_F_ADDR);
  return result == 0 && node >= 0 ? static_cast<uint32_t>(node) : unknown;
}

PreferNode::PreferNode(const Nodes &nodes, uint32_t node) noexcept {
  if (!nodes.has(node)) return;
  if (syscall(SYS_get_mempolicy, &mode_, mask_, uint64_t{most_nodes}, nullptr, 0UL) != 0) return;
  uint64_t wanted[words + 1] = {};
  wanted[node / 64] = uint64_t{1} << (node % 64);
  active_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted, uint64_t{most_nodes}) == 0;
}

PreferNode::~PreferNode() {
  if (!active_) return;
  const bool plain = (mode_ & ~MPOL_MODE_FLAGS) == MPOL_DEFAULT;
  if (syscall(SYS_set_mempolicy, mode_, plain ? nullptr : mask_,
              plain ? uint64_t{0} : uint64_t{most_nodes}) != 0)
    (void)syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0UL);
}

bool stay_on(const Nodes &nodes, uint32_t node) noexcept {
  if (nodes.count() < 2 || !nodes.has(node)) return false;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const uint32_t cpu : nodes.cpus(node))
    if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &wanted);
  return CPU_COUNT(&wanted) != 0 && sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

}  // namespace weir::numa
