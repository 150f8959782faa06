#include "harness/study/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/study/summary.hpp"

namespace um {
namespace {

struct section {
  std::string work;
  std::vector<const record*> records;
};

std::vector<section> sections_of(std::span<const record> records) {
  std::vector<section> sections;
  for (const record& r : records) {
    const std::string work = parts_of_key(r.key).work;
    const auto same = std::find_if(sections.begin(), sections.end(), [&](const section& s) {
      const record& first = *s.records.front();
      return s.work == work && first.backend == r.backend && first.mode == r.mode;
    });
    if (same == sections.end()) {
      sections.push_back({work, {&r}});
    } else {
      same->records.push_back(&r);
    }
  }
  return sections;
}

// Modes do not matter to the baseline: it moves nothing. The least of several.
std::optional<double> baseline_of(std::span<const record> all, const section& s) {
  std::optional<double> least;
  for (const record& r : all) {
    if (r.strategy == baseline_strategy && r.backend == s.records.front()->backend &&
        parts_of_key(r.key).work == s.work) {
      if (const auto time = steady_ns(r)) least = std::min(*time, least.value_or(*time));
    }
  }
  return least;
}

std::string cell_text(const record& r, std::optional<double> baseline) {
  if (r.result == outcome::infeasible) return "-";
  const auto time = steady_ns(r);
  if (!time) return std::string(to_text(r.result));
  if (!baseline) return time_text(*time);
  const double slowdown = *time / *baseline;
  return fmt::format("{:.{}f}", slowdown, slowdown < 10 ? 2 : slowdown < 100 ? 1 : 0);
}

// Cells that failed before their footprint was known have no ratio and share the column "?".
std::string column_of(const record& r) {
  return r.ratio ? fmt::format("x{:.2f}", *r.ratio) : "?";
}

using rows_of_cells = std::vector<std::pair<std::string, std::map<std::string, std::string>>>;

rows_of_cells rows_of(const section& s, std::optional<double> baseline) {
  rows_of_cells rows;
  for (const record* r : s.records) {
    const std::string name = parts_of_key(r->key).strategy;
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& each) { return each.first == name; });
    if (row == rows.end()) row = rows.insert(rows.end(), {name, {}});
    row->second[column_of(*r)] = cell_text(*r, baseline);
  }
  return rows;
}

std::vector<std::string> columns_of(const section& s) {
  std::set<std::pair<double, std::string>> ordered;
  for (const record* r : s.records) ordered.emplace(r->ratio.value_or(0), column_of(*r));
  std::vector<std::string> columns;
  for (const auto& [ratio, name] : ordered) {
    if (columns.empty() || columns.back() != name) columns.push_back(name);
  }
  return columns;
}

std::string table_of(const section& s, std::optional<double> baseline) {
  const record& first = *s.records.front();
  const auto known = std::find_if(s.records.begin(), s.records.end(), [](auto* r) { return r->device; });
  std::string text = fmt::format("{} on {}, mode {}: {}\n", s.work, first.backend, to_text(first.mode),
                                 provenance(known == s.records.end() ? first : **known));
  text += baseline ? fmt::format("  time of an iteration / {} (device, everything resident)\n",
                                 time_text(*baseline))
                   : "  time of an iteration (no `device` record to compare with)\n";
  const rows_of_cells rows = rows_of(s, baseline);
  const std::vector<std::string> columns = columns_of(s);
  std::size_t name_width = 8, width = 6;
  for (const auto& [name, cells] : rows) {
    name_width = std::max(name_width, name.size());
    for (const auto& [column, cell] : cells) width = std::max(width, cell.size());
  }
  text += fmt::format("  {:<{}}", "strategy", name_width);
  for (const std::string& column : columns) text += fmt::format("  {:>{}}", column, width);
  for (const auto& [name, cells] : rows) {
    text += fmt::format("\n  {:<{}}", name, name_width);
    for (const std::string& column : columns) {
      const auto cell = cells.find(column);
      text += fmt::format("  {:>{}}", cell == cells.end() ? "" : cell->second, width);
    }
  }
  return text + "\n";
}

}  // namespace

std::string table_of(std::span<const record> records) {
  std::string text;
  bool any_infeasible = false;
  for (const section& s : sections_of(records)) {
    text += (text.empty() ? "" : "\n") + table_of(s, baseline_of(records, s));
    for (const record* r : s.records) any_infeasible |= r->result == outcome::infeasible;
  }
  if (any_infeasible) text += "\n- the strategy cannot work within that budget\n";
  return text;
}

}  // namespace um
