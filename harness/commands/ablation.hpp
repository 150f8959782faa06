// What each hint is worth: alone against no hint, and left out against the whole set.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/study/record.hpp"
#include "hints/rules.hpp"

namespace um {

struct rule_subset {
  std::string rule;
  hint_strategy rules;
};

struct ablation_plan {
  hint_strategy set;
  std::vector<rule_subset> alone;    // rules that mean something by themselves
  std::vector<rule_subset> without;  // each rule left out, if the others still make a strategy
};
ablation_plan ablation_of(const hint_strategy& set);

// Its strategies in the order in which ablation_text() takes their records: the set, alone, without.
std::vector<hint_strategy> strategies_of(const ablation_plan& plan);

// "helps: 1.42 times as fast", "harmful: 3.1 times as long", "no effect"; why, where the driver's rules say
// so. 2 % either way are no effect.
std::string verdict(double before_ns, double after_ns, std::span<const hint_rule> added);

// Tables for people. `named` are records of named strategies, `managed` among them.
std::string ablation_text(std::span<const record> named, const ablation_plan& plan,
                          std::span<const record> of_plan);

}  // namespace um
