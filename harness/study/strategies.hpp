// All strategies by name: the tables of planners/ and hints/ together.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/planner.hpp"
#include "hints/rules.hpp"

namespace um {

const std::vector<strategy>& strategies();

// Baseline for the times and results of all strategies.
inline constexpr std::string_view baseline_strategy = "device";

// A strategy found in a table or made from rules.
struct chosen_strategy {
  strategy row;
  std::optional<hint_strategy> rules;  // nothing: the strategy has no rules
  bool has_own_rules = false;          // the rules are not in a table
};
using strategy_choice = std::shared_ptr<const chosen_strategy>;
strategy_choice strategy_from_rules(hint_strategy own_rules);

// Finds a strategy by its name, or by "NAME,without=RULE[,without=RULE...]", which switches off rules of a
// hint strategy. Throws input_error listing the known names.
strategy_choice strategy_named(std::string_view name);

// Switches off the listed rules. Throws input_error listing the strategy's rules.
hint_strategy without_rules(hint_strategy s, const std::vector<std::string>& rules);

}  // namespace um
