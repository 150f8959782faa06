#include "backends/cuda/executor/executor.hpp"

#include <algorithm>

#include "backends/cuda/executor/operator_calls.hpp"

namespace um {
namespace {

bool is_launched_in_stretches(const execution_plan& plan) {
  return !plan.steps.empty() &&
         std::ranges::all_of(plan.steps, [](const step& s) { return s.launch == launch_method::by_stretch; });
}

}  // namespace

executor::executor(session& gpu, const graph& g, const execution_plan& plan)
    : engines_(choose_engines(gpu, g, plan)),
      state_(gpu, g, plan, engines_),
      room_maker_(state_),
      step_issuer_(state_, room_maker_),
      lane_runner_(state_, room_maker_, step_issuer_),
      graph_recorder_(state_, step_issuer_),
      result_reader_(g, plan, state_.memory) {}

// The first iteration is issued step by step: it loads every kernel. The others are launched as graphs,
// unless a timeline of stretches is requested or an engine cannot be recorded.
execution executor::run(const execution_request& request) {
  state_.poisons_released_memory = request.poisons_released_memory;
  state_.make_events(request.records_timeline);
  if (request.poisons_released_memory) state_.memory.fill_with_nans();
  write_initial_state(state_.network, state_.plan, state_.memory);
  execution result;
  result.slice_costs = costs_of_cut_operators(state_.plan, engines_);
  result.launch = launch_mode::streams;
  const bool in_stretches = is_launched_in_stretches(state_.plan);
  const bool may_record = (!in_stretches || !request.records_timeline) && request.iterations > 1;
  const std::uint32_t issued = may_record ? 1 : request.iterations;
  bool in_graphs = false;
  if (request.watch) request.watch(0);
  lane_runner_.run(0, issued, request.records_timeline, request.watch, result.iterations);
  if (issued < request.iterations) {
    in_graphs = in_stretches && graph_recorder_.record_stretches();
    if (in_graphs) {
      result.launch = graph_recorder_.launch_mode_of_stretches();
      graph_recorder_.launch_iterations(request.iterations - issued, result.iterations);
      if (request.watch) request.watch(request.iterations);
    } else {
      if (!in_stretches && graph_recorder_.record_operators()) result.launch = launch_mode::operator_graphs;
      lane_runner_.run(issued, request.iterations, request.records_timeline, request.watch,
                       result.iterations);
    }
  }
  if (request.computes_digest) result.digest = result_reader_.digest_of_results();
  result.loss = result_reader_.loss();
  if (!request.values_folder.empty()) result_reader_.write_values(request.values_folder);
  if (request.watch && request.linger_time > 0 && request.iterations > 0)
    run_untimed_iterations(request, result.iterations.back().duration, in_graphs);
  return result;
}

// Runs more iterations like the timed ones, without traces. `each` is the time of a timed iteration.
void executor::run_untimed_iterations(const execution_request& request, nanoseconds each, bool in_graphs) {
  constexpr nanoseconds max_iterations = 1000;
  const auto count = static_cast<std::uint32_t>(
      std::clamp<nanoseconds>(request.linger_time / std::max<nanoseconds>(each, 1), 1, max_iterations));
  std::vector<trace> forgotten;
  request.watch(request.iterations);
  if (in_graphs) {
    graph_recorder_.launch_iterations(count, forgotten);
  } else {
    lane_runner_.run(request.iterations, request.iterations + count, false, {}, forgotten);
  }
  request.watch(request.iterations + count);
}

}  // namespace um
