// What each kind of operator expects of its operands: how many, of which types and extents.
#pragma once

#include <optional>
#include <string>

#include "core/graph.hpp"

namespace um {

// Why the number of operands is wrong or the graph lacks one; nothing if all is well.
std::optional<std::string> operands_missing(const graph& g, const op& o);
// The same of their types, extents and memory order, where none is missing.
std::optional<std::string> operands_defect(const graph& g, const op& o);

}  // namespace um
