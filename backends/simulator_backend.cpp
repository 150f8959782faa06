#include "backends/simulator_backend.hpp"

#include <string>
#include <utility>

#include "core/errors.hpp"
#include "simulator/roofline.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

void check_fits(byte_count need, byte_count have, const std::string& arena, const std::string& where) {
  if (need > have) {
    throw out_of_memory(arena + " of " + to_text(need) + " exceeds the " + to_text(have) + " of " + where);
  }
}

class simulator_backend final : public backend {
 public:
  explicit simulator_backend(machine m) : machine_(std::move(m)) {}

  machine describe() override { return machine_; }

  profile measure_operators(const graph& g) override { return estimate(g, machine_); }
  std::vector<op_cost> measure_operators(const graph& g, std::span<const compute> computes) override {
    const slice_costs slices = make_slice_estimator(g, machine_);
    std::vector<op_cost> costs;
    for (const compute& c : computes) costs.push_back(slices(c));
    return costs;
  }

  execution execute(const graph& g, const execution_plan& plan, const execution_request& request) override {
    if (!request.values_folder.empty()) {
      throw unsupported("a simulated machine computes no values: none can be written to " +
                        request.values_folder.string());
    }
    check_fits(plan.device_arena_bytes, machine_.device_bytes, "the device arena", machine_.name);
    check_fits(plan.pinned_arena_bytes, machine_.host_bytes, "the pinned arena", machine_.name + "'s host");
    const profile costs = estimate(g, machine_);
    execution result;
    const simulation_input run{g, plan, machine_, costs, make_slice_estimator(g, machine_)};
    simulation done = simulate_and_find_cycle(run, request.iterations, request.records_timeline,
                                              request.computes_steady_cycle);
    result.iterations = std::move(done.iterations);
    result.steady_cycle_found = done.cycle;
    if (request.computes_time_band) result.band = band_of(run, result.iterations);
    return result;
  }

 private:
  machine machine_;
};

}  // namespace

std::unique_ptr<backend> open_simulator(machine m) {
  return std::make_unique<simulator_backend>(std::move(m));
}

}  // namespace um
