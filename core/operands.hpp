// The operands that each kind of operator expects: number, types and extents.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/graph.hpp"

namespace um {

// Holds if `Kind` is one of `Kinds`. Visitors use it to treat several kinds of operators alike.
template <class Kind, class... Kinds>
concept kind_among = (std::same_as<Kind, Kinds> || ...);

// The reason why the number of operands is wrong or an operand is not in the graph; nothing if both are
// right.
std::optional<std::string> missing_operands_defect(const graph& g, const op& o);
// The reason why types, extents or memory order of the operands are wrong; nothing if they are right. All
// operands must exist.
std::optional<std::string> operands_defect(const graph& g, const op& o);

// Positions of a parameter among the operands of an optimizer_step. Inputs: the parameter, its gradient, its
// moments, its master. Outputs: the parameter, its moments, its master.
struct stepped_parameter {
  std::size_t parameter_index = 0, output_index = 0;
  bool has_master = false;
};
// The parameters of an optimizer_step that has no missing operands. Surplus operands belong to none.
std::vector<stepped_parameter> stepped_parameters(const graph& g, const op& o);

}  // namespace um
