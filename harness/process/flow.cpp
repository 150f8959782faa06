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

constexpr byte_count max_bytes = std::numeric_limits<byte_count>::max();

// A plan that cannot be made, verified or lowered, which is a defect of the strategy. It becomes an outcome
// of the record.
struct invalid_plan : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::unique_ptr<backend> open_backend(const cell& work) {
  if (work.backend.is_simulated) return open_simulator(work.planner_machine.value());
  return open_gpu(work.backend.device, work.settings.workspace_cap.value_or(standard_workspace_cap),
                  work.settings.allow_native);
}

// The machine that planners use: the target if simulated; on a GPU the cell's machine file with the GPU's
// sizes.
machine planner_machine_with_sizes(const cell& work, const machine& target) {
  if (work.backend.is_simulated) return target;
  machine figures = work.planner_machine.value();
  figures.device_bytes = target.device_bytes;
  figures.host_bytes = target.host_bytes;
  return figures;
}

nanoseconds total_time(const profile& costs) {
  return std::accumulate(costs.begin(), costs.end(), nanoseconds{0},
                         [](nanoseconds sum, const op_cost& c) { return sum + c.time; });
}

byte_count budget_of(const cell& work, const footprint_terms& footprint, const machine& target) {
  if (work.plan) return work.plan->budget;
  const experiment& e = work.settings;
  if (e.budget) return *e.budget;
  if (!e.ratio) return target.device_bytes;
  return std::max<byte_count>(1, static_cast<byte_count>(static_cast<double>(footprint.total) / *e.ratio));
}

void check_fits_device(byte_count budget, const footprint_terms& footprint, const machine& target) {
  if (budget <= target.device_bytes) return;
  throw infeasible(fmt::format(
      "the budget of {} ({} bytes; footprint {}) is more than the {} ({} bytes) of {}", to_text(budget),
      budget, to_text(footprint.total), to_text(target.device_bytes), target.device_bytes, target.name));
}

// Throws if the tensors that outlive an iteration do not fit into device and host together. Checked before
// planning, which is slow for impossible sizes.
void check_lasting_tensors_fit(const graph& g, const machine& target) {
  byte_count lasting = 0;
  for (const tensor& t : g.tensors) {
    if (survives(t.role)) lasting = checked_add(lasting, bytes_of(t)).value_or(max_bytes);
  }
  if (lasting <= checked_add(target.device_bytes, target.host_bytes).value_or(max_bytes)) return;
  throw infeasible(fmt::format(
      "parameters, their gradients, inputs and outputs alone are {}; {} has {} on the device and {} "
      "on the host",
      to_text(lasting), target.name, to_text(target.device_bytes), to_text(target.host_bytes)));
}

// Throws if the pinned data, and managed data that does not fit the device, do not fit the host.
void check_fits_host(const execution_plan& plan, const machine& target) {
  const byte_count needed = host_bytes_needed(plan);
  if (needed <= target.host_bytes) return;
  throw infeasible(fmt::format("{} must lie in host memory, {} has {}", to_text(needed), target.name,
                               to_text(target.host_bytes)));
}

// Thrown if the host has enough memory but not enough of it is free.
struct host_memory_in_use : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check_host_memory_free(const execution_plan& plan) {
  if (const auto why = shortage_text(host_bytes_needed(plan), plan.pinned_arena_bytes, host_memory_now())) {
    throw host_memory_in_use("not run: it " + *why);
  }
}

void record_memory(record& r, const execution_plan& plan) {
  r.memory.device_arena = plan.device_arena_bytes;
  r.memory.managed_arena = plan.managed_arena_bytes;
  r.memory.pinned_arena = plan.pinned_arena_bytes;
  r.memory.peak_device = peak_device_bytes_of(r.mode, plan);
}

// Returns the network. On a GPU a replayed operator needs a duration; one without a duration gets the
// estimate of the planners' machine.
std::shared_ptr<const graph> network_with_opaque_durations(const cell& work) {
  if (work.backend.is_simulated || !has_opaque(*work.network.network)) return work.network.network;
  return std::make_shared<const graph>(
      with_opaque_durations(*work.network.network, work.planner_machine.value()));
}

// A cell with all data that planning and running it need.
struct prepared_cell {
  const cell& work;
  std::shared_ptr<const graph> network;
  std::unique_ptr<backend> runs_on;
  machine on;
  machine figures;
  profile costs;
  slice_costs slices;
  byte_count budget = 0;

  problem planning_problem() const {
    return {*network,
            costs,
            figures,
            budget,
            facts_of_mode(work.settings.mode.value()).evicted_by,
            work.settings.strategy_knobs,
            slices,
            std::numeric_limits<nanoseconds>::max(),
            !work.backend.is_simulated};
  }
};

// Fills `r` step by step, so that it keeps what is known if something throws. Throws
// infeasible.
prepared_cell prepare(const cell& work, record& r) {
  prepared_cell p{work, network_with_opaque_durations(work), open_backend(work), {}, {}, {}, {}};
  r.is_replay = !r.simulated && has_opaque(*p.network);
  p.on = p.runs_on->describe();
  p.figures = planner_machine_with_sizes(work, p.on);
  r.device = p.on.name;
  r.planner_machine = p.figures.name;
  r.planner_machine_digest = digest_of_figures(work.planner_machine.value());
  r.borrowed_figures = p.figures.borrowed;
  r.calibrated = !r.simulated || all_measured(p.on);
  r.assumes_peak_kernels = r.simulated && kernels_at_peak(*p.network, p.on);
  if (const auto why = misfit_without_workspaces(work, p.figures)) throw infeasible(*why);
  p.costs = p.runs_on->measure_operators(*p.network);
  p.slices = slice_cost_function(*p.runs_on, *p.network);
  r.compute_time = total_time(p.costs);
  record_engines(r, *p.network, p.costs);

  const footprint_terms footprint = footprint_of(*p.network, p.costs);
  p.budget = budget_of(work, footprint, p.on);
  r.memory.footprint = footprint;
  r.memory.budget = p.budget;
  r.memory.touched = touched_bytes(*p.network);
  if (!r.ratio) r.ratio = static_cast<double>(footprint.total) / static_cast<double>(p.budget);
  check_fits_device(p.budget, footprint, p.on);
  check_lasting_tensors_fit(*p.network, p.on);
  r.bounds = find_time_bounds(p.planning_problem());
  return p;
}

// Calls `make`; throws invalid_plan for a defect of the planner or the plan.
auto run_or_report_defect(const prepared_cell& p, auto make) {
  try {
    return make();
  } catch (const std::invalid_argument& defect) {
    throw invalid_plan(
        fmt::format("strategy {} made a wrong plan: {}", p.work.settings.strategy, one_line(defect.what())));
  }
}

// Whether the cell's strategy always keeps all operands of an operator on the device.
bool keeps_operands_on_device(const cell& work) {
  if (!work.strategy || !work.strategy->row.is_bit_exact) return false;
  const memory_technique technique = technique_of(work.strategy->row);
  return technique == memory_technique::in_core || technique == memory_technique::managed ||
         technique == memory_technique::managed_hints;
}

// Whether the budget grows with the workspaces: it is footprint / ratio, and the footprint includes
// workspaces. At ratios below 1 it grows by more than they take.
bool workspaces_enlarge_budget(const experiment& e) {
  return !e.budget && e.ratio.value_or(0) < 1;
}

// A plan and its lowered steps.
struct lowered_plan {
  memory_plan plan;
  packer placed_by;
  nanoseconds planning_time = 0;
  execution_plan steps = {};
};

// Makes the cell's plan, or returns the one from its file. Throws infeasible.
lowered_plan load_or_make_plan(const prepared_cell& p, record& r) {
  if (p.work.plan) return {p.work.plan->plan, p.work.plan->packing_algorithm};
  const strategy& s = p.work.strategy->row;
  const auto begin = clock::now();
  const note_collector heard;
  lowered_plan made{plan_for(s, p.planning_problem()), s.packing_algorithm};
  r.notes = heard.lines;
  made.planning_time = std::chrono::nanoseconds(clock::now() - begin).count();
  // Simulated records must be the same on every run, so they have no planning time.
  if (!p.work.backend.is_simulated) r.planning_time = made.planning_time;
  return made;
}

// Makes or loads the plan, verifies and lowers it. Throws infeasible and invalid_plan.
lowered_plan load_or_make_lowered_plan(const prepared_cell& p, record& r) {
  lowered_plan made = run_or_report_defect(p, [&] { return load_or_make_plan(p, r); });
  made.steps = run_or_report_defect(
      p, [&] { return lower(p.planning_problem(), verify_plan(*p.network, made.plan), made.placed_by); });
  const plan_kind kind = plan_kind_of(*p.network, made.plan);
  r.bound = {kind, lower_bound_for(r.bounds.value(), kind)};
  record_memory(r, made.steps);
  check_fits_host(made.steps, p.on);
  return made;
}

void run_and_fill_record(record& r, const cell& work,
                         const std::function<void(const record&)>& report_before_counting) {
  const auto begin = clock::now();
  const prepared_cell p = prepare(work, r);
  const execution_plan plan = load_or_make_lowered_plan(p, r).steps;
  if (!r.simulated) check_host_memory_free(plan);

  const auto took = execute_and_record(r, work, *p.runs_on, *p.network, plan);
  if (r.simulated || work.skips_observation || plan.managed_arena_bytes == 0) return;
  if (clock::now() - begin + 2 * took > std::chrono::seconds{work.settings.deadline_s}) {
    r.counters_reason = "not counted: another pass might not end before the deadline";
    return;
  }
  if (report_before_counting) report_before_counting(r);
  count_and_record(r, *p.runs_on, *p.network, plan);
}

void set_outcome(record& r, outcome result, const char* why) {
  r.result = result;
  r.reason = one_line(why);
}

}  // namespace

std::optional<std::string> misfit_without_workspaces(const cell& work, const machine& figures) {
  if (work.backend.is_simulated || !keeps_operands_on_device(work) ||
      workspaces_enlarge_budget(work.settings))
    return std::nullopt;
  const cell rehearsed = as_simulated_on(work, figures);
  record r = make_record(rehearsed);
  try {
    load_or_make_lowered_plan(prepare(rehearsed, r), r);
  } catch (const operands_too_large& misfit) {
    return misfit.what();
  } catch (const infeasible& misfit) {  // rules may find room at another budget
    if (technique_of(work.strategy->row) == memory_technique::in_core) return misfit.what();
  }
  return std::nullopt;
}

record with_outcome(const cell& work, const std::function<void(record&)>& fill_in) {
  record r = make_record(work);
  try {
    fill_in(r);
  } catch (const infeasible& e) {
    set_outcome(r, outcome::infeasible, e.what());
  } catch (const out_of_memory& e) {
    set_outcome(r, outcome::out_of_memory, e.what());
  } catch (const host_memory_in_use& e) {
    set_outcome(r, outcome::host_out_of_memory, e.what());
  } catch (const std::bad_alloc&) {
    set_outcome(r, outcome::host_out_of_memory, "the host has no memory left for this process");
  } catch (const unsupported& e) {
    set_outcome(r, outcome::unsupported, e.what());
  } catch (const invalid_plan& e) {
    set_outcome(r, outcome::wrong_result, e.what());
  } catch (const std::invalid_argument& e) {  // a machine file that the backend cannot work with
    set_outcome(r, outcome::unsupported, e.what());
  } catch (const std::overflow_error& e) {  // such as rates at which its clock runs over
    set_outcome(r, outcome::unsupported, e.what());
  }
  return r;
}

record run_cell(const cell& work, const std::function<void(const record&)>& report_before_counting) {
  return with_outcome(work, [&](record& r) { run_and_fill_record(r, work, report_before_counting); });
}

planned_cell plan_cell(const cell& work) {
  record r = make_record(work);
  const prepared_cell p = prepare(work, r);
  lowered_plan lowered = load_or_make_lowered_plan(p, r);
  const experiment& e = work.settings;
  planned_cell made;
  made.file = work.plan.value_or(plan_file{work.network, e.strategy, e.strategy_knobs, e.ratio,
                                           r.memory.footprint.value().total, p.budget, e.mode.value(),
                                           lowered.placed_by, std::move(lowered.plan)});
  made.steps = std::move(lowered.steps);
  made.planning_time = lowered.planning_time;
  made.bounds = r.bounds.value();
  made.bound = r.bound.value();
  made.notes = r.notes;
  if (made.steps.managed_arena_bytes == 0)
    made.expected_time = simulate(p.planning_problem(), made.steps, 2).back().duration;
  return made;
}

}  // namespace um
