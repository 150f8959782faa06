#include "simulator/simulate.hpp"

namespace um {

std::vector<trace> simulate(const simulated_run& run, std::uint32_t iterations, bool timeline,
                            const step_observer& starts) {
  managed_memory memory = managed_at_start(run);
  std::vector<trace> all;
  for (std::uint32_t i = 0; i < iterations; ++i) all.push_back(run_iteration(run, memory, timeline, starts));
  return all;
}

std::vector<trace> simulate(const problem& p, const execution_plan& plan, std::uint32_t iterations) {
  return simulate({p.network, plan, p.on, p.costs, p.cost_of_slice}, iterations);
}

}  // namespace um
