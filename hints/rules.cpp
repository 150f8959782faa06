#include "hints/rules.hpp"

#include <array>
#include <stdexcept>

namespace um {
namespace {

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
}

bool can_have_twin(role use) {
  return use == role::input || use == role::activation || use == role::activation_gradient;
}

// The reason why a rule is invalid by itself; nothing if it is valid.
std::optional<std::string> defect_of(const hint_rule& r) {
  if (!is_plain_name(r.name)) return "its name: use lower-case letters, digits and '_'";
  if (const auto* p = std::get_if<residence_rule>(&r.policy); p != nullptr) {
    if (p->where == residence::staged || p->where == residence::twinned) {
      return "residence " + std::string(to_text(p->where)) +
             " needs copies at the right moments; use managed, device or host here, and evict by twin";
    }
  }
  if (const auto* e = std::get_if<evict_rule>(&r.policy); e != nullptr && e->means == evict_means::twin) {
    for (const role use : r.tensors.roles) {
      if (!can_have_twin(use)) {
        return "a " + std::string(to_text(use)) +
               " outlives the iteration and cannot leave by twin; name input, activation, "
               "activation_gradient";
      }
    }
  }
  return {};
}

// The member's value if all rules that have it agree; nothing if they differ or no rule has it.
template <class Rule, class Counts>
std::optional<std::int64_t> value_shared_by_rules(const hint_strategy& s, std::int64_t Rule::* member,
                                                  Counts&& counts) {
  std::optional<std::int64_t> value;
  for (const hint_rule& r : s.rules) {
    const auto* one = std::get_if<Rule>(&r.policy);
    if (one == nullptr || !counts(*one)) continue;
    if (value && *value != one->*member) return {};
    value = one->*member;
  }
  return value;
}

constexpr auto by_operators = [](const prefetch_rule& r) { return r.unit == look_ahead_unit::operators; };
constexpr auto by_gap = [](const evict_rule& r) {
  return r.when == evict_when::after_use || r.order == evict_order::not_soon;
};

}  // namespace

std::optional<std::string> defect_of(const hint_strategy& s) {
  std::size_t pressures = 0;
  bool moves = false;
  for (std::size_t i = 0; i < s.rules.size(); ++i) {
    const hint_rule& r = s.rules[i];
    if (const auto wrong = defect_of(r)) return "rule " + r.name + ": " + *wrong;
    for (std::size_t k = 0; k < i; ++k) {
      if (s.rules[k].name == r.name) return "rule " + r.name + ": two rules have this name; rename one";
    }
    const auto* e = std::get_if<evict_rule>(&r.policy);
    if (e != nullptr && e->when == evict_when::pressure && ++pressures > 1) {
      return "rule " + r.name + ": another rule evicts under pressure already; keep one";
    }
    moves = moves || (e != nullptr && e->when == evict_when::pressure);
  }
  for (const hint_rule& r : s.rules) {
    if (std::holds_alternative<search_rule>(r.policy) && !moves) {
      return "rule " + r.name + ": there is nothing to search over; add a rule that evicts under pressure";
    }
  }
  return {};
}

hint_strategy without_rule(hint_strategy s, std::string_view rule) {
  const auto gone = std::erase_if(s.rules, [&](const hint_rule& r) { return r.name == rule; });
  if (gone == 0) {
    std::string known;
    for (const hint_rule& r : s.rules) known += (known.empty() ? "" : ", ") + r.name;
    throw std::invalid_argument("strategy " + s.name + " has no rule \"" + std::string(rule) + "\"; it has " +
                                (known.empty() ? "none" : known));
  }
  s.name += ",without=" + std::string(rule);
  return s;
}

std::vector<knob> knobs_of(const hint_strategy& s) {
  std::vector<knob> knobs;
  if (const auto ahead = value_shared_by_rules(s, &prefetch_rule::ahead, by_operators)) {
    knobs.push_back({"ahead", "operators between the prefetch and the use", *ahead, 0, 64});
  }
  if (const auto gap = value_shared_by_rules(s, &evict_rule::gap, by_gap)) {
    knobs.push_back({"gap", "operators without a use for which an eviction pays", *gap, 0, 256});
  }
  if (const auto trials =
          value_shared_by_rules(s, &search_rule::trials, [](const search_rule&) { return true; })) {
    knobs.push_back({"trials", "plans that the search tries", *trials, 1, 1000});
  }
  return knobs;
}

hint_strategy with_knobs(hint_strategy s, const knob_values& knobs) {
  const auto ahead = knobs.find("ahead"), gap = knobs.find("gap"), trials = knobs.find("trials");
  for (hint_rule& r : s.rules) {
    if (auto* p = std::get_if<prefetch_rule>(&r.policy); p && by_operators(*p) && ahead != knobs.end()) {
      p->ahead = ahead->second;
    }
    if (auto* e = std::get_if<evict_rule>(&r.policy); e && by_gap(*e) && gap != knobs.end()) {
      e->gap = gap->second;
    }
    if (auto* t = std::get_if<search_rule>(&r.policy); t && trials != knobs.end()) t->trials = trials->second;
  }
  return s;
}

std::string_view rule_verb(const hint_policy& policy) {
  constexpr std::array<std::string_view, 7> names{"residence", "advise", "prefetch", "evict",
                                                  "discard",   "cut",    "search"};
  return names.at(policy.index());
}

}  // namespace um
