// A search over hint strategies: which rules, and with which numbers. It uses only the time of each trial, so
// that equal times lead to the same strategy.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "hints/rules.hpp"
#include "schedule/hill_climber.hpp"

namespace um {

using timed_strategy = rated<hint_strategy, double>;  // nanoseconds

// Strategies one step away from `s`: without one rule, with one rule's numbers or tensors changed, with one
// rule more, each kind by itself ("without a rule", "other numbers of rule fetch"). All of them pass
// defect_of(), none has the rules of `s`.
using alternatives = neighbours<hint_strategy>;
std::vector<alternatives> neighbours_of_strategy(const hint_strategy& s);

// Times strategies; `why` describes them for users. Nothing: stop the search.
using timer = std::function<std::optional<std::vector<std::optional<double>>>(std::span<const hint_strategy>,
                                                                              const std::string& why)>;

struct search_result {
  std::vector<timed_strategy> timed_strategies;  // fastest first; equal ones in the order of trial
  bool was_stopped = false;
};

// Times `starts`, then climbs from the fastest ones to better alternatives, until none is better or `most`
// strategies have been timed. Removes a rule whose absence costs nothing.
search_result search_strategies(std::span<const hint_strategy> starts, std::size_t most, const timer& time);

}  // namespace um
