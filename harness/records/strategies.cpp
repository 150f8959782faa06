#include "harness/records/strategies.hpp"

#include <fmt/format.h>

#include <span>

#include "backends/digest.hpp"
#include "harness/json/json.hpp"
#include "harness/json/record_file.hpp"
#include "harness/records/suggest.hpp"
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

const hint_strategy* row_of_rules(std::string_view name) {
  for (const hint_strategy& s : hint_table()) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

std::string digest_of(const hint_strategy& s) {
  const std::string text = to_json(s);
  digest all;
  all.add(std::as_bytes(std::span(text)));
  return fmt::format("{:06x}", all.value() & 0xffffff);
}

}  // namespace

const std::vector<strategy>& strategies() {
  static const std::vector<strategy> all = [] {
    std::vector<strategy> rows(planners().begin(), planners().end());
    rows.insert(rows.end(), hints().begin(), hints().end());
    return rows;
  }();
  return all;
}

strategy strategy_named(std::string_view name) {
  if (const strategy* found = find(strategies(), name)) return *found;
  const auto [base, off] = parts_of_name(name);
  if (row_of_rules(base) != nullptr) return strategy_of(rules_named(name).value());
  std::vector<std::string> known;
  for (const strategy& s : strategies()) known.push_back(s.name);
  if (find(strategies(), base) != nullptr) {
    throw input_error(fmt::format("strategy {} is not made of rules, so none can be switched off", base));
  }
  throw input_error(unknown_name("strategy", base, known));
}

std::optional<hint_strategy> rules_named(std::string_view name) {
  const auto [base, off] = parts_of_name(name);
  const hint_strategy* row = row_of_rules(base);
  if (row == nullptr) return std::nullopt;
  return without_rules(*row, off);
}

hint_strategy without_rules(hint_strategy s, const std::vector<std::string>& rules) {
  for (const std::string& rule : rules) {
    try {
      s = without(std::move(s), rule);
    } catch (const std::invalid_argument& error) {
      throw input_error(one_line(error.what()));
    }
  }
  if (const auto wrong = defect_of(s)) throw input_error(fmt::format("strategy {}: {}", s.name, *wrong));
  return s;
}

bool is_rules_file(std::string_view strategy) {
  return strategy.ends_with(".json");
}

hint_strategy rules_from_file(const std::string& path) {
  return with_digest(hint_strategy_from_json(read_file(path), path));
}

hint_strategy with_digest(hint_strategy s) {
  s.name += "#" + digest_of(s);
  return s;
}

}  // namespace um
