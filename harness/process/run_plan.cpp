#include "harness/process/run_plan.hpp"

#include <algorithm>

#include "harness/io/text.hpp"
#include "harness/process/gpu.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

// Iterations after the second move the same memory.
constexpr std::uint32_t max_counted_iterations = 3;

engine_figure figure_of(std::string name, const op_cost& c, const work& w) {
  return {std::move(name), c.engine, c.time, c.workspace_bytes, w.flops, w.read + w.written, c.engine_parts};
}

std::string name_of_action(const graph& g, const action& a) {
  const auto* c = std::get_if<compute>(&a);
  return c && is_whole(c->part) ? g.ops[c->op].name : to_text(g, a);
}

// Replaces the engine of an operator that was cut by those of its slices.
void record_slices(record& r, const graph& g, const std::vector<slice_cost>& slices) {
  for (const slice_cost& s : slices) {
    const op& o = g.ops[s.slice.op];
    std::erase_if(*r.engines, [&](const engine_figure& e) { return e.op == o.name; });
    r.engines->push_back(
        figure_of(o.name + " " + to_text(s.slice.part), s.cost, work_of(g, o, s.slice.part)));
  }
}

timeline_figures timeline_of(const graph& g, const execution_plan& plan, const execution& done) {
  const trace& last = done.iterations.back();
  timeline_figures t;
  t.iteration = static_cast<std::uint32_t>(done.iterations.size() - 1);
  for (const span& s : last.spans) {
    t.spans.push_back({s.in_lane, name_of_action(g, plan.steps.at(s.step).command), s.begin, s.end});
  }
  t.resident = last.memory_samples;
  return t;
}

bool all_observed(const counters& c) {
  return std::all_of(counter_fields.begin(), counter_fields.end(),
                     [&](const counter_field& f) { return (c.*f.member).has_value(); });
}

void record_execution(record& r, const graph& g, const execution& done) {
  r.samples = durations_of(done.iterations);
  if (!done.iterations.empty()) {
    r.first = done.iterations.front().counts;
    r.last = done.iterations.back().counts;
    if (!all_observed(*r.first) || !all_observed(*r.last)) {
      r.counters_reason = "what the driver moves by itself was not counted";
    }
  }
  if (done.launch != launch_mode::simulated) r.launch = done.launch;
  record_slices(r, g, done.slice_costs);
  r.band = done.band;
  r.cycle = done.steady_cycle_found;
  r.digest = done.digest;
  r.loss = done.loss;
}

// Replaces values that were derived from the plan by counted ones.
void merge_counters(std::optional<counters>& known, const counters& counted) {
  for (const counter_field& f : counter_fields) {
    if (counted.*f.member) (*known).*f.member = counted.*f.member;
  }
}

}  // namespace

void record_engines(record& r, const graph& g, const profile& costs) {
  if (r.simulated) return;
  r.engines.emplace();
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const op& o = g.ops[i];
    r.engines->push_back(figure_of(o.name, costs[i], work_of(g, o)));
  }
}

clock::duration execute_and_record(record& r, const cell& work, backend& target, const graph& g,
                                   const execution_plan& plan) {
  const experiment& e = work.settings;
  const auto begin = clock::now();
  execution_request how{.iterations = e.iterations,
                        .records_timeline = e.timeline,
                        .computes_digest = !has_opaque(g),
                        .values_folder = work.values_folder};
  how.computes_steady_cycle = r.simulated;
  how.computes_time_band = r.simulated && r.ratio && has_band(plan, *r.ratio);
  std::optional<observer> seen;
  if (!r.simulated && !work.skips_observation) {
    seen.emplace(observer_of(work.backend.device, e.iterations));
    how.watch = [&](std::uint32_t done) { seen->on_iterations_done(done); };
    how.linger_time = observer::linger_time;
  }
  const execution done = target.execute(g, plan, how);
  if (seen) r.gpu_and_host = seen->result();
  if (!r.simulated && !seen) r.gpu_and_host.missing_reason = "only times were asked for";
  record_execution(r, g, done);
  if (has_opaque(g)) r.loss.reset();
  if (e.timeline && !done.iterations.empty()) r.timeline = timeline_of(g, plan, done);
  return clock::now() - begin;
}

void count_and_record(record& r, backend& target, const graph& g, const execution_plan& plan) {
  try {
    const auto counted = count_on_gpu(target, g, plan, std::min(r.iterations, max_counted_iterations));
    merge_counters(r.first, counted.front());
    merge_counters(r.last, counted.back());
    r.counters_reason = "what is null was not counted";
  } catch (const std::exception& error) {
    r.counters_reason = one_line(error.what());
  }
}

}  // namespace um
