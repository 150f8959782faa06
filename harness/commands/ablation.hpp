// Measures the effect of each hint: alone compared with no hint, and left out of the whole set.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/study/record.hpp"
#include "hints/rules.hpp"

namespace um {

struct rule_subset {
  std::string rule_name;
  hint_strategy rules;
};

struct ablation_plan {
  hint_strategy all_rules;
  std::vector<rule_subset> single_rules;      // strategies of one rule, where a rule alone is valid
  std::vector<rule_subset> without_one_rule;  // strategies without one rule, where the others are valid
};
ablation_plan plan_ablation(const hint_strategy& set);

// The strategies of the plan in the order that ablation_text() expects: the whole set, single rules, without
// one rule.
std::vector<hint_strategy> strategies_of(const ablation_plan& plan);

// "helps: 1.42 times as fast", "harmful: 3.1 times as long", "no effect"; Adds the reason if the driver's
// rules give one. A difference of up to 2 % counts as no effect.
std::string verdict(double before_ns, double after_ns, std::span<const hint_rule> added);

// Tables for users. `named` has records of catalogue strategies, among them `managed`.
std::string ablation_text(std::span<const record> named, const ablation_plan& plan,
                          std::span<const record> of_plan);

}  // namespace um
