#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>

#include "schedule/milp/mixed_program.hpp"

namespace um {

bool has_mixed_solver() {
  return true;
}

mixed_solution minimize(const mixed_program& m, const solver_limits& effort,
                        std::span<const mixed_program::term> start) {
  const std::unique_ptr<void, void (*)(void*)> highs(Highs_create(), Highs_destroy);
  void* h = highs.get();
  Highs_setBoolOptionValue(h, "output_flag", 0);
  Highs_setIntOptionValue(h, "threads", 1);
  Highs_setIntOptionValue(h, "random_seed", 1);
  Highs_setStringOptionValue(h, "parallel", "off");
  Highs_setDoubleOptionValue(h, "mip_rel_gap", effort.relative_gap);
  Highs_setIntOptionValue(
      h, "mip_max_nodes",
      static_cast<HighsInt>(std::min<std::int64_t>(effort.max_nodes, std::numeric_limits<HighsInt>::max())));
  const auto columns = static_cast<HighsInt>(m.costs.size());
  const auto rows = static_cast<HighsInt>(m.row_min.size());
  std::vector<HighsInt> kinds;
  for (const bool is_whole : m.is_integer)
    kinds.push_back(is_whole ? kHighsVarTypeInteger : kHighsVarTypeContinuous);
  if (Highs_passMip(h, columns, rows, static_cast<HighsInt>(m.columns.size()), kHighsMatrixFormatRowwise,
                    kHighsObjSenseMinimize, m.offset, m.costs.data(), m.column_min.data(),
                    m.column_max.data(), m.row_min.data(), m.row_max.data(), m.row_begin.data(),
                    m.columns.data(), m.factors.data(), kinds.data()) == kHighsStatusError) {
    throw std::logic_error("HiGHS refuses the program");
  }
  if (!start.empty()) {
    std::vector<HighsInt> which;
    std::vector<double> values;
    for (const auto& [column, value] : start) {
      which.push_back(static_cast<HighsInt>(column));
      values.push_back(value);
    }
    Highs_setSparseSolution(h, static_cast<HighsInt>(which.size()), which.data(), values.data());
  }
  if (Highs_run(h) == kHighsStatusError) throw std::runtime_error("HiGHS failed");
  mixed_solution s;
  const HighsInt status = Highs_getModelStatus(h);
  s.is_infeasible = status == kHighsModelStatusInfeasible || status == kHighsModelStatusUnboundedOrInfeasible;
  HighsInt primal = 0;
  Highs_getIntInfoValue(h, "primal_solution_status", &primal);
  s.is_feasible = primal == kHighsSolutionStatusFeasible;
  s.value = Highs_getObjectiveValue(h);
  Highs_getDoubleInfoValue(h, "mip_dual_bound", &s.lower_bound);
  Highs_getInt64InfoValue(h, "mip_node_count", &s.node_count);
  if (!s.is_feasible) return s;
  s.x.resize(m.costs.size());
  std::vector<double> dual(m.costs.size()), at_row(m.row_min.size()), row_dual(m.row_min.size());
  Highs_getSolution(h, s.x.data(), dual.data(), at_row.data(), row_dual.data());
  return s;
}

}  // namespace um
