#include "simulator/simulate.hpp"

#include <algorithm>
#include <numeric>

#include "core/figures.hpp"
#include "core/quantiles.hpp"
#include "simulator/roofline.hpp"

namespace um {
namespace {

constexpr std::uint32_t extra_iterations = 24, longest_period = 8, iterations_of_band = 4;
// Lowest and highest speed of convolutions in the files of results/machines that have measured speeds, in
// percent of the arithmetic rate (SINGA on a GTX 1080 Ti, PyTorch on a V100).
constexpr nanoseconds slowest_speed_percent = 30, fastest_speed_percent = 138;

nanoseconds steady_time_of(const std::vector<trace>& iterations) {
  return static_cast<nanoseconds>(steady_time(durations_of(iterations)));
}

// The shortest period that occurs twice at the end of the times; 0: none.
std::uint32_t period_of(const std::vector<nanoseconds>& times) {
  for (std::uint32_t p = 1; p <= longest_period && 2 * p <= times.size(); ++p) {
    if (std::equal(times.end() - p, times.end(), times.end() - 2 * p)) return p;
  }
  return 0;
}

std::optional<steady_cycle> find_cycle(const simulation_input& run, managed_memory memory,
                                       const std::vector<trace>& known) {
  std::vector<nanoseconds> times = durations_of(known);
  if (times.size() < 2 || times.back() == times[times.size() - 2]) return std::nullopt;
  // Two equal times may be a coincidence, so the period is searched only after all additional iterations.
  for (std::uint32_t i = 0; i < extra_iterations; ++i)
    times.push_back(run_iteration(run, memory, false).duration);
  steady_cycle found{period_of(times)};
  if (found.period == 1) return std::nullopt;
  const std::size_t window = found.period != 0 ? found.period : extra_iterations;
  const std::vector<nanoseconds> one(times.end() - static_cast<std::ptrdiff_t>(window), times.end());
  found.mean = std::accumulate(one.begin(), one.end(), nanoseconds{0}) / static_cast<nanoseconds>(window);
  found.median = static_cast<nanoseconds>(median_of({one.begin(), one.end()}));
  return found;
}

}  // namespace

std::vector<trace> simulate(const simulation_input& run, std::uint32_t iterations, bool timeline,
                            const step_observer& on_start) {
  managed_memory memory = managed_at_start(run);
  std::vector<trace> all;
  for (std::uint32_t i = 0; i < iterations; ++i)
    all.push_back(run_iteration(run, memory, timeline, on_start));
  return all;
}

std::vector<trace> simulate(const problem& p, const execution_plan& plan, std::uint32_t iterations) {
  return simulate({p.network, plan, p.target, p.operator_costs, p.cost_of_slice}, iterations);
}

simulation simulate_and_find_cycle(const simulation_input& run, std::uint32_t iterations, bool timeline,
                                   bool finds_cycle) {
  managed_memory memory = managed_at_start(run);
  simulation done;
  for (std::uint32_t i = 0; i < iterations; ++i)
    done.iterations.push_back(run_iteration(run, memory, timeline));
  if (finds_cycle) done.cycle = find_cycle(run, std::move(memory), done.iterations);
  return done;
}

std::vector<nanoseconds> times_at_figure_bounds(const simulation_input& run, std::uint32_t iterations) {
  std::vector<nanoseconds> times;
  const bool at_peak = kernels_at_peak(run.network, run.on);
  const auto add = [&](const machine& on, nanoseconds percent) {
    profile costs = run.costs;
    for (op_cost& c : costs) c.time = c.time * 100 / percent;
    const slice_costs of_slice = percent == 100 ? run.cost_of_slice : slice_costs{};
    for (const touch_orders order : {touch_orders::by_address, touch_orders::hits_first}) {
      times.push_back(
          steady_time_of(simulate({run.network, run.plan, on, costs, of_slice, order}, iterations)));
    }
  };
  add(with_fastest_figures(run.on), at_peak ? fastest_speed_percent : 100);
  if (at_peak || !run.on.uncertain_figures.empty())
    add(with_slowest_figures(run.on), at_peak ? slowest_speed_percent : 100);
  return times;
}

time_band band_of(const simulation_input& run, const std::vector<trace>& known) {
  std::vector<nanoseconds> times =
      times_at_figure_bounds(run, std::min(static_cast<std::uint32_t>(known.size()), iterations_of_band));
  times.push_back(steady_time_of(known));
  const auto [low, high] = std::ranges::minmax(times);
  return {low, high};
}

}  // namespace um
