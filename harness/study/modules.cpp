#include "harness/study/modules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

namespace um {
namespace {

using bytes_of_module = byte_count module_row::*;
constexpr std::array columns{std::pair{"compute again", &module_row::recomputed_bytes},
                             std::pair{"offload", &module_row::offloaded_bytes},
                             std::pair{"cut", &module_row::split_bytes},
                             std::pair{"keep", &module_row::kept_bytes}};

// What a plan does with operators and tensors; column_of() is the column of the table for a tensor.
struct plan_treatment {
  std::vector<bool> cut, recomputed;  // by operator
  std::vector<bool> moved;            // by tensor

  plan_treatment(const graph& g, const memory_plan& plan)
      : cut(g.ops.size()), recomputed(g.ops.size()), moved(g.tensors.size()) {
    std::vector<bool> computed(g.ops.size());
    for (const action& a : plan.actions) {
      if (const auto* c = std::get_if<compute>(&a)) {
        if (!is_whole(c->part)) cut[c->op] = true;
        if (computed[c->op]) recomputed[c->op] = true;
        computed[c->op] = true;
      } else if (const auto* in = std::get_if<prefetch>(&a)) {
        moved[in->tensor] = true;
      } else if (const auto* out = std::get_if<evict>(&a)) {
        moved[out->tensor] = true;
      }
    }
    for (tensor_id t = 0; t < plan.residences.size(); ++t) {
      if (plan.residences[t] == residence::host) moved[t] = true;
    }
  }

  bytes_of_module column_of(op_id o, tensor_id t) const {
    if (cut[o]) return &module_row::split_bytes;
    if (recomputed[o]) return &module_row::recomputed_bytes;
    return moved[t] ? &module_row::offloaded_bytes : &module_row::kept_bytes;
  }
};

bool is_number(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

// Splits "layer1.0.bn1" into the part before its first numeric component, that number, and the rest.
std::tuple<std::string, std::string, std::string> split_at_first_number(const std::string& module) {
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const std::string word = module.substr(begin, end - begin);
    if (is_number(word)) return {module.substr(0, begin), word, module.substr(end)};
    begin = end + 1;
  }
  return {module, "", ""};
}

// A list of numbers as text, such as "0-3,5" for 0, 1, 2, 3, 5.
std::string ranges_of(const std::vector<std::string>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && std::stoul(numbers[last + 1]) == std::stoul(numbers[last]) + 1)
      ++last;
    text += (text.empty() ? "" : ",") + numbers[i] + (last > i ? "-" + numbers[last] : "");
    i = last + 1;
  }
  return text;
}

// A line of the table: one module, or several whose names differ only in a number.
struct table_line {
  std::string before, after;
  std::vector<std::string> numbers;
  module_row sum;

  std::string name() const {
    const std::string middle =
        numbers.size() > 1 ? "[" + ranges_of(numbers) + "]" : fmt::format("{}", fmt::join(numbers, ""));
    const std::string full_name = before + middle + after;
    return full_name.empty() ? "(the model)" : full_name;
  }
};

// The set of columns that are not empty, as bits.
unsigned treatment_bits(const module_row& row) {
  unsigned bits = 0;
  for (const auto& [name, bytes] : columns) bits = 2 * bits + (row.*bytes > 0 ? 1 : 0);
  return bits;
}

std::vector<table_line> merged_lines(const std::vector<module_row>& rows) {
  std::vector<table_line> lines;
  std::map<std::tuple<std::string, std::string, unsigned>, std::size_t> known;
  for (const module_row& row : rows) {
    const auto [before, number, after] = split_at_first_number(row.module);
    const auto [at, fresh] = known.try_emplace({before, after, treatment_bits(row)}, lines.size());
    if (fresh) lines.push_back({.before = before, .after = after, .numbers = {}, .sum = {}});
    table_line& l = lines[at->second];
    if (!number.empty()) l.numbers.push_back(number);
    for (const auto& [name, bytes] : columns) l.sum.*bytes += row.*bytes;
  }
  return lines;
}

}  // namespace

std::string_view module_of(std::string_view name) {
  const std::size_t colon = name.find(':');
  return colon == std::string_view::npos ? std::string_view{} : name.substr(0, colon);
}

std::vector<module_row> modules_of(const graph& g, const memory_plan& plan) {
  if (std::ranges::none_of(g.tensors, [](const tensor& t) { return t.name.find(':') != std::string::npos; }))
    return {};
  const plan_treatment treated(g, plan);
  std::vector<module_row> rows;
  std::map<std::string_view, std::size_t> known;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (const tensor_id t : g.ops[o].out) {
      if (g.tensors[t].role != role::activation) continue;
      const std::string_view module = module_of(g.tensors[t].name);
      const auto [at, fresh] = known.try_emplace(module, rows.size());
      if (fresh) rows.push_back({.module = std::string(module)});
      rows[at->second].*treated.column_of(o, t) += bytes_of(g.tensors[t]);
    }
  }
  return rows;
}

std::string module_table(const std::vector<module_row>& rows) {
  if (rows.empty()) return "";
  const std::vector<table_line> lines = merged_lines(rows);
  std::size_t wide = 6;
  for (const table_line& l : lines) wide = std::max(wide, l.name().size());
  std::string text = fmt::format("{:<{}}", "module", wide);
  for (const auto& [name, bytes] : columns) text += fmt::format("{:>16}", name);
  text += "\n";
  for (const table_line& l : lines) {
    std::string row = fmt::format("{:<{}}", l.name(), wide);
    for (const auto& [name, bytes] : columns)
      row += fmt::format("{:>16}", l.sum.*bytes > 0 ? to_text(l.sum.*bytes) : "");
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace um
