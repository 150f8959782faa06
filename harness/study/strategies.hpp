// Every strategy by name: the tables of planners/ and hints/ as one.
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

// Against its times and results all others are held.
inline constexpr std::string_view baseline_strategy = "device";

// A strategy that was looked up, or came as rules.
struct chosen_strategy {
  strategy row;
  std::optional<hint_strategy> rules;  // nothing: it is not made of rules
  bool own_rules = false;              // they are in no table
};
using strategy_choice = std::shared_ptr<const chosen_strategy>;
strategy_choice strategy_from_rules(hint_strategy own_rules);

// A row's name, or "NAME,without=RULE[,without=RULE...]" for a row of hints with rules switched off.
// Throws input_error listing what is known.
strategy_choice strategy_named(std::string_view name);

// With the rules of that list switched off. Throws input_error listing the strategy's rules.
hint_strategy without_rules(hint_strategy s, const std::vector<std::string>& rules);

}  // namespace um
