#include "planners/planners.hpp"
#include "schedule/orders.hpp"

namespace um {

memory_plan plan_resident(const problem& p) {
  return make_plan(p.network, graph_order(p.network), residence::device);
}

}  // namespace um
