// The comparison that follows a sweep: how much slower than `device` each strategy is.
#pragma once

#include <span>
#include <string>

#include "harness/study/record.hpp"

namespace um {

// One table for each network, batch, pass and backend: a row a strategy, a column a ratio. Cells
// are slowdowns against the fastest `device` of the same group, or times where there is none; `-`
// is infeasible, any other failure its name. Every table says how its times came about.
std::string table_of(std::span<const record> records);

}  // namespace um
