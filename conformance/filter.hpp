// SPDX-License-Identifier: Apache-2.0
//
// Which requirements a run is of: globs of ids, of which those with a leading '-' leave out. A glob that matches no
// requirement is mistyped, and is told, never passed over.
#pragma once

#include <string>
#include <vector>

namespace weir::conformance {

class Filter {
 public:
  /// "" or what is wrong with the text: each glob that matches nothing, or that nothing is left. "" chooses all.
  std::string read(const std::string &text);
  bool chooses(const std::string &id) const;

 private:
  std::vector<std::string> with_, without_;
};

/// Whether there is a requirement with such an id.
bool matches_a_requirement(const std::string &glob);

}  // namespace weir::conformance
