#include "harness/json/sweep.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/io/errors.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/text.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/network_file.hpp"
#include "harness/json/parts.hpp"
#include "harness/json/rules_file.hpp"

namespace um {
namespace {

using elements = std::vector<std::pair<const json*, place>>;

// A list, or one value in place of a list of one.
elements one_or_more(fields& f, std::string_view name) {
  const json& value = f.at(name);
  elements all = value.is_array() ? as_list(value, f.where(name)) : elements{{&value, f.where(name)}};
  if (all.empty()) refuse(f.where(name), "the list is empty; give at least one value");
  return all;
}

template <class T, class Read>
void read_list(fields& f, std::string_view name, std::vector<T>& into, Read read) {
  if (!f.has(name)) return;
  into.clear();
  for (const auto& [value, at] : one_or_more(f, name)) into.push_back(read(*value, at));
}

std::int64_t knob_value_from(const json& value, const place& at) {
  return as_integer(value, at, std::numeric_limits<std::int64_t>::min());
}

// {"ahead": [1, 2], "other": 3}
void read_knobs(fields& f, std::string_view name, std::map<std::string, std::vector<std::int64_t>>& into) {
  if (!f.has(name)) return;
  into.clear();
  fields knobs = f.object(name);
  for (const auto& [knob, value] : f.at(name).items()) {
    read_list(knobs, knob, into[knob], knob_value_from);
  }
}

// "none" or an optimizer.
std::optional<optimizer_kind> optimizer_from(const json& value, const place& at) {
  if (value == "none") return std::nullopt;
  return as_choice<optimizer_kind>(value, at);
}

byte_count size_from(const json& value, const place& at) {
  if (!value.is_string()) return static_cast<byte_count>(as_integer(value, at, 1));
  const auto bytes = usable_size(value.get<std::string>());
  if (!bytes) {
    refuse(at, fmt::format("\"{}\" is not a size below 2^63 bytes; write for example \"4GiB\"",
                           one_line(value.get<std::string>())));
  }
  return *bytes;
}

// A name, or a file of rules: beside the sweep's file, or where its path says.
strategy_choice strategy_from(const json& value, const place& at) {
  const std::string text = as_text(value, at);
  try {
    if (!is_rules_file(text)) return strategy_named(text);
    return strategy_from_rules(
        rules_from_file((std::filesystem::path(at.source).parent_path() / text).string()));
  } catch (const input_error& error) {
    refuse(at, error.what());
  }
}

// A name, or a graph file or trace, as with rules.
network_spec network_of(const json& value, const place& at, const trace_converter& graph_of_trace) {
  network_spec n;
  n.name = as_text(value, at);
  const bool is_trace = graph_of_trace && n.name.ends_with(".jsonl");
  if (!is_trace && !is_network_file(n.name)) return n;
  const std::string path = (std::filesystem::path(at.source).parent_path() / n.name).string();
  try {
    return network_from_file(is_trace ? graph_of_trace(path) : path);
  } catch (const input_error& error) {
    refuse(at, error.what());
  }
}

void read_axes(fields& f, grid& g, const trace_converter& graph_of_trace) {
  const auto integer_from_one = [](auto& v, auto& at) { return as_integer(v, at, 1); };
  const auto ratio_from = [](auto& v, auto& at) { return as_number(v, at, least_ratio, most_ratio); };
  read_list(f, "network", g.networks, [&](auto& v, auto& at) { return network_of(v, at, graph_of_trace); });
  read_list(f, "batch", g.batches, integer_from_one);
  read_list(f, "insize", g.insizes, integer_from_one);
  read_list(f, "pass", g.passes, pass_from);
  read_list(f, "sgd", g.sgd, as_boolean);
  read_list(f, "optimizer", g.optimizers, optimizer_from);
  read_list(f, "masters", g.masters, as_boolean);
  read_list(f, "fusion", g.fusions, fusion_from);
  read_list(f, "precision", g.precisions, precision_from);
  read_list(f, "memory_order", g.orders, memory_order_from);
  read_list(f, "strategy", g.strategies, strategy_from);
  read_list(f, "ratio", g.ratios, ratio_from);
  read_list(f, "budget", g.budgets, size_from);
  read_list(f, "workspace_cap", g.workspace_caps, size_from);
  read_list(f, "backend", g.backends, as_text);
  read_list(f, "mode", g.modes, [](auto& v, auto& at) { return as_choice<run_mode>(v, at); });
  read_knobs(f, "network_knobs", g.network_knobs);
  read_knobs(f, "strategy_knobs", g.strategy_knobs);
}

// What the object gives replaces what `g` has.
grid grid_from(const json& value, const place& at, grid g, const trace_converter& graph_of_trace) {
  fields f(value, at);
  // What a grid says of its memory replaces what is common, whichever of the two ways it says it.
  if (f.has("ratio")) g.budgets.clear();
  if (f.has("budget")) g.ratios.clear();
  read_axes(f, g, graph_of_trace);
  if (f.has("iterations")) {
    g.iterations = static_cast<std::uint32_t>(f.integer("iterations", 1, most_iterations));
  }
  if (f.has("deadline_s")) {
    g.deadline_s = static_cast<std::uint32_t>(f.integer("deadline_s", 1, most_deadline_s));
  }
  if (f.has("timeline")) g.timeline = f.boolean("timeline");
  f.finish();
  return g;
}

void check_complete(const grid& g, const place& at) {
  if (g.networks.empty()) refuse(at, "field \"network\" is missing; add it");
  if (g.strategies.empty()) refuse(at, "field \"strategy\" is missing; add it");
  if (g.backends.empty()) refuse(at, "field \"backend\" is missing; add it");
}

}  // namespace

sweep_spec sweep_from_json(std::string_view text, const std::string& source) {
  return sweep_from_json(text, source, nullptr);
}

sweep_spec sweep_from_json(std::string_view text, const std::string& source,
                           const trace_converter& graph_of_trace) {
  const json document = parse_json(text, source);
  fields f(document, {source, ""});
  f.schema();
  sweep_spec spec;
  spec.name = f.text("name");
  if (!is_plain_name(spec.name)) refuse(f.where("name"), "use lower-case letters, digits, '-', '_', '.'");
  grid common;
  if (f.has("common")) common = grid_from(f.at("common"), f.where("common"), {}, graph_of_trace);
  for (const auto& [value, at] : f.list("grids")) {
    spec.grids.push_back(grid_from(*value, at, common, graph_of_trace));
    check_complete(spec.grids.back(), at);
  }
  if (spec.grids.empty()) refuse(f.where("grids"), "the list is empty; give at least one grid");
  f.finish();
  return spec;
}

}  // namespace um
