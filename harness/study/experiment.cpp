#include "harness/study/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/io/errors.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/text.hpp"
#include "hints/hints.hpp"
#include "planners/planners.hpp"

namespace um {
namespace {

constexpr std::string_view switched_off = ",without=";

// Splits "NAME,without=A,without=B" into NAME and the rules A and B.
std::pair<std::string, std::vector<std::string>> split_off_switched_rules(std::string_view name) {
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
  const auto found = std::ranges::find(hint_table(), name, &hint_strategy::name);
  return found == hint_table().end() ? nullptr : &*found;
}

strategy_choice make_choice(hint_strategy rules, bool own) {
  strategy row = make_strategy(rules);
  return std::make_shared<chosen_strategy>(std::move(row), std::move(rules), own);
}

}  // namespace

backend_name parse_backend(const std::string& text) {
  if (text.starts_with("sim:") && text.size() > 4) return {true, text.substr(4), 0};
  if (text.starts_with("cuda:")) {
    return {false, "", static_cast<int>(parse_whole_number("backend cuda:N", text.substr(5), 0, 1023))};
  }
  throw input_error(
      fmt::format("unknown backend \"{}\"; use sim:NAME (see `umbench list machines`) or cuda:N",
                  one_line(text.substr(0, 80))));
}

std::string optimizer_text(const network_spec& n) {
  if (!n.optimizer) return n.appends_sgd ? "+sgd" : "";
  return fmt::format("+optimizer={}{}", to_text(*n.optimizer), n.keeps_masters ? ",masters" : "");
}

std::string storage_text(const network_spec& n) {
  const memory_order standard = standard_order(n.arithmetic), order = n.order.value_or(standard);
  return fmt::format("{}{}", to_text(n.arithmetic),
                     order == standard ? "" : fmt::format(",{}", to_text(order)));
}

byte_count peak_device_bytes_of(run_mode mode, const execution_plan& steps) {
  const byte_count asked_for = steps.peak_device_bytes;
  return facts_of_mode(mode).evicted_by == evictor::driver ? std::min(asked_for, steps.budget) : asked_for;
}

const mode_row& facts_of_mode(run_mode mode) {
  static constexpr std::array rows{
      mode_row{evictor::driver, true, false, false},  // simulated
      mode_row{evictor::plan, true, true, false},     // capped
      mode_row{evictor::driver, false, true, true},   // native
  };
  static_assert(rows.size() == enum_names<run_mode>.size());
  return rows.at(static_cast<std::size_t>(mode));
}

const std::vector<strategy>& strategies() {
  static const std::vector<strategy> all = [] {
    std::vector<strategy> rows(planners().begin(), planners().end());
    rows.insert(rows.end(), hint_strategies().begin(), hint_strategies().end());
    return rows;
  }();
  return all;
}

strategy_choice strategy_from_rules(hint_strategy own_rules) {
  return make_choice(std::move(own_rules), true);
}

strategy_choice strategy_named(std::string_view name) {
  const auto [base, off] = split_off_switched_rules(name);
  if (const hint_strategy* rules = find_rules_row(base))
    return make_choice(without_rules(*rules, off), false);
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
