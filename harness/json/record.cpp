#include <fmt/format.h>

#include <charconv>

#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/json/document.hpp"

namespace um {
namespace {

// Format of a positive quotient of two byte counts.
struct quotient_format {
  json write(double value) const { return value; }
  double read(const json& value, const json_place& at) const {
    constexpr double max_value = 9223372036854775807.0;
    return number_of_value(value, at, 1 / max_value, max_value);
  }
  json schema() const { return {{"type", "number"}, {"exclusiveMinimum", 0}}; }
};

// Digests are written as text, since some readers of JSON lose bits of 64-bit numbers.
struct hexadecimal_format {
  json write(std::uint64_t value) const { return fmt::format("{:016x}", value); }
  json write(const std::string& text) const { return text; }
  template <class T>
  T read(const json& value, const json_place& at) const {
    const std::string text = text_of_value(value, at);
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
      throw_bad_value(at, fmt::format("\"{}\" is not 16 hexadecimal digits in lower case", one_line(text)));
    }
    if constexpr (std::is_same_v<T, std::string>) {
      return text;
    } else {
      T digest = 0;
      std::from_chars(text.data(), text.data() + text.size(), digest, 16);
      return digest;
    }
  }
  template <class T>
  json schema() const {
    return {{"type", "string"}, {"pattern", "^[0-9a-f]{16}$"}};
  }
};

constexpr checked_text_format one_line_text{
    "^[^\\n]*$",
    [](std::string_view text) { return !text.empty() && text.find('\n') == std::string_view::npos; },
    "is empty or has several lines; it is one", false};

struct same_bits_format {
  json write(bool same) const { return same ? "same" : "rounding"; }
  bool read(const json& value, const json_place& at) const {
    return index_of_choice(value, at, {"same", "rounding"}) == 0;
  }
  json schema() const { return {{"enum", {"same", "rounding"}}}; }
};

// Format of launch modes on a GPU.
constexpr choice_format launch_text{launch_mode::streams, launch_mode::operator_graphs,
                                    launch_mode::stretch_graphs, launch_mode::cuda_graph};

struct rules_format {
  json write(const hint_strategy& rules) const { return json_of(rules); }
  hint_strategy read(const json& value, const json_place& at) const { return hint_strategy_from(value, at); }
  json schema() const {
    return {
        {"type", "object"},
        {"required", {"schema", "kind", "name", "summary", "rules"}},
        {"properties",
         {{"kind", {{"const", "hints"}}}, {"rules", {{"type", "array"}, {"items", {{"type", "object"}}}}}}}};
  }
};

// A bound is null if no plan of its class exists.
struct bound_time_format {
  json write(nanoseconds ns) const { return ns == no_bound ? json(nullptr) : json(ns); }
  nanoseconds read(const json& value, const json_place& at) const {
    return value.is_null() ? no_bound : integer_of_value(value, at);
  }
  json schema() const { return nullable_schema({{"type", "integer"}, {"minimum", 0}}); }
};

// Members of a record that form one object in the document.
struct iteration_counts {
  counters counted;
  byte_count touched = 0;  // bytes touched by an iteration
};
struct first_and_last_counts {
  iteration_counts first, last;
};
struct written_bounds {
  class_bounds passes;
  std::optional<class_bounds> whole;
  std::optional<plan_bound> plan;
};

}  // namespace

// --- counters, memory ---

void describe(auto& v, iteration_counts& c) {
  for (const counter_field& row : counter_fields) v.field(row.name, c.counted.*row.member);
  v.derived("amplification", amplification(c.counted, c.touched));
}

void describe(auto& v, first_and_last_counts& c) {
  v.field("first", c.first);
  v.field("last", c.last);
}

void describe(auto& v, footprint_terms& t) {
  v.field("parameters_bytes", t.parameters);
  v.field("parameter_gradients_bytes", t.parameter_gradients);
  v.field("activations_bytes", t.activations);
  v.field("activation_gradients_bytes", t.activation_gradients);
  v.field("inputs_bytes", t.inputs);
  v.field("workspace_bytes", t.workspace);
  v.field("fragmentation_bytes", t.fragmentation);
}

void describe(auto& v, memory_figures& m) {
  std::optional<byte_count> total;
  if (m.footprint) total = m.footprint->total;
  v.field("footprint_bytes", total);
  v.field("budget_bytes", m.budget);
  v.field("touched_bytes", m.touched);
  v.field("terms", m.footprint);
  v.require(total.has_value() == m.footprint.has_value(), "footprint_bytes and terms go together");
  if (m.footprint) m.footprint->total = *total;
  v.field("device_arena_bytes", m.device_arena);
  v.field("managed_arena_bytes", m.managed_arena);
  v.field("pinned_arena_bytes", m.pinned_arena);
  v.field("peak_device_bytes", m.peak_device);
}

// --- observations of the GPU ---

void describe(auto& v, gpu_state& s) {
  v.field("sm_clock_mhz", s.sm_clock_mhz);
  v.field("memory_clock_mhz", s.memory_clock_mhz);
  v.field("temperature_c", s.temperature_c);
  v.field("power_mw", s.power_mw);
  v.field("pcie_generation", s.pcie_generation);
  v.field("pcie_width", s.pcie_width);
  v.field("other_processes", s.other_processes);
  v.field("throttled_by", s.throttled_by);
}

void describe(auto& v, observation& o) {
  v.field("host_cpu_ns", o.host_cpu);
  v.field("energy_uj", o.energy_uj);
  v.field("gpu_before", o.before);
  v.field("gpu_after", o.after);
  v.field("reason", o.missing_reason);
}

// --- times ---

void describe(auto& v, time_band& b) {
  v.field("low", b.low);
  v.field("high", b.high);
  v.require(b.low <= b.high, "low is more than high");
}

void describe(auto& v, steady_cycle& c) {
  std::optional<std::uint32_t> period;
  if (c.period != 0) period = c.period;
  v.field("period", period, plain_format{2, max_iterations});
  c.period = period.value_or(0);
  v.field("mean_ns", c.mean);
  v.field("median_ns", c.median);
}

void describe(auto& v, class_bounds& b) {
  v.field("swap_ns", b.swap, bound_time_format{});
  v.field("recompute_ns", b.recompute, bound_time_format{});
  v.field("both_ns", b.both, bound_time_format{});
}

void describe(auto& v, plan_bound& b) {
  v.field("class", b.kind.narrowest_class);
  v.field("swaps", b.kind.swaps);
  v.field("repeats", b.kind.recomputes);
  v.field("least_ns", b.min_time, bound_time_format{});
}

void describe(auto& v, written_bounds& b) {
  describe(v, b.passes);
  v.optional_field("whole", b.whole);
  v.optional_field("plan", b.plan);
}

// --- engines, timeline ---

void describe(auto& v, engine_figure& e) {
  v.field("op", e.op);
  v.field("engine", e.engine);
  v.field("time_ns", e.time);
  v.field("workspace_bytes", e.workspace_bytes);
  v.field("flops", e.flops);
  v.field("bytes", e.bytes);
  v.field("parts", e.parts, plain_format{1});
}

void describe(auto& v, timeline_span& s) {
  v.field("lane", s.where);
  v.field("name", s.name);
  v.field("begin_ns", s.begin);
  v.field("end_ns", s.end);
}

void describe(auto& v, memory_sample& s) {
  v.field("at_ns", s.time);
  v.field("bytes", s.bytes);
}

void describe(auto& v, timeline_figures& t) {
  v.field("iteration", t.iteration, plain_format{0, max_iterations});
  v.field("spans", t.spans);
  v.field("resident", t.resident);
}

// --- the record ---

namespace {

void describe_identity(auto& v, record& r) {
  v.field("key", r.key, one_line_text);
  describe_network(v, r.network, "network", "network_knobs");
  v.field("workspace_cap_bytes", r.workspace_cap, plain_format{1});
  v.field("strategy", r.strategy);
  v.field("strategy_knobs", r.strategy_knobs, any_integer);
  v.field("rules", r.rules, rules_format{});
  v.field("family", r.strategy_family);
  v.field("bits", r.same_bits, same_bits_format{});
  v.field("ratio", r.ratio, quotient_format{});
  v.field("mode", r.mode);
  v.field("backend", r.backend, backend_text);
  v.field("device", r.device);
  v.field("figures", r.planner_machine);
  v.field("figures_digest", r.planner_machine_digest, hexadecimal_format{});
  v.field("borrowed_figures", r.borrowed_figures);
  v.field("iterations", r.iterations, plain_format{1, max_iterations});
}

void describe_counters(auto& v, record& r) {
  std::optional<first_and_last_counts> counted;
  const byte_count touched = r.memory.touched.value_or(0);
  if (r.first && r.last) counted = {{*r.first, touched}, {*r.last, touched}};
  v.field("counters", counted);
  if (counted) {
    r.first = counted->first.counted;
    r.last = counted->last.counted;
  }
}

void describe_bounds(auto& v, record& r) {
  std::optional<written_bounds> bounds;
  if (r.bounds) bounds = {r.bounds->two_passes, r.bounds->whole_operators, r.bound};
  v.field("bounds", bounds);
  if (bounds && !r.bounds) {
    r.bounds = {0, bounds->passes, bounds->whole};
    r.bound = bounds->plan;
  }
}

void describe_result(auto& v, record& r) {
  v.field("outcome", r.result);
  v.field("reason", r.reason, one_line_text);
  v.field("samples_ns", r.samples);
  v.optional_field("band_ns", r.band);
  v.optional_field("cycle", r.cycle);
  describe_counters(v, r);
  v.field("counters_reason", r.counters_reason);
  v.field("observed", r.gpu_and_host);
  v.field("memory", r.memory);
  v.field("planning_ns", r.planning_time);
  v.field("compute_ns", r.compute_time);
  describe_bounds(v, r);
  v.optional_field("notes", r.notes);
  v.field("digest", r.digest, hexadecimal_format{});
  v.field("loss", r.loss);
}

}  // namespace

void describe(auto& v, record& r) {
  v.constant("kind", "record");
  v.constant("schema", 1);
  describe_identity(v, r);
  describe_result(v, r);
  v.field("simulated", r.simulated);
  v.optional_field("replayed", r.is_replay);
  v.field("calibrated", r.calibrated);
  v.optional_field("kernels_at_peak", r.assumes_peak_kernels);
  v.field("launch", r.launch, launch_text);
  v.field("engines", r.engines);
  v.field("timeline", r.timeline);
}

namespace {

// Checks conditions on several fields; record_rules states them as JSON Schema.
void check_consistent(const record& r, const json_place& at) {
  bool on_simulator = false;
  try {
    on_simulator = parse_backend(r.backend).is_simulated;
  } catch (const input_error& error) {
    throw_bad_value(place_of_field(at, "backend"), error.what());
  }
  if (r.simulated != on_simulator)
    throw_bad_value(place_of_field(at, "simulated"), "does not go with backend " + one_line(r.backend));
  if (r.simulated && r.engines) throw_bad_value(place_of_field(at, "engines"), "is null where simulated");
  if (r.simulated && r.launch) throw_bad_value(place_of_field(at, "launch"), "is null where simulated");
  if (!r.simulated && r.mode == run_mode::simulated)
    throw_bad_value(place_of_field(at, "mode"), "is simulated, the record is not");
  const bool ok = r.result == outcome::ok;
  if (ok == r.reason.has_value())
    throw_bad_value(place_of_field(at, "reason"), ok ? "is null where all is well" : "is missing");
  if (!ok) return;
  if (r.samples.empty()) throw_bad_value(place_of_field(at, "samples_ns"), "is empty, but the outcome is ok");
  for (const auto& [name, known] : {std::pair{"ratio", r.ratio.has_value()},
                                    {"device", r.device.has_value()},
                                    {"calibrated", r.calibrated.has_value()},
                                    {"memory.footprint_bytes", r.memory.footprint.has_value()},
                                    {"memory.budget_bytes", r.memory.budget.has_value()}}) {
    if (!known) throw_bad_value(place_of_field(at, name), "is null, but the outcome is ok");
  }
}

constexpr const char* record_rules = R"json([
  {"if": {"properties": {"outcome": {"const": "ok"}}},
   "then": {"properties": {
      "reason": {"type": "null"}, "ratio": {"type": "number"}, "device": {"type": "string"},
      "calibrated": {"type": "boolean"}, "samples_ns": {"minItems": 1},
      "memory": {"properties": {"footprint_bytes": {"type": "integer"}, "budget_bytes": {"type": "integer"}}}}},
   "else": {"properties": {"reason": {"type": "string"}}}},
  {"if": {"properties": {"simulated": {"const": true}}},
   "then": {"properties": {"backend": {"pattern": "^sim:"}, "launch": {"type": "null"},
                           "engines": {"type": "null"}}},
   "else": {"properties": {"backend": {"pattern": "^cuda:"}, "mode": {"not": {"const": "simulated"}}}}}
])json";

}  // namespace

std::string to_json(const record& r) {
  record copy = r;
  return dump_line(write_object(copy));
}

record record_from_json(std::string_view line, const std::string& source) {
  const json_place at{source, ""};
  record r;
  read_object(r, parse_json(line, source), at);
  check_consistent(r, at);
  return r;
}

std::string record_schema() {
  json made = schema_of_object<record>();
  made["allOf"] = json::parse(record_rules);
  json all = schema_titled(
      "One line of a record file of umbench",
      "JSON Lines: an environment line first, then a record a cell. docs/records.md explains the "
      "fields. Made by `umbench list schema`.");
  all.update({{"type", "object"},
              {"required", {"kind"}},
              {"oneOf", {{{"$ref", "#/$defs/environment"}}, {{"$ref", "#/$defs/record"}}}},
              {"$defs", {{"environment", environment_schema()}, {"record", std::move(made)}}}});
  return dump_indented(all);
}

line_kind kind_of_line(std::string_view line, const std::string& source) {
  const json document = parse_json(line, source);
  fields f(document, {source, ""});
  return index_of_choice(f.at("kind"), f.where("kind"), {"environment", "record"}) == 0
             ? line_kind::environment
             : line_kind::record;
}

}  // namespace um
