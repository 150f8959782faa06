#include "harness/records/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "backends/backend.hpp"
#include "harness/records/numbers.hpp"
#include "harness/records/strategies.hpp"
#include "harness/records/suggest.hpp"

namespace um {
namespace {

constexpr std::string_view plan_prefix = "plan:";

const network_family& family_named(const std::string& name) {
  std::vector<std::string> known;
  for (const network_family& f : networks()) {
    if (f.name == name) return f;
    known.push_back(f.name);
  }
  throw input_error(unknown_name("network", name, known));
}

void complete_strategy(experiment& e) {
  if (e.strategy.starts_with(plan_prefix)) return;
  const strategy s = strategy_of(e);
  try {
    e.strategy_knobs = complete(s, e.strategy_knobs);
  } catch (const std::invalid_argument& error) {
    throw input_error(one_line(error.what()));
  }
}

void complete_mode(experiment& e) {
  const bool simulated = parse_backend(e.backend).simulated;
  const run_mode mode = e.mode.value_or(simulated ? run_mode::simulated : run_mode::capped);
  if (mode == run_mode::simulated && !simulated) {
    throw input_error(fmt::format("mode simulated does not exist on {}; use capped", e.backend));
  }
  if (mode == run_mode::native && simulated) {
    throw input_error(fmt::format(
        "mode native does not exist on {}: it has no real driver; use simulated or capped", e.backend));
  }
  if (mode == run_mode::native && !e.allow_native) {
    throw input_error(
        "mode native is refused: it lets the GPU's driver evict by itself, and driver defects can hang the "
        "GPU "
        "there until a reboot; use capped, or allow it with --allow-native-oversubscription on a GPU that "
        "nobody else needs");
  }
  e.mode = mode;
}

void complete_workspace_cap(experiment& e) {
  const bool simulated = parse_backend(e.backend).simulated;
  if (simulated && e.workspace_cap) {
    throw input_error(
        fmt::format("a workspace cap means nothing on {}: simulated operators use no workspace; leave it out",
                    e.backend));
  }
  if (!simulated) e.workspace_cap = e.workspace_cap.value_or(standard_workspace_cap);
}

void check_amounts(const experiment& e) {
  if (e.ratio && e.budget) {
    throw input_error("both a ratio and a budget are given; keep one (ratio = footprint / budget)");
  }
  if (e.ratio && !(*e.ratio >= least_ratio && *e.ratio <= most_ratio)) {
    throw input_error(
        fmt::format("ratio {} is out of range; use {} to {}", *e.ratio, least_ratio, most_ratio));
  }
  if (e.budget && *e.budget == 0)
    throw input_error("a budget of 0 bytes runs nothing; give at least one byte");
  if (e.iterations < 1 || e.iterations > most_iterations) {
    throw input_error(
        fmt::format("{} iterations are out of range; use 1 to {}", e.iterations, most_iterations));
  }
  if (e.deadline_s < 1 || e.deadline_s > most_deadline_s) {
    throw input_error(
        fmt::format("a deadline of {} s is out of range; use 1 to {}", e.deadline_s, most_deadline_s));
  }
}

// ",ahead=4" for every knob that differs from its default.
template <class Knob>
std::string changed_knobs(const std::vector<Knob>& knobs, const std::map<std::string, std::int64_t>& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    const auto row = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == name; });
    if (row == knobs.end() || row->standard != value) text += fmt::format(",{}={}", name, value);
  }
  return text;
}

// "x1.50", and as many digits more as the ratio needs: "x1.125".
std::string ratio_text(double ratio) {
  const std::string shortest = fmt::format("{}", ratio), two = fmt::format("{:.2f}", ratio);
  const std::size_t point = shortest.find('.');
  const bool longer = point != std::string::npos && shortest.size() - point > 3;
  return "x" + (longer ? shortest : two);
}

std::string amount_text(const experiment& e) {
  if (e.ratio) return ratio_text(*e.ratio);
  return e.budget ? fmt::format("{}B", *e.budget) : "whole";
}

}  // namespace

bool operator==(const experiment& a, const experiment& b) {
  const auto network = [](const experiment& e) {
    const network_spec& n = e.network;
    return std::tie(n.name, n.batch, n.mode, n.sgd, n.joined, n.arithmetic, n.order, n.knobs);
  };
  const auto rest = [](const experiment& e) {
    return std::tie(e.strategy, e.strategy_knobs, e.ratio, e.budget, e.backend, e.mode, e.workspace_cap,
                    e.iterations, e.deadline_s, e.timeline, e.allow_native, e.rules);
  };
  return network(a) == network(b) && rest(a) == rest(b);
}

std::string_view to_text(run_mode mode) {
  constexpr std::array<std::string_view, 3> names{"simulated", "capped", "native"};
  return names.at(static_cast<std::size_t>(mode));
}

std::string_view to_text(pass p) {
  return p == pass::train ? "train" : "inference";
}

backend_name parse_backend(const std::string& text) {
  if (text.starts_with("sim:") && text.size() > 4) return {true, text.substr(4), 0};
  if (text.starts_with("cuda:")) {
    return {false, "", static_cast<int>(whole_number("backend cuda:N", text.substr(5), 0, 1023))};
  }
  throw input_error(
      fmt::format("unknown backend \"{}\"; use sim:NAME (see `umbench list machines`) or cuda:N",
                  one_line(text.substr(0, 80))));
}

strategy strategy_of(const experiment& e) {
  return e.rules ? strategy_of(*e.rules) : strategy_named(e.strategy);
}

network_spec completed(network_spec spec) {
  const network_family& family = family_named(spec.name);
  std::vector<std::string> known;
  for (const network_knob& k : family.knobs) known.push_back(k.name);
  for (const auto& [name, value] : spec.knobs) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw input_error(unknown_name("knob of network " + spec.name, name, known));
    }
  }
  for (const network_knob& k : family.knobs) spec.knobs.emplace(k.name, k.standard);
  spec.order = spec.order.value_or(standard_order(spec.arithmetic));
  if (spec.sgd && spec.mode != pass::train) {
    throw input_error("sgd needs pass train; inference has no gradients");
  }
  try {
    build(spec);
  } catch (const std::invalid_argument& error) {
    throw input_error(one_line(error.what()));
  }
  return spec;
}

experiment completed(experiment e) {
  e.network = completed(std::move(e.network));
  return completed_on_known_network(std::move(e));
}

experiment completed_on_known_network(experiment e) {
  check_amounts(e);
  complete_strategy(e);
  complete_mode(e);
  complete_workspace_cap(e);
  return e;
}

std::string storage_text(const network_spec& n) {
  const memory_order standard = standard_order(n.arithmetic), order = n.order.value_or(standard);
  return fmt::format("{}{}", to_text(n.arithmetic),
                     order == standard ? "" : fmt::format(",{}", to_text(order)));
}

// ",workspace=268435456B" where the cap is not the standard one.
std::string workspace_text(const experiment& e) {
  const byte_count cap = e.workspace_cap.value_or(standard_workspace_cap);
  return cap == standard_workspace_cap ? "" : fmt::format(",workspace={}B", cap);
}

std::string key_of(const experiment& e) {
  const network_spec& n = e.network;
  const bool from_file = e.strategy.starts_with(plan_prefix);
  const std::vector<knob> knobs = from_file ? std::vector<knob>{} : strategy_of(e).knobs;
  return fmt::format(
      "{}{}/b{}/{}{}/{}/{}{}/{}{}/{}/{}/{}", n.name, changed_knobs(family_named(n.name).knobs, n.knobs),
      n.batch, to_text(n.mode), n.sgd ? "+sgd" : "", to_text(n.joined), storage_text(n), workspace_text(e),
      e.strategy, changed_knobs(knobs, e.strategy_knobs), amount_text(e), to_text(e.mode.value()), e.backend);
}

std::string line_of(experiment e) {
  e.ratio.reset();
  e.budget.reset();
  return key_of(e);
}

bool is_tighter(const experiment& a, const experiment& b) {
  if (a.ratio && b.ratio) return *a.ratio > *b.ratio;
  return a.budget && b.budget && *a.budget < *b.budget;
}

pressure pressure_of(run_mode mode) {
  return mode == run_mode::capped ? pressure::plan : pressure::driver;
}

}  // namespace um
