#include "hints/recorded_faults.hpp"

#include "core/lower.hpp"
#include "schedule/orders.hpp"
#include "simulator/simulate.hpp"

namespace um {

std::vector<std::vector<bool>> simulate_first_iteration_faults(const problem& p) {
  const graph& g = p.network;
  problem by_driver = p;
  by_driver.evicted_by = pressure::driver;
  const execution_plan plan = lower(by_driver, make_plan(g, graph_order(g), residence::managed));
  std::vector<std::vector<bool>> faulted(g.ops.size(), std::vector<bool>(g.tensors.size(), false));
  simulate({g, plan, p.target, p.operator_costs}, 1, false, [&](const step& s, const managed_memory& memory) {
    const op_id o = std::get<compute>(s.command).op;
    for (const operand& x : s.operands) {
      if (x.location.where != space::managed) continue;
      const range r{x.location.offset, bytes_of(g.tensors[x.accessed.tensor])};
      if (!memory.hits(r, x.accessed.mode)) faulted[o][x.accessed.tensor] = true;
    }
  });
  return faulted;
}

}  // namespace um
