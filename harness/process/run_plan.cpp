#include "harness/process/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/io/text.hpp"
#include "harness/process/gpu.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

// The first differs, those after the second do not.
constexpr std::uint32_t most_counted_iterations = 3;

engine_figure figure_of(std::string name, const op_cost& c, const work& w) {
  return {std::move(name), c.engine, c.time, c.workspace_bytes, w.flops, w.read + w.written, c.parts};
}

std::string name_of(const graph& g, const action& a) {
  const auto* c = std::get_if<compute>(&a);
  return c && is_whole(c->part) ? g.ops[c->what].name : to_text(g, a);
}

// Slices stand for the operator that they are of.
void note_slices(record& r, const graph& g, const std::vector<slice_cost>& slices) {
  for (const slice_cost& s : slices) {
    const op& o = g.ops[s.what.what];
    std::erase_if(*r.engines, [&](const engine_figure& e) { return e.op == o.name; });
    r.engines->push_back(figure_of(o.name + " " + to_text(s.what.part), s.cost, work_of(g, o, s.what.part)));
  }
}

timeline_figures timeline_of(const graph& g, const execution_plan& plan, const execution& done) {
  const trace& last = done.iterations.back();
  timeline_figures t;
  t.iteration = static_cast<std::uint32_t>(done.iterations.size() - 1);
  for (const span& s : last.spans) {
    t.spans.push_back({s.where, name_of(g, plan.steps.at(s.step).what), s.begin, s.end});
  }
  t.resident = last.resident;
  return t;
}

bool all_observed(const counters& c) {
  return std::all_of(counter_fields.begin(), counter_fields.end(),
                     [&](const counter_field& f) { return (c.*f.member).has_value(); });
}

void note_execution(record& r, const graph& g, const execution& done) {
  for (const trace& t : done.iterations) r.samples.push_back(t.duration);
  if (!done.iterations.empty()) {
    r.first = done.iterations.front().moved;
    r.last = done.iterations.back().moved;
    if (!all_observed(*r.first) || !all_observed(*r.last)) {
      r.counters_reason = "what the driver moves by itself was not counted";
    }
  }
  if (done.launched_as != launch_mode::simulated) r.launch = done.launched_as;
  note_slices(r, g, done.slices);
  r.band = done.band;
  r.cycle = done.cycle;
  r.digest = done.digest;
  r.loss = done.loss;
}

// What was counted replaces what the plan alone says.
void overlay(std::optional<counters>& known, const counters& counted) {
  for (const counter_field& f : counter_fields) {
    if (counted.*f.member) (*known).*f.member = counted.*f.member;
  }
}

}  // namespace

void note_engines(record& r, const graph& g, const profile& costs) {
  if (r.simulated) return;
  r.engines.emplace();
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const op& o = g.ops[i];
    r.engines->push_back(figure_of(o.name, costs[i], work_of(g, o)));
  }
}

clock::duration execute_into(record& r, const cell& work, backend& on, const graph& g,
                             const execution_plan& plan) {
  const experiment& e = work.what;
  const auto begin = clock::now();
  execution_request how{
      .iterations = e.iterations, .timeline = e.timeline, .digest = !has_opaque(g), .values = work.values};
  how.cycle = r.simulated;
  how.band = r.simulated && r.ratio && has_band(plan, *r.ratio);
  std::optional<observer> seen;
  if (!r.simulated && !work.times_only) {
    seen.emplace(observer_of(work.where.device, e.iterations));
    how.watch = [&](std::uint32_t done) { seen->watch(done); };
    how.linger = observer::linger;
  }
  const execution done = on.execute(g, plan, how);
  if (seen) r.observed = seen->result();
  if (!r.simulated && !seen) r.observed.reason = "only times were asked for";
  note_execution(r, g, done);
  if (has_opaque(g)) r.loss.reset();
  if (e.timeline && !done.iterations.empty()) r.timeline = timeline_of(g, plan, done);
  return clock::now() - begin;
}

void count_into(record& r, backend& on, const graph& g, const execution_plan& plan) {
  try {
    const auto counted = count_on_gpu(on, g, plan, std::min(r.iterations, most_counted_iterations));
    overlay(r.first, counted.front());
    overlay(r.last, counted.back());
    r.counters_reason = "what is null was not counted";
  } catch (const std::exception& error) {
    r.counters_reason = one_line(error.what());
  }
}

}  // namespace um
