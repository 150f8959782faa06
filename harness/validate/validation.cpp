#include "harness/validate/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

#include "core/figures.hpp"
#include "core/quantiles.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/study/experiment.hpp"
#include "harness/study/machines.hpp"
#include "hints/hints.hpp"
#include "simulator/patterns.hpp"
#include "simulator/roofline.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

constexpr double clear_difference = 1.05;

double lower_decile(std::vector<nanoseconds> all) {
  std::sort(all.begin(), all.end());
  return static_cast<double>(all[all.size() / 10]);
}

// The measured time of every operator, of one that was cut the sum of its slices. Times that the record lacks
// are estimated: those of slices of umbench's own kernels, and all if it has no engines.
profile measured_profile(const record& r, const graph& g, const machine& target) {
  std::map<std::string, op_cost> by_name;
  for (const engine_figure& e : r.engines.value_or(std::vector<engine_figure>{})) {
    op_cost& whole = by_name[e.op.substr(0, e.op.find(" ["))];
    whole = {whole.time + e.time, std::max(whole.workspace_bytes, e.workspace_bytes), e.engine, e.parts};
  }
  profile costs = estimate(g, target);
  for (std::size_t i = 0; i < g.ops.size(); ++i) {
    const auto found = by_name.find(g.ops[i].name);
    if (found != by_name.end()) costs[i] = found->second;
  }
  return costs;
}

// Whether the arenas have the sizes of the record. Sizes that it lacks count as equal.
bool has_recorded_arenas(const execution_plan& plan, const memory_figures& recorded) {
  return recorded.device_arena.value_or(plan.device_arena_bytes) == plan.device_arena_bytes &&
         recorded.managed_arena.value_or(plan.managed_arena_bytes) == plan.managed_arena_bytes;
}

// The steady time of a cell in ns. `ends` has those of times_at_figure_bounds(); empty if the cell has no
// band.
struct cell_times {
  double time = 0;
  std::vector<nanoseconds> ends = {};
};

cell_times times_of_cell(const known_figure& f, const std::string& name, double ratio,
                         const machine& target) {
  constexpr std::uint32_t iterations = 4;
  const graph& g = *f.network.network;
  const profile costs = estimate(g, target);
  if (name == "compute") {
    return {std::accumulate(costs.begin(), costs.end(), 0.0,
                            [](double sum, const op_cost& c) { return sum + static_cast<double>(c.time); })};
  }
  const strategy s = strategy_named(name)->row;
  const auto whole = static_cast<double>(footprint_of(g, costs).total);
  const problem p{
      g, costs, target, static_cast<byte_count>(whole / ratio), evictor::driver, complete_knobs(s, {})};
  const execution_plan plan = lower(p, plan_for(s, p), s.packing_algorithm);
  cell_times found{steady_time(durations_of(simulate(p, plan, iterations)))};
  if (has_band(plan, ratio))
    found.ends = times_at_figure_bounds({g, plan, target, costs, p.cost_of_slice}, iterations);
  return found;
}

void widen_band(std::optional<figure_band>& band, double value) {
  if (!band) band = figure_band{value, value};
  band = figure_band{std::min(band->low, value), std::max(band->high, value)};
}

// Ratio of the cell's time to the baseline's. Widens the band by the ratios at the extremes of all uncertain
// inputs.
double time_ratio_at(const known_figure& f, double ratio, const machine& target,
                     std::optional<figure_band>& band) {
  const cell_times one = times_of_cell(f, f.strategy, ratio, target);
  const cell_times other = f.baseline.empty() ? cell_times{1e6} : times_of_cell(f, f.baseline, ratio, target);
  for (std::size_t i = 0; i < std::max(one.ends.size(), other.ends.size()); ++i) {
    const auto at = [i](const cell_times& t) {
      return t.ends.empty() ? t.time : static_cast<double>(t.ends[i]);
    };
    widen_band(band, at(one) / at(other));
  }
  if (band) widen_band(band, one.time / other.time);
  return one.time / other.time;
}

void compare_cells(const known_figure& f, const machine& target, comparison& c) {
  c.predicted = time_ratio_at(f, f.ratio.value_or(1), target, c.band);
  for (const double ratio : f.ratios) time_ratio_at(f, ratio, target, c.band);
}

void compare_pattern(const known_figure& f, const pattern& p, const machine& target, comparison& c) {
  const auto value = [&](const pattern_result& r) {
    return f.unit == "ns" ? static_cast<double>(r.traffic.time) : rate_of(r) / 1e9;
  };
  c.predicted = value(f.ratio ? p.at_ratio(target, *f.ratio) : p.simulate(target));
  if (!f.ratio || !is_just_above_one(*f.ratio)) return;
  widen_band(c.band, c.predicted);
  for (const machine& m : {with_fastest_figures(target), with_slowest_figures(target)}) {
    widen_band(c.band, value(p.at_ratio(m, *f.ratio)));
    if (p.worst_order != nullptr) widen_band(c.band, value(p.worst_order(m, *f.ratio)));
  }
}

}  // namespace

double deviation_of(const comparison& c) {
  if (!c.missing_reason.empty()) return std::numeric_limits<double>::infinity();
  if (c.predicted < c.known_min) return c.predicted / c.known_min - 1;
  if (c.predicted > c.known_max) return c.predicted / c.known_max - 1;
  return 0;
}

bool is_within_band(const comparison& c) {
  return c.band && c.known_min <= c.band->high && c.known_max >= c.band->low;
}

double deviation_factor(const comparison& c) {
  if (!c.missing_reason.empty()) return std::numeric_limits<double>::infinity();
  if (c.predicted < c.known_min) return c.known_min / c.predicted;
  return std::max(1.0, c.predicted / c.known_max);
}

comparison compare_figure(const known_figure& f, const std::vector<machine>& machines) {
  const machine& on = find_machine(machines, f.machine);
  comparison c{f.machine, f.name,       f.min_value, f.max_value, 0, f.unit, f.is_calibration_input,
               f.source,  f.miss_reason};
  if (!f.pattern) {
    try {
      compare_cells(f, on, c);
    } catch (const infeasible& reason) {
      c.missing_reason = reason.what();
    }
    return c;
  }
  const pattern* p = find_pattern(*f.pattern);
  if (p == nullptr) {
    std::vector<std::string> known;
    for (const pattern& q : patterns()) known.emplace_back(q.name);
    throw input_error(unknown_name("pattern", *f.pattern, known));
  }
  if (f.ratio && p->at_ratio == nullptr) {
    throw input_error(fmt::format("pattern {} has no ratio: leave it out", *f.pattern));
  }
  compare_pattern(f, *p, on, c);
  return c;
}

std::optional<cell_comparison> compare_cell(const std::vector<record>& runs, const machine& target) {
  std::vector<nanoseconds> first, later;
  const record* made = nullptr;
  std::uint32_t iterations = 0;
  for (const record& r : runs) {
    if (r.simulated || r.result != outcome::ok || !r.memory.budget || r.samples.empty()) continue;
    if (made == nullptr || (r.engines && !made->engines)) made = &r;
    iterations = std::max(iterations, r.iterations);
    first.push_back(r.samples.front());
    later.insert(later.end(), r.samples.begin() + 1, r.samples.end());
  }
  if (made == nullptr) return std::nullopt;
  if (later.empty()) later = first;
  const record& r = *made;
  const strategy* named = find_strategy(strategies(), r.strategy);
  if (named == nullptr && !r.rules) return std::nullopt;
  const strategy s = r.rules ? make_strategy(*r.rules) : *named;
  const graph g = build_network(r.network);
  const profile costs = measured_profile(r, g, target);
  std::vector<nanoseconds> times{0};
  std::string not_run;
  bool has_other_addresses = false;
  knob_values knobs;
  try {  // records that are older than a knob have its default
    knobs = complete_knobs(s, r.strategy_knobs);
  } catch (const std::invalid_argument& knob_no_longer_known) {
    not_run = knob_no_longer_known.what();
  }
  if (not_run.empty()) {
    try {
      const problem p{g, costs, target, *r.memory.budget, facts_of_mode(r.mode).evicted_by, knobs};
      const execution_plan plan = lower(p, plan_for(s, p), s.packing_algorithm);
      times = durations_of(simulate(p, plan, iterations));
      has_other_addresses = !has_recorded_arenas(plan, r.memory);
    } catch (const infeasible& reason) {
      not_run = reason.what();
    }
  }
  const std::string group = fmt::format(
      "{} b{}{}, workspace up to {}, {:.2f}x", r.network.name, r.network.batch,
      r.network.arithmetic == precision::fp32 ? "" : fmt::format(" {}", to_text(r.network.arithmetic)),
      to_text(r.workspace_cap.value_or(0)), r.ratio.value_or(0));
  const auto row = [&](double known, double predicted) {
    return comparison{group, r.strategy, known, known, predicted, "ns", false, {}, {}, not_run};
  };
  return cell_comparison{row(lower_decile(first), static_cast<double>(times.front())),
                         row(lower_decile(later), steady_time(times)),
                         median_of({later.begin(), later.end()}), has_other_addresses};
}

order_check check_order(const std::vector<comparison>& all) {
  order_check found;
  for (const comparison& a : all) {
    for (const comparison& b : all) {
      if (a.group != b.group || a.known_min < b.known_min * clear_difference) continue;
      ++found.pair_count;
      if (!a.missing_reason.empty() || !b.missing_reason.empty()) {
        found.wrong_pairs.push_back(fmt::format("{}: {} or {} not run", a.group, b.name, a.name));
      } else if (a.predicted <= b.predicted) {
        found.wrong_pairs.push_back(fmt::format("{}: {} before {}", a.group, b.name, a.name));
      }
    }
  }
  return found;
}

}  // namespace um
