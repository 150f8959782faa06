#include "harness/study/strategies.hpp"

#include <fmt/format.h>

#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "hints/hints.hpp"
#include "planners/planners.hpp"

namespace um {
namespace {

constexpr std::string_view switched_off = ",without=";

// "NAME" of "NAME,without=A,without=B", and the rules named after it.
std::pair<std::string, std::vector<std::string>> parts_of_name(std::string_view name) {
  std::size_t at = name.find(switched_off);
  std::pair<std::string, std::vector<std::string>> parts{std::string(name.substr(0, at)), {}};
  while (at != name.npos) {
    const std::size_t begin = at + switched_off.size();
    at = name.find(switched_off, begin);
    parts.second.emplace_back(name.substr(begin, at == name.npos ? at : at - begin));
  }
  return parts;
}

const hint_strategy* find_rules_row(std::string_view name) {
  for (const hint_strategy& s : hint_table()) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

strategy_choice choice_of(hint_strategy rules, bool own) {
  strategy row = make_strategy(rules);
  return std::make_shared<chosen_strategy>(std::move(row), std::move(rules), own);
}

}  // namespace

const std::vector<strategy>& strategies() {
  static const std::vector<strategy> all = [] {
    std::vector<strategy> rows(planners().begin(), planners().end());
    rows.insert(rows.end(), hint_strategies().begin(), hint_strategies().end());
    return rows;
  }();
  return all;
}

strategy_choice strategy_from_rules(hint_strategy own_rules) {
  return choice_of(std::move(own_rules), true);
}

strategy_choice strategy_named(std::string_view name) {
  const auto [base, off] = parts_of_name(name);
  if (const hint_strategy* rules = find_rules_row(base)) return choice_of(without_rules(*rules, off), false);
  const strategy* row = find_strategy(strategies(), base);
  if (row != nullptr && off.empty()) return std::make_shared<chosen_strategy>(*row);
  if (row != nullptr) {
    throw input_error(fmt::format("strategy {} is not made of rules, so none can be switched off", base));
  }
  std::vector<std::string> known;
  for (const strategy& s : strategies()) known.push_back(s.name);
  throw input_error(unknown_name("strategy", base, known));
}

hint_strategy without_rules(hint_strategy s, const std::vector<std::string>& rules) {
  for (const std::string& rule : rules) {
    try {
      s = without_rule(std::move(s), rule);
    } catch (const std::invalid_argument& error) {
      throw input_error(one_line(error.what()));
    }
  }
  if (const auto wrong = defect_of(s)) throw input_error(fmt::format("strategy {}: {}", s.name, *wrong));
  return s;
}

}  // namespace um
