// What each kind of operator expects of its operands: how many, of which types and extents.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/graph.hpp"

namespace um {

// Why the number of operands is wrong or the graph lacks one; nothing if all is well.
std::optional<std::string> operands_missing(const graph& g, const op& o);
// The same of their types, extents and memory order, where none is missing.
std::optional<std::string> operands_defect(const graph& g, const op& o);

// Where a parameter and what belongs to it stand among the operands of an optimizer_step: `w`, dw behind it,
// then its moments, then its master; in the outputs `out`, then moments and master.
struct stepped_parameter {
  std::size_t w = 0, out = 0;
  bool has_master = false;
};
// Of an operator whose operands are there; operands that are left over belong to no parameter.
std::vector<stepped_parameter> stepped_parameters(const graph& g, const op& o);

}  // namespace um
