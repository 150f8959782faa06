// A search over hint strategies: which rules, and with which numbers. It knows neither networks nor
// backends, only what each trial took, so that the same times lead to the same strategy.
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
std::vector<alternatives> alternatives_to(const hint_strategy& s);

// Times strategies; `why` says for people what they have in common. Nothing: stop.
using timer = std::function<std::optional<std::vector<std::optional<double>>>(std::span<const hint_strategy>,
                                                                              const std::string& why)>;

struct search_result {
  std::vector<timed_strategy> tried;  // the fastest first; equal ones as they were tried
  bool stopped = false;
};

// Times `starts`, then goes from the fastest ones to the best alternative again and again, until none is
// better or `most` strategies have been timed. A rule whose absence costs nothing goes.
search_result search_strategies(std::span<const hint_strategy> starts, std::size_t most, const timer& time);

}  // namespace um
