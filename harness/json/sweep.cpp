#include "harness/json/sweep.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "harness/io/errors.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/text.hpp"
#include "harness/json/document.hpp"
#include "harness/json/input_files.hpp"

namespace um {
namespace {

// Values of knobs: {"ahead": [1, 2], "other": 3}.
struct knob_lists_format {
  static constexpr bool whole = true;
  json write(const auto& knobs) const { return knobs; }
  template <class T>
  T read(const json& value, const json_place& at) const {
    T knobs;
    fields f(value, at);  // throws if the value is not an object
    for (const auto& [name, values] : value.items()) {
      knobs[name] = read_one_or_more<std::int64_t>(values, place_of_field(at, name), any_integer);
    }
    return knobs;
  }
  template <class T>
  json schema() const {
    return {{"type", "object"}, {"additionalProperties", schema_of_one_or_more<std::int64_t>(any_integer)}};
  }
};

// Bytes, or a text such as "4GiB".
struct size_format {
  json write(byte_count bytes) const { return bytes; }
  template <class T>
  T read(const json& value, const json_place& at) const {
    if (!value.is_string()) return static_cast<T>(integer_of_value(value, at, 1));
    const auto bytes = parse_positive_size(value.get<std::string>());
    if (!bytes) {
      throw_bad_value(at, fmt::format("\"{}\" is not a size below 2^63 bytes; write for example \"4GiB\"",
                                      one_line(value.get<std::string>())));
    }
    return *bytes;
  }
  template <class T>
  json schema() const {
    constexpr const char* size = "^[0-9]+(\\.[0-9]+)? *(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?$";
    return {{"anyOf", {plain_format{1}.schema<byte_count>(), {{"type", "string"}, {"pattern", size}}}}};
  }
};

// "none", or the name of an optimizer.
struct optimizer_format {
  static constexpr bool whole = true;
  json write(const std::optional<optimizer_kind>& optimizer) const {
    return optimizer ? to_text(*optimizer) : "none";
  }
  std::optional<optimizer_kind> read(const json& value, const json_place& at) const {
    if (value == "none") return std::nullopt;
    return choice_of_value<optimizer_kind>(value, at);
  }
  json schema() const {
    json names = plain_format{}.schema<optimizer_kind>();
    names["enum"].insert(names["enum"].begin(), "none");
    return names;
  }
};

// Calls `read` for a name, and adds the place of the name to the message of an error.
auto resolve_name(const json& value, const json_place& at, const auto& read) {
  const std::string text = text_of_value(value, at);
  const auto beside = [&] { return (std::filesystem::path(at.source).parent_path() / text).string(); };
  try {
    return read(text, beside);
  } catch (const input_error& error) {
    throw_bad_value(at, error.what());
  }
}

// The name of a strategy, or the path of a file of rules, which may be relative to the sweep's file.
struct strategy_format {
  json write(const strategy_choice& choice) const { return choice->row.name; }
  strategy_choice read(const json& value, const json_place& at) const {
    return resolve_name(value, at, [](const std::string& text, const auto& path) {
      return is_rules_file(text) ? strategy_from_rules(rules_from_file(path())) : strategy_named(text);
    });
  }
  json schema() const { return {{"type", "string"}}; }
};

// The name of a network, or the path of a graph file or a trace, which may be relative to the sweep's file.
struct network_format {
  trace_converter graph_of_trace;  // empty: traces are not supported
  json write(const network_spec& n) const { return n.name; }
  network_spec read(const json& value, const json_place& at) const {
    return resolve_name(value, at, [&](const std::string& text, const auto& path) {
      if (graph_of_trace && text.ends_with(".jsonl")) return network_from_file(graph_of_trace(path()));
      return is_network_file(text) ? network_from_file(path()) : network_spec{.name = text};
    });
  }
  json schema() const { return {{"type", "string"}}; }
};

void describe_grid(auto& v, grid& g, const network_format& network) {
  v.one_or_more("network", g.networks, network);
  v.one_or_more("batch", g.batches, plain_format{1});
  v.one_or_more("insize", g.insizes, plain_format{1});
  v.one_or_more("pass", g.passes);
  v.one_or_more("sgd", g.sgd);
  v.one_or_more("optimizer", g.optimizers, optimizer_format{});
  v.one_or_more("masters", g.masters);
  v.one_or_more("fusion", g.fusions);
  v.one_or_more("precision", g.precisions);
  v.one_or_more("memory_order", g.orders);
  v.or_default("network_knobs", g.network_knobs, knob_lists_format{});
  v.one_or_more("strategy", g.strategies, strategy_format{});
  v.or_default("strategy_knobs", g.strategy_knobs, knob_lists_format{});
  v.one_or_more("ratio", g.ratios, number_range_format{min_ratio, max_ratio});
  v.one_or_more("budget", g.budgets, size_format{});
  v.one_or_more("backend", g.backends, backend_text);
  v.one_or_more("mode", g.modes);
  v.one_or_more("workspace_cap", g.workspace_caps, size_format{});
  v.or_default("iterations", g.iterations, plain_format{1, max_iterations});
  v.or_default("deadline_s", g.deadline_s, plain_format{1, max_deadline_s});
  v.or_default("timeline", g.timeline);
  v.note("network", "names, or graph files and traces beside this one");
  v.note("insize", "short for the network knob");
  v.note("strategy", "names, or files of rules beside this one");
  v.note("strategy_knobs", "for those strategies that have them");
  v.note("ratio", "footprint / budget");
  v.note("budget", "bytes, or a size such as \"4GiB\"");
  v.note("backend", "sim:NAME or cuda:N");
  v.note("workspace_cap", "of one operator, cuda:N only");
}

// A grid whose fields replace those of `common`.
struct grid_format {
  network_format network;
  grid common = {};
  json write(grid g) const {
    field_writer v;
    describe_grid(v, g, network);
    return std::move(v.out);
  }
  grid read(const json& value, const json_place& at) const {
    field_reader v(value, at);
    grid g = common;
    // The ratio or budget of a grid replaces both the common ratio and the common budget.
    if (v.has("ratio")) g.budgets.clear();
    if (v.has("budget")) g.ratios.clear();
    describe_grid(v, g, network);
    v.finish();
    return g;
  }
  json schema() const { return {{"$ref", "#/$defs/grid"}}; }
};

struct sweep_document {
  sweep_spec spec = {};
  network_format network = {};
};

}  // namespace

void describe(auto& v, sweep_document& d) {
  v.constant("schema", 1);
  v.field("name", d.spec.name, plain_name);
  std::optional<grid> common;
  v.optional_field("common", common, grid_format{d.network});
  v.field("grids", d.spec.grids, grid_format{d.network, common.value_or(grid{})});
  v.note("name", "of the record file, unless --out names it");
  v.note("common", "what every grid has unless it says otherwise");
  v.note("grids", "products of their lists");
}

namespace {

void check_complete(const grid& g, const json_place& at) {
  if (g.networks.empty()) throw_bad_value(at, "field \"network\" is missing; add it");
  if (g.strategies.empty()) throw_bad_value(at, "field \"strategy\" is missing; add it");
  if (g.backends.empty()) throw_bad_value(at, "field \"backend\" is missing; add it");
}

// A schema that requires the field in every grid or in `common`.
json requires_one_of(const char* name) {
  const json has{{"required", {name}}};
  return {{"anyOf",
           {{{"properties", {{"common", has}}}, {"required", {"common"}}},
            {{"properties", {{"grids", {{"items", has}}}}}}}}};
}

}  // namespace

std::string sweep_schema() {
  object_schema_builder v;
  grid any;
  describe_grid(v, any, {});
  json of_grid = v.object_schema(), made = schema_of_object<sweep_document>();
  of_grid["not"] = {{"required", {"ratio", "budget"}}};
  made["properties"]["grids"]["minItems"] = 1;
  json all = schema_titled(
      "A sweep as umbench takes it",
      "Made by `umbench list sweep-schema`. What a schema cannot say is checked on reading: names are "
      "known, knobs are the network's or the strategy's and within their limits, ratio or budget is given "
      "and not both, insize is given once, there are at most 100,000 cells.");
  all.update(made);
  all["allOf"] = {requires_one_of("network"), requires_one_of("strategy"), requires_one_of("backend")};
  all["$defs"] = {{"grid", std::move(of_grid)}};
  return dump_indented(all);
}

sweep_spec sweep_from_json(std::string_view text, const std::string& source) {
  return sweep_from_json(text, source, nullptr);
}

sweep_spec sweep_from_json(std::string_view text, const std::string& source,
                           const trace_converter& graph_of_trace) {
  const json_place at{source, ""}, all = place_of_field(at, "grids");
  sweep_document document{{}, {graph_of_trace}};
  read_object(document, parse_json(text, source), at);
  const std::vector<grid>& grids = document.spec.grids;
  if (grids.empty()) throw_bad_value(all, "the list is empty; give at least one grid");
  for (std::size_t i = 0; i < grids.size(); ++i) check_complete(grids[i], place_of_field(all, i));
  return std::move(document.spec);
}

}  // namespace um
