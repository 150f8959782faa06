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

namespace um {

struct timed_strategy {
  hint_strategy rules;
  std::optional<double> time_ns;  // nothing: it cannot work there, or failed
};

// Strategies one step away from `s`: without one rule, with one rule's numbers or tensors changed, with one
// rule more. Each list holds alternatives of one kind, in the order in which they are tried. All of them pass
// defect_of(), none has the rules of `s`.
struct alternatives {
  std::string what;  // "without a rule", "other numbers of rule fetch"
  std::vector<hint_strategy> all;
};
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
