// Every strategy by name: the tables of planners/ and hints/ as one, and hint strategies from files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/planner.hpp"
#include "hints/rules.hpp"

namespace um {

const std::vector<strategy>& strategies();

// A row's name, or "NAME,without=RULE[,without=RULE...]" for a row of hints with rules switched off.
// Throws input_error listing what is known.
strategy strategy_named(std::string_view name);
// The rules behind such a name; nothing for strategies that have none.
std::optional<hint_strategy> rules_named(std::string_view name);

// With the rules of that list switched off. Throws input_error listing the strategy's rules.
hint_strategy without_rules(hint_strategy s, const std::vector<std::string>& rules);

// Whether a strategy is given as a file of rules: "path/to/FILE.json".
bool is_rules_file(std::string_view strategy);
// Its rules, under the name that with_digest gives. Throws input_error.
hint_strategy rules_from_file(const std::string& path);
// Named "NAME#DIGEST" with six digits that depend on all that its file would hold, so that records of two
// versions of a file stay apart.
hint_strategy with_digest(hint_strategy s);

}  // namespace um
