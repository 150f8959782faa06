#include "harness/process/flow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>

#include "backends/backend.hpp"
#include "backends/simulator_backend.hpp"
#include "core/errors.hpp"
#include "harness/io/text.hpp"
#include "harness/json/json.hpp"
#include "harness/process/gpu.hpp"
#include "harness/process/host_needs.hpp"
#include "harness/process/run_plan.hpp"
#include "schedule/notes.hpp"
#include "simulator/roofline.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

constexpr byte_count most_bytes = std::numeric_limits<byte_count>::max();

// A plan that cannot be made, or that verify() or lower() refuses: a defect of the strategy, kept as a
// result.
struct wrong_plan : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::unique_ptr<backend> open_backend(const cell& work) {
  if (work.where.simulated) return open_simulator(work.on.value());
  return open_gpu(work.where.device, work.what.workspace_cap.value_or(standard_workspace_cap),
                  work.what.allow_native);
}

// What planners go by: on a GPU the figures of a machine file with the GPU's own sizes.
machine figures_of(const cell& work, const machine& on) {
  if (work.where.simulated) return on;
  machine figures = work.on.value();
  figures.device_bytes = on.device_bytes;
  figures.host_bytes = on.host_bytes;
  return figures;
}

nanoseconds total_time(const profile& costs) {
  return std::accumulate(costs.begin(), costs.end(), nanoseconds{0},
                         [](nanoseconds sum, const op_cost& c) { return sum + c.time; });
}

byte_count budget_of(const cell& work, const footprint_terms& footprint, const machine& on) {
  if (work.plan) return work.plan->budget;
  const experiment& e = work.what;
  if (e.budget) return *e.budget;
  if (!e.ratio) return on.device_bytes;
  return std::max<byte_count>(1, static_cast<byte_count>(static_cast<double>(footprint.total) / *e.ratio));
}

void check_device_holds(byte_count budget, const footprint_terms& footprint, const machine& on) {
  if (budget <= on.device_bytes) return;
  throw infeasible(fmt::format(
      "the budget of {} ({} bytes; footprint {}) is more than the {} ({} bytes) of {}", to_text(budget),
      budget, to_text(footprint.total), to_text(on.device_bytes), on.device_bytes, on.name));
}

// What outlives an iteration must lie somewhere, whatever the strategy. Found before planning, which
// takes long for sizes that no machine has.
void check_storage_holds(const graph& g, const machine& on) {
  byte_count lasting = 0;
  for (const tensor& t : g.tensors) {
    if (survives(t.use)) lasting = checked_add(lasting, bytes_of(t)).value_or(most_bytes);
  }
  if (lasting <= checked_add(on.device_bytes, on.host_bytes).value_or(most_bytes)) return;
  throw infeasible(fmt::format(
      "parameters, their gradients, inputs and outputs alone are {}; {} has {} on the device and {} "
      "on the host",
      to_text(lasting), on.name, to_text(on.device_bytes), to_text(on.host_bytes)));
}

// Pinned data and whatever managed data does not fit on the device must fit on the host.
void check_host_holds(const execution_plan& plan, const machine& on) {
  const byte_count needed = host_bytes_needed(plan);
  if (needed <= on.host_bytes) return;
  throw infeasible(
      fmt::format("{} must lie in host memory, {} has {}", to_text(needed), on.name, to_text(on.host_bytes)));
}

// The host has the memory, but not free now.
struct host_too_full : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check_host_is_free(const execution_plan& plan) {
  if (const auto why = shortage(host_bytes_needed(plan), plan.pinned_arena_bytes, host_memory_now())) {
    throw host_too_full("not run: it " + *why);
  }
}

void note_memory(record& r, const execution_plan& plan) {
  r.memory.device_arena = plan.device_arena_bytes;
  r.memory.managed_arena = plan.managed_arena_bytes;
  r.memory.pinned_arena = plan.pinned_arena_bytes;
  r.memory.peak_device = peak_in_use(r.mode, plan);
}

// On a GPU each operator that is replayed needs its time; where it has none, the figures that planners go by
// say it.
std::shared_ptr<const graph> network_of(const cell& work) {
  if (work.where.simulated || !has_opaque(*work.network.built)) return work.network.built;
  return std::make_shared<const graph>(with_durations(*work.network.built, work.on.value()));
}

// A cell with everything that its plan and its run go by, made once.
struct prepared_cell {
  const cell& work;
  std::shared_ptr<const graph> network;
  std::unique_ptr<backend> runs_on;
  machine on;
  machine figures;
  profile costs;
  slice_costs slices;
  byte_count budget = 0;

  problem to_plan() const {
    return {
        *network, costs, figures, budget, facts_of(work.what.mode.value()).under, work.what.strategy_knobs,
        slices};
  }
};

// `r` learns what is known, step by step, so that a refusal leaves it with that. Throws infeasible.
prepared_cell prepare(const cell& work, record& r) {
  prepared_cell p{work, network_of(work), open_backend(work), {}, {}, {}, {}};
  r.replayed = !r.simulated && has_opaque(*p.network);
  p.on = p.runs_on->describe();
  p.figures = figures_of(work, p.on);
  r.device = p.on.name;
  r.figures = p.figures.name;
  r.figures_digest = figures_digest(work.on.value());
  r.borrowed = p.figures.borrowed;
  r.calibrated = !r.simulated || all_measured(p.on);
  r.kernels_at_peak = r.simulated && kernels_at_peak(*p.network, p.on);
  p.costs = p.runs_on->measure(*p.network);
  p.slices = costs_of_slices(*p.runs_on, *p.network);
  r.compute = total_time(p.costs);
  note_engines(r, *p.network, p.costs);

  const footprint_terms footprint = footprint_of(*p.network, p.costs);
  p.budget = budget_of(work, footprint, p.on);
  r.memory.footprint = footprint;
  r.memory.budget = p.budget;
  r.memory.touched = touched_bytes(*p.network);
  if (!r.ratio) r.ratio = static_cast<double>(footprint.total) / static_cast<double>(p.budget);
  check_device_holds(p.budget, footprint, p.on);
  check_storage_holds(*p.network, p.on);
  r.bounds = compute_time_bounds(p.to_plan());
  return p;
}

// What a planner's or a plan's own defect throws. Throws wrong_plan.
template <class Make>
auto without_defect(const prepared_cell& p, Make make) {
  try {
    return make();
  } catch (const std::invalid_argument& defect) {
    throw wrong_plan(
        fmt::format("strategy {} made a wrong plan: {}", p.work.what.strategy, one_line(defect.what())));
  }
}

// A plan and what became of it.
struct lowered_plan {
  memory_plan plan;
  packer placed_by;
  nanoseconds planning_time = 0;
  execution_plan steps = {};
};

// Throws infeasible.
lowered_plan make_plan(const prepared_cell& p, record& r) {
  if (p.work.plan) return {p.work.plan->plan, p.work.plan->placed_by};
  const strategy& s = p.work.how->row;
  const auto begin = clock::now();
  const note_collector heard;
  lowered_plan made{plan_for(s, p.to_plan()), s.placed_by};
  r.notes = heard.lines;
  made.planning_time = std::chrono::nanoseconds(clock::now() - begin).count();
  // Simulated records are the same to the byte on every run.
  if (!p.work.where.simulated) r.planning = made.planning_time;
  return made;
}

// Throws infeasible and wrong_plan.
lowered_plan steps_for(const prepared_cell& p, record& r) {
  lowered_plan made = without_defect(p, [&] { return make_plan(p, r); });
  made.steps =
      without_defect(p, [&] { return lower(p.to_plan(), verified(*p.network, made.plan), made.placed_by); });
  const plan_kind kind = kind_of(*p.network, made.plan);
  r.bound = {kind, bound_for(r.bounds.value(), kind)};
  note_memory(r, made.steps);
  check_host_holds(made.steps, p.on);
  return made;
}

void fill_record(record& r, const cell& work, const std::function<void(const record&)>& tell) {
  const auto begin = clock::now();
  const prepared_cell p = prepare(work, r);
  const execution_plan plan = steps_for(p, r).steps;
  if (!r.simulated) check_host_is_free(plan);

  const auto took = execute_into(r, work, *p.runs_on, *p.network, plan);
  if (r.simulated || work.times_only || plan.managed_arena_bytes == 0) return;
  if (clock::now() - begin + 2 * took > std::chrono::seconds{work.what.deadline_s}) {
    r.counters_reason = "not counted: another pass might not end before the deadline";
    return;
  }
  if (tell) tell(r);
  count_into(r, *p.runs_on, *p.network, plan);
}

void fail(record& r, outcome result, const char* why) {
  r.result = result;
  r.reason = one_line(why);
}

}  // namespace

record with_outcome(const cell& work, const std::function<void(record&)>& fill_in) {
  record r = blank_record(work);
  try {
    fill_in(r);
  } catch (const infeasible& e) {
    fail(r, outcome::infeasible, e.what());
  } catch (const out_of_memory& e) {
    fail(r, outcome::out_of_memory, e.what());
  } catch (const host_too_full& e) {
    fail(r, outcome::host_out_of_memory, e.what());
  } catch (const std::bad_alloc&) {
    fail(r, outcome::host_out_of_memory, "the host has no memory left for this process");
  } catch (const unsupported& e) {
    fail(r, outcome::unsupported, e.what());
  } catch (const wrong_plan& e) {
    fail(r, outcome::wrong_result, e.what());
  } catch (const std::invalid_argument& e) {  // a machine file that the backend cannot work with
    fail(r, outcome::unsupported, e.what());
  } catch (const std::overflow_error& e) {  // such as rates at which its clock runs over
    fail(r, outcome::unsupported, e.what());
  }
  return r;
}

record run_cell(const cell& work, const std::function<void(const record&)>& tell) {
  return with_outcome(work, [&](record& r) { fill_record(r, work, tell); });
}

planned plan_cell(const cell& work) {
  record r = blank_record(work);
  const prepared_cell p = prepare(work, r);
  lowered_plan lowered = steps_for(p, r);
  const experiment& e = work.what;
  planned made;
  made.file = work.plan.value_or(plan_file{work.network, e.strategy, e.strategy_knobs, e.ratio,
                                           r.memory.footprint.value().total, p.budget, e.mode.value(),
                                           lowered.placed_by, std::move(lowered.plan)});
  made.steps = std::move(lowered.steps);
  made.planning_time = lowered.planning_time;
  made.bounds = r.bounds.value();
  made.bound = r.bound.value();
  made.notes = r.notes;
  if (made.steps.managed_arena_bytes == 0)
    made.expected = simulate(p.to_plan(), made.steps, 2).back().duration;
  return made;
}

}  // namespace um
