// Every strategy by name: the tables of planners/ and hints/ as one.
#pragma once

#include <string_view>
#include <vector>

#include "core/planner.hpp"

namespace um {

const std::vector<strategy>& strategies();

// Throws input_error listing the known ones.
const strategy& strategy_named(std::string_view name);

}  // namespace um
