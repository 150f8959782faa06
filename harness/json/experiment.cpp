#include <nlohmann/json.hpp>

#include "harness/json/fields.hpp"
#include "harness/json/json.hpp"
#include "harness/json/parts.hpp"

namespace um {
namespace {

json json_of(const experiment& e) {
  return {{"network", network_json(e.network)},
          {"strategy", e.strategy},
          {"strategy_knobs", knobs_json(e.strategy_knobs)},
          {"ratio", or_null(e.ratio)},
          {"budget_bytes", or_null(e.budget)},
          {"backend", e.backend},
          {"mode", e.mode ? json(to_text(*e.mode)) : json(nullptr)},
          {"workspace_cap_bytes", or_null(e.workspace_cap)},
          {"iterations", e.iterations},
          {"deadline_s", e.deadline_s},
          {"timeline", e.timeline},
          {"allow_native", e.allow_native},
          {"rules", e.rules ? json_of(*e.rules) : json(nullptr)}};
}

experiment experiment_from(const json& value, const place& at) {
  fields f(value, at);
  experiment e;
  e.network = spec_from(f.at("network"), f.where("network"));
  e.strategy = f.text("strategy");
  e.strategy_knobs = knobs_from(f.at("strategy_knobs"), f.where("strategy_knobs"));
  if (!f.is_null("ratio")) e.ratio = f.number("ratio", least_ratio, most_ratio);
  e.budget = f.count_or_null("budget_bytes");
  e.backend = f.text("backend");
  if (!f.is_null("mode")) {
    e.mode =
        as_choice(f.at("mode"), f.where("mode"), {run_mode::simulated, run_mode::capped, run_mode::native});
  }
  e.workspace_cap = f.count_or_null("workspace_cap_bytes");
  e.iterations = static_cast<std::uint32_t>(f.integer("iterations", 1, most_iterations));
  e.deadline_s = static_cast<std::uint32_t>(f.integer("deadline_s", 1, most_deadline_s));
  e.timeline = f.boolean("timeline");
  e.allow_native = f.boolean("allow_native");
  if (f.has("rules") && !f.is_null("rules")) e.rules = hint_strategy_from(f.at("rules"), f.where("rules"));
  f.finish();
  return e;
}

}  // namespace

std::string to_json(const cell& work) {
  return dump_line({{"schema", 1},
                    {"experiment", json_of(work.what)},
                    {"machine", work.on ? json_of(*work.on) : json(nullptr)},
                    {"plan", work.plan ? json_of(*work.plan) : json(nullptr)},
                    {"times_only", work.times_only},
                    {"values", work.values}});
}

cell cell_from_json(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  fields f(document, {source, ""});
  f.schema();
  experiment what = experiment_from(f.at("experiment"), f.where("experiment"));
  std::optional<plan_file> plan;
  if (!f.is_null("plan")) plan = plan_file_from(f.at("plan"), f.where("plan"));
  cell work = completed(std::move(what), std::move(plan));
  if (!f.is_null("machine")) work.on = machine_from(f.at("machine"), f.where("machine"));
  work.times_only = f.boolean("times_only");
  work.values = f.text("values");
  f.finish();
  return work;
}

}  // namespace um
