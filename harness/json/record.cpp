#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

// Reads `member` from its field unless that is null.
template <class T, class Read>
std::optional<T> unless_null(fields& f, std::string_view name, Read read) {
  return f.is_null(name) ? std::nullopt : std::optional<T>(read(f.at(name), f.where(name)));
}

// Quotients of two byte counts.
constexpr double most_quotient = 9223372036854775807.0, smallest = 1 / most_quotient;

// --- counters ---

// Files written before there was such a counter lack it: null.
bool may_be_absent(std::string_view counter) {
  return counter == "fault_batches" || counter == "remote_bytes";
}

json json_of(const counters& c, const memory_figures& memory) {
  json out = json::object();
  for (const counter_field& row : counter_fields) out[row.name] = or_null(c.*row.member);
  out["amplification"] = or_null(amplification(c, memory.touched.value_or(0)));
  return out;
}

counters counters_from(const json& value, const place& at) {
  fields f(value, at);
  counters c;
  for (const counter_field& row : counter_fields) {
    if (!may_be_absent(row.name) || f.has(row.name)) c.*row.member = f.count_or_null(row.name);
  }
  // Follows from the others, and is worked out anew when it is written.
  if (f.has("amplification") && !f.is_null("amplification")) {
    f.number("amplification", 0, std::numeric_limits<double>::max());
  }
  f.finish();
  return c;
}

// --- memory ---

struct term_row {
  const char* name;
  byte_count footprint_terms::* member;
};
constexpr std::array<term_row, 7> term_rows{{
    {"parameters_bytes", &footprint_terms::parameters},
    {"parameter_gradients_bytes", &footprint_terms::parameter_gradients},
    {"activations_bytes", &footprint_terms::activations},
    {"activation_gradients_bytes", &footprint_terms::activation_gradients},
    {"inputs_bytes", &footprint_terms::inputs},
    {"workspace_bytes", &footprint_terms::workspace},
    {"fragmentation_bytes", &footprint_terms::fragmentation},
}};

json json_of(const memory_figures& m) {
  json terms = nullptr;
  if (m.footprint) {
    terms = json::object();
    for (const term_row& row : term_rows) terms[row.name] = (*m.footprint).*row.member;
  }
  return {{"footprint_bytes", m.footprint ? json(m.footprint->total) : json(nullptr)},
          {"budget_bytes", or_null(m.budget)},
          {"touched_bytes", or_null(m.touched)},
          {"terms", std::move(terms)},
          {"device_arena_bytes", or_null(m.device_arena)},
          {"managed_arena_bytes", or_null(m.managed_arena)},
          {"pinned_arena_bytes", or_null(m.pinned_arena)},
          {"peak_device_bytes", or_null(m.peak_device)}};
}

memory_figures memory_from(const json& value, const place& at) {
  fields f(value, at);
  memory_figures m;
  const auto total = f.count_or_null("footprint_bytes");
  m.budget = f.count_or_null("budget_bytes");
  if (f.has("touched_bytes")) m.touched = f.count_or_null("touched_bytes");
  if (f.is_null("terms") == total.has_value()) refuse(at, "footprint_bytes and terms go together");
  if (total) {
    fields t = f.object("terms");
    m.footprint.emplace().total = *total;
    for (const term_row& row : term_rows) (*m.footprint).*row.member = t.count(row.name);
    t.finish();
  }
  m.device_arena = f.count_or_null("device_arena_bytes");
  m.managed_arena = f.count_or_null("managed_arena_bytes");
  m.pinned_arena = f.count_or_null("pinned_arena_bytes");
  m.peak_device = f.count_or_null("peak_device_bytes");
  f.finish();
  return m;
}

// --- engines, timeline ---

json json_of(const engine_figure& e) {
  return {{"op", e.op},
          {"engine", e.engine},
          {"time_ns", e.time},
          {"workspace_bytes", e.workspace_bytes},
          {"flops", or_null(e.flops)},
          {"bytes", or_null(e.bytes)},
          {"parts", e.parts}};
}

std::vector<engine_figure> engines_from(const json& value, const place& at) {
  std::vector<engine_figure> engines;
  for (const auto& [element, where] : as_list(value, at)) {
    fields f(*element, where);
    engine_figure& e = engines.emplace_back();
    e = {f.text("op"), f.text("engine"), f.integer("time_ns"), f.count("workspace_bytes"), {}, {}, 1};
    if (f.has("flops") || f.has("bytes")) {  // older files have neither
      e.flops = f.count_or_null("flops");
      e.bytes = f.count_or_null("bytes");
    }
    if (f.has("parts")) e.parts = f.integer("parts", 1);
    f.finish();
  }
  return engines;
}

json json_of(const timeline_figures& t) {
  json spans = json::array(), resident = json::array();
  for (const timeline_span& s : t.spans) {
    spans.push_back({{"lane", to_text(s.where)}, {"name", s.name}, {"begin_ns", s.begin}, {"end_ns", s.end}});
  }
  for (const resident_sample& s : t.resident) resident.push_back({{"at_ns", s.at}, {"bytes", s.bytes}});
  return {{"iteration", t.iteration}, {"spans", std::move(spans)}, {"resident", std::move(resident)}};
}

timeline_figures timeline_from(const json& value, const place& at) {
  fields f(value, at);
  timeline_figures t;
  t.iteration = static_cast<std::uint32_t>(f.integer("iteration", 0, most_iterations));
  for (const auto& [element, where] : f.list("spans")) {
    fields s(*element, where);
    const lane l = as_choice<lane>(s.at("lane"), s.where("lane"));
    t.spans.push_back({l, s.text("name"), s.integer("begin_ns"), s.integer("end_ns")});
    s.finish();
  }
  for (const auto& [element, where] : f.list("resident")) {
    fields s(*element, where);
    t.resident.push_back({s.integer("at_ns"), s.count("bytes")});
    s.finish();
  }
  f.finish();
  return t;
}

// --- digests are texts: not every reader of JSON keeps 64 bits of a number ---

std::uint64_t digest_from(const json& value, const place& at) {
  const std::string text = as_text(value, at);
  std::uint64_t digest = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  const bool lower = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (error != std::errc{} || end != text.data() + text.size() || text.size() != 16 || !lower) {
    refuse(at, fmt::format("\"{}\" is not 16 hexadecimal digits in lower case", one_line(text)));
  }
  return digest;
}

// --- the record, in three runs of fields ---

void write_identity(json& out, const record& r) {
  out["key"] = r.key;
  out["network"] = r.network.name;
  out["batch"] = r.network.batch;
  out["pass"] = to_text(r.network.mode);
  out["sgd"] = r.network.sgd;
  out["network_knobs"] = knobs_json(r.network.knobs);
  out["fusion"] = to_text(r.network.joined);
  out["precision"] = to_text(r.network.arithmetic);
  out["memory_order"] = to_text(r.network.order.value_or(standard_order(r.network.arithmetic)));
  out["workspace_cap_bytes"] = or_null(r.workspace_cap);
  out["strategy"] = r.strategy;
  out["strategy_knobs"] = knobs_json(r.strategy_knobs);
  out["rules"] = r.rules ? json_of(*r.rules) : json(nullptr);
  out["family"] = r.kind ? json(to_text(*r.kind)) : json(nullptr);
  out["bits"] = r.same_bits ? json(*r.same_bits ? "same" : "rounding") : json(nullptr);
  out["ratio"] = or_null(r.ratio);
  out["mode"] = to_text(r.mode);
  out["backend"] = r.backend;
  out["device"] = or_null(r.device);
  out["figures"] = or_null(r.figures);
  out["figures_digest"] = or_null(r.figures_digest);
  out["borrowed_figures"] = r.borrowed;
  out["iterations"] = r.iterations;
}

void read_identity(fields& f, record& r) {
  r.key = f.text("key");
  r.network.name = f.text("network");
  r.network.batch = f.integer("batch", 1);
  r.network.mode = pass_from(f.at("pass"), f.where("pass"));
  r.network.sgd = f.boolean("sgd");
  r.network.knobs = knobs_from(f.at("network_knobs"), f.where("network_knobs"));
  f.at("fusion");
  f.at("precision");
  read_storage(f, r.network);
  const bool is_plain = r.network.joined == fusion::none && r.network.arithmetic == precision::fp32;
  if (!f.has("memory_order") && !is_plain) f.at("memory_order");
  if (!f.is_null("workspace_cap_bytes")) {
    r.workspace_cap = static_cast<byte_count>(f.integer("workspace_cap_bytes", 1));
  }
  r.strategy = f.text("strategy");
  r.strategy_knobs = knobs_from(f.at("strategy_knobs"), f.where("strategy_knobs"));
  if (f.has("rules") && !f.is_null("rules")) r.rules = hint_strategy_from(f.at("rules"), f.where("rules"));
  if (f.has("family") && !f.is_null("family")) {
    r.kind = as_choice<family>(f.at("family"), f.where("family"));
  }
  if (f.has("bits") && !f.is_null("bits")) {
    r.same_bits = as_one_of(f.at("bits"), f.where("bits"), {"same", "rounding"}) == 0;
  }
  if (!f.is_null("ratio")) r.ratio = f.number("ratio", smallest, most_quotient);
  r.mode = as_choice<run_mode>(f.at("mode"), f.where("mode"));
  r.backend = f.text("backend");
  r.device = f.text_or_null("device");
  if (f.has("figures")) r.figures = f.text_or_null("figures");
  if (f.has("figures_digest")) r.figures_digest = f.text_or_null("figures_digest");
  if (f.has("borrowed_figures")) {
    for (const auto& [name, at] : f.list("borrowed_figures")) r.borrowed.push_back(as_text(*name, at));
  }
  r.iterations = static_cast<std::uint32_t>(f.integer("iterations", 1, most_iterations));
}

// Where no plan of a class exists its bound is null.
json bound_json(nanoseconds ns) {
  return ns == no_bound ? json(nullptr) : json(ns);
}
json json_of(const class_bounds& b) {
  return {{"swap_ns", bound_json(b.swap)},
          {"recompute_ns", bound_json(b.recompute)},
          {"both_ns", bound_json(b.both)}};
}
json bounds_json(const record& r) {
  if (!r.bounds) return nullptr;
  json all = json_of(r.bounds->passes);
  if (r.bounds->whole) all["whole"] = json_of(*r.bounds->whole);
  if (r.bound) {
    all["plan"] = {{"class", to_text(r.bound->of.by)},
                   {"swaps", r.bound->of.swaps},
                   {"repeats", r.bound->of.repeats},
                   {"least_ns", bound_json(r.bound->least)}};
  }
  return all;
}

nanoseconds bound_from(fields& f, const char* name) {
  return unless_null<nanoseconds>(f, name, [](auto& v, auto at) { return as_integer(v, at); })
      .value_or(no_bound);
}
class_bounds class_bounds_from(fields& f) {
  return {bound_from(f, "swap_ns"), bound_from(f, "recompute_ns"), bound_from(f, "both_ns")};
}
void read_bounds(const json& value, const place& where, record& r) {
  if (value.is_null()) return;
  fields f(value, where);
  time_bounds& b = r.bounds.emplace();
  b.passes = class_bounds_from(f);
  if (f.has("whole")) {
    fields w = f.object("whole");
    b.whole = class_bounds_from(w);
    w.finish();
  }
  if (f.has("plan")) {
    fields p = f.object("plan");
    const plan_class by = as_choice<plan_class>(p.at("class"), p.where("class"));
    const bool swaps = p.boolean("swaps"), repeats = p.boolean("repeats");
    r.bound = {{by, swaps, repeats}, bound_from(p, "least_ns")};
    p.finish();
  }
  f.finish();
}

time_band band_from(fields f) {
  time_band b;
  b.low = f.integer("low");
  b.high = f.integer("high", b.low);
  f.finish();
  return b;
}

steady_cycle cycle_from(fields f) {
  steady_cycle c;
  if (!f.is_null("period")) c.period = static_cast<std::uint32_t>(f.integer("period", 2, most_iterations));
  c.mean = f.integer("mean_ns");
  c.median = f.integer("median_ns");
  f.finish();
  return c;
}

void write_result(json& out, const record& r) {
  out["outcome"] = to_text(r.result);
  out["reason"] = or_null(r.reason);
  out["samples_ns"] = r.samples;
  if (r.band) out["band_ns"] = {{"low", r.band->low}, {"high", r.band->high}};
  if (r.cycle) {
    out["cycle"] = {{"period", r.cycle->period == 0 ? json(nullptr) : json(r.cycle->period)},
                    {"mean_ns", r.cycle->mean},
                    {"median_ns", r.cycle->median}};
  }
  out["counters"] = r.first && r.last
                        ? json{{"first", json_of(*r.first, r.memory)}, {"last", json_of(*r.last, r.memory)}}
                        : json(nullptr);
  out["counters_reason"] = or_null(r.counters_reason);
  out["observed"] = json_of(r.observed);
  out["memory"] = json_of(r.memory);
  out["planning_ns"] = or_null(r.planning);
  out["compute_ns"] = or_null(r.compute);
  out["bounds"] = bounds_json(r);
  if (!r.notes.empty()) out["notes"] = r.notes;
  out["digest"] = r.digest ? json(fmt::format("{:016x}", *r.digest)) : json(nullptr);
  out["loss"] = or_null(r.loss);
}

void read_result(fields& f, record& r) {
  r.result = as_choice<outcome>(f.at("outcome"), f.where("outcome"));
  r.reason = f.text_or_null("reason");
  if (r.reason && (r.reason->empty() || r.reason->find('\n') != std::string::npos)) {
    refuse(f.where("reason"), "is empty or has several lines; it is one");
  }
  for (const auto& [value, at] : f.list("samples_ns")) r.samples.push_back(as_integer(*value, at));
  if (f.has("band_ns")) r.band = band_from(f.object("band_ns"));
  if (f.has("cycle")) r.cycle = cycle_from(f.object("cycle"));
  if (!f.is_null("counters")) {
    fields c = f.object("counters");
    r.first = counters_from(c.at("first"), c.where("first"));
    r.last = counters_from(c.at("last"), c.where("last"));
    c.finish();
  }
  r.counters_reason = f.text_or_null("counters_reason");
  if (f.has("observed")) r.observed = observation_from(f.at("observed"), f.where("observed"));
  r.memory = memory_from(f.at("memory"), f.where("memory"));
  if (f.has("planning_ns")) {
    r.planning =
        unless_null<nanoseconds>(f, "planning_ns", [](auto& v, auto at) { return as_integer(v, at); });
  }
  r.compute = unless_null<nanoseconds>(f, "compute_ns", [](auto& v, auto at) { return as_integer(v, at); });
  if (f.has("bounds")) read_bounds(f.at("bounds"), f.where("bounds"), r);
  if (f.has("notes")) {
    for (const auto& [line, at] : f.list("notes")) r.notes.push_back(as_text(*line, at));
  }
  r.digest = unless_null<std::uint64_t>(f, "digest", digest_from);
  constexpr double most = std::numeric_limits<double>::max();
  r.loss = unless_null<double>(f, "loss", [](auto& v, auto at) { return as_number(v, at, -most, most); });
}

void write_origin(json& out, const record& r) {
  out["simulated"] = r.simulated;
  if (r.replayed) out["replayed"] = true;
  out["calibrated"] = or_null(r.calibrated);
  out["launch"] = r.launch ? json(to_text(*r.launch)) : json(nullptr);
  out["engines"] = nullptr;
  if (r.engines) {
    out["engines"] = json::array();
    for (const engine_figure& e : *r.engines) out["engines"].push_back(json_of(e));
  }
  out["timeline"] = r.timeline ? json_of(*r.timeline) : json(nullptr);
}

void read_origin(fields& f, record& r) {
  r.simulated = f.boolean("simulated");
  r.replayed = f.has("replayed") && f.boolean("replayed");
  r.calibrated = unless_null<bool>(f, "calibrated", as_boolean);
  if (f.has("memory_order")) f.at("launch");  // files have both or, older ones, neither
  if (f.has("launch") && !f.is_null("launch")) {
    r.launch = as_choice(f.at("launch"), f.where("launch"),
                         {launch_way::streams, launch_way::operator_graphs, launch_way::stretch_graphs,
                          launch_way::cuda_graph});
  }
  r.engines = unless_null<std::vector<engine_figure>>(f, "engines", engines_from);
  r.timeline = unless_null<timeline_figures>(f, "timeline", timeline_from);
}

// What the fields say together: results/record.schema.json has the same.
void check_consistent(const record& r, const fields& f) {
  bool on_simulator = false;
  try {
    on_simulator = parse_backend(r.backend).simulated;
  } catch (const input_error& error) {
    refuse(f.where("backend"), error.what());
  }
  if (r.simulated != on_simulator)
    refuse(f.where("simulated"), "does not go with backend " + one_line(r.backend));
  if (r.simulated && r.engines) refuse(f.where("engines"), "is null where simulated");
  if (r.simulated && r.launch) refuse(f.where("launch"), "is null where simulated");
  if (!r.simulated && r.mode == run_mode::simulated)
    refuse(f.where("mode"), "is simulated, the record is not");
  const bool ok = r.result == outcome::ok;
  if (ok == r.reason.has_value()) refuse(f.where("reason"), ok ? "is null where all is well" : "is missing");
  if (!ok) return;
  if (r.samples.empty()) refuse(f.where("samples_ns"), "is empty, but the outcome is ok");
  for (const auto& [name, known] : {std::pair{"ratio", r.ratio.has_value()},
                                    {"device", r.device.has_value()},
                                    {"calibrated", r.calibrated.has_value()},
                                    {"memory.footprint_bytes", r.memory.footprint.has_value()},
                                    {"memory.budget_bytes", r.memory.budget.has_value()}}) {
    if (!known) refuse(f.where(name), "is null, but the outcome is ok");
  }
}

}  // namespace

std::string to_json(const record& r) {
  json out{{"kind", "record"}, {"schema", 1}};
  write_identity(out, r);
  write_result(out, r);
  write_origin(out, r);
  return dump_line(out);
}

record record_from_json(std::string_view line, const std::string& source) {
  const json document = parse_json(line, source);
  fields f(document, {source, ""});
  as_one_of(f.at("kind"), f.where("kind"), {"record"});
  f.schema();
  record r;
  read_identity(f, r);
  read_result(f, r);
  read_origin(f, r);
  f.finish();
  check_consistent(r, f);
  return r;
}

line_kind kind_of_line(std::string_view line, const std::string& source) {
  const json document = parse_json(line, source);
  fields f(document, {source, ""});
  return as_one_of(f.at("kind"), f.where("kind"), {"environment", "record"}) == 0 ? line_kind::environment
                                                                                  : line_kind::record;
}

}  // namespace um
