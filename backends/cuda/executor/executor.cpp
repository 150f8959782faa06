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

executor::executor(session& on, const graph& g, const execution_plan& plan)
    : engines_(choose_engines(on, g, plan)),
      state_(on, g, plan, engines_),
      room_(state_),
      steps_(state_, room_),
      lanes_(state_, room_, steps_),
      graphs_(state_, steps_),
      results_(g, plan, state_.memory) {}

// The first iteration is issued step by step: it loads every kernel. The others are launched as graphs,
// unless a timeline of stretches is asked for or an engine cannot be recorded.
execution executor::run(const execution_request& how) {
  state_.poisons = how.poison;
  state_.make_events(how.timeline);
  if (how.poison) state_.memory.poison();
  write_initial_state(state_.network, state_.plan, state_.memory);
  execution result;
  result.slices = costs_of_cut_operators(state_.plan, engines_);
  result.launched_as = launch_mode::streams;
  const bool in_stretches = is_launched_in_stretches(state_.plan);
  const bool may_record = (!in_stretches || !how.timeline) && how.iterations > 1;
  const std::uint32_t issued = may_record ? 1 : how.iterations;
  bool in_graphs = false;
  if (how.watch) how.watch(0);
  lanes_.run(0, issued, how.timeline, how.watch, result.iterations);
  if (issued < how.iterations) {
    in_graphs = in_stretches && graphs_.record_stretches();
    if (in_graphs) {
      result.launched_as = graphs_.launch_mode_of_stretches();
      graphs_.launch_iterations(how.iterations - issued, result.iterations);
      if (how.watch) how.watch(how.iterations);
    } else {
      if (!in_stretches && graphs_.record_operators()) result.launched_as = launch_mode::operator_graphs;
      lanes_.run(issued, how.iterations, how.timeline, how.watch, result.iterations);
    }
  }
  if (how.digest) result.digest = results_.digest_of_results();
  result.loss = results_.loss();
  if (!how.values.empty()) results_.write_values(how.values);
  if (how.watch && how.linger > 0 && how.iterations > 0)
    linger(how, result.iterations.back().duration, in_graphs);
  return result;
}

// Goes on as the iterations before, each of which took `each`, and keeps no trace of it.
void executor::linger(const execution_request& how, nanoseconds each, bool in_graphs) {
  constexpr nanoseconds most = 1000;
  const auto count = static_cast<std::uint32_t>(
      std::clamp<nanoseconds>(how.linger / std::max<nanoseconds>(each, 1), 1, most));
  std::vector<trace> forgotten;
  how.watch(how.iterations);
  if (in_graphs) {
    graphs_.launch_iterations(count, forgotten);
  } else {
    lanes_.run(how.iterations, how.iterations + count, false, {}, forgotten);
  }
  how.watch(how.iterations + count);
}

}  // namespace um
