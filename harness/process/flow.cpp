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
#include "core/verify.hpp"
#include "harness/process/gpu.hpp"
#include "harness/process/preflight.hpp"
#include "harness/process/run_plan.hpp"
#include "harness/records/strategies.hpp"
#include "harness/records/suggest.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

using clock = std::chrono::steady_clock;

constexpr byte_count most_bytes = std::numeric_limits<byte_count>::max();

// A strategy made a plan that verify() refuses: a defect of the strategy, kept as a result.
struct wrong_plan : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::unique_ptr<backend> open_backend(const cell& work) {
  const backend_name name = parse_backend(work.what.backend);
  if (name.simulated) return open_simulator(work.on.value());
  return open_gpu(name.device, work.what.workspace_cap.value_or(standard_workspace_cap),
                  work.what.allow_native);
}

// The setting of a cell once its network is measured.
struct setting {
  graph network;
  std::unique_ptr<backend> runs_on;
  machine on;
  machine figures;  // what planners go by
  profile costs;
};

setting set_up(const cell& work) {
  setting s;
  s.network = build(work.what.network);
  s.runs_on = open_backend(work);
  s.on = s.runs_on->describe();
  s.figures = parse_backend(work.what.backend).simulated ? s.on : figures_for(s.on);
  s.costs = s.runs_on->measure(s.network);
  return s;
}

nanoseconds total_time(const profile& costs) {
  return std::accumulate(costs.begin(), costs.end(), nanoseconds{0},
                         [](nanoseconds sum, const op_cost& c) { return sum + c.time; });
}

byte_count budget_of(const experiment& e, const footprint_terms& footprint, const machine& on) {
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

problem problem_of(const experiment& e, const setting& s, byte_count budget) {
  slice_costs slices;
  if (parse_backend(e.backend).simulated) slices = costs_of_slices(*s.runs_on, s.network);
  return {s.network, s.costs, s.figures, budget, pressure_of(e.mode.value()), e.strategy_knobs, slices};
}

plan_file plan_for(const experiment& e, const problem& p) {
  const strategy s = strategy_of(e);
  plan_file file{e.network, e.strategy,     e.strategy_knobs, e.ratio,
                 p.budget,  e.mode.value(), s.placed_by,      s.plan(p)};
  if (const auto defect = defect_of(p.network, file.plan)) {
    throw wrong_plan(fmt::format("strategy {} made a wrong plan: {}", e.strategy, one_line(*defect)));
  }
  return file;
}

void note_memory(record& r, const execution_plan& plan) {
  r.memory.device_arena = plan.device_arena_bytes;
  r.memory.managed_arena = plan.managed_arena_bytes;
  r.memory.pinned_arena = plan.pinned_arena_bytes;
  r.memory.peak_device = plan.peak_device_bytes;
}

void fill(record& r, const cell& work, const std::function<void(const record&)>& tell) {
  const auto begin = clock::now();
  const experiment& e = work.what;
  setting s = set_up(work);
  r.device = s.on.name;
  r.calibrated = !r.simulated || all_measured(s.on);
  r.compute = total_time(s.costs);
  note_engines(r, s.network, s.costs);

  const footprint_terms footprint = footprint_of(s.network, s.costs);
  const byte_count budget = work.plan ? work.plan->budget : budget_of(e, footprint, s.on);
  r.memory.footprint = footprint;
  r.memory.budget = budget;
  r.memory.touched = touched_bytes(s.network);
  if (!r.ratio) r.ratio = static_cast<double>(footprint.total) / static_cast<double>(budget);
  check_device_holds(budget, footprint, s.on);
  check_storage_holds(s.network, s.on);

  const problem p = problem_of(e, s, budget);
  r.bounds = bounds_of(p);
  const plan_file made = work.plan ? *work.plan : plan_for(e, p);
  const execution_plan plan = lower(p, made.plan, made.placed_by);
  note_memory(r, plan);
  check_host_holds(plan, s.on);
  if (!r.simulated) check_host_is_free(plan);

  const auto took = execute_into(r, work, *s.runs_on, s.network, plan);
  if (r.simulated || work.times_only || plan.managed_arena_bytes == 0) return;
  if (clock::now() - begin + 2 * took > std::chrono::seconds{e.deadline_s}) {
    r.counters_reason = "not counted: another pass might not end before the deadline";
    return;
  }
  if (tell) tell(r);
  count_into(r, *s.runs_on, s.network, plan);
}

void fail(record& r, outcome result, const char* why) {
  r.result = result;
  r.reason = one_line(why);
}

}  // namespace

record with_outcome(const cell& work, const std::function<void(record&)>& fill_in) {
  record r = blank_record(work.what);
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
  return with_outcome(work, [&](record& r) { fill(r, work, tell); });
}

planned plan_cell(const cell& work) {
  const experiment& e = work.what;
  setting s = set_up(work);
  const footprint_terms footprint = footprint_of(s.network, s.costs);
  const byte_count budget = budget_of(e, footprint, s.on);
  check_device_holds(budget, footprint, s.on);
  check_storage_holds(s.network, s.on);
  const problem p = problem_of(e, s, budget);
  plan_file file = plan_for(e, p);
  execution_plan steps = lower(p, file.plan, file.placed_by);
  check_host_holds(steps, s.on);
  const time_bounds bounds = bounds_of(p);
  std::optional<nanoseconds> expected;
  if (steps.managed_arena_bytes == 0) expected = simulate(p, steps, 2).back().duration;
  return {std::move(file), std::move(s.network), std::move(steps), bounds, expected};
}

}  // namespace um
