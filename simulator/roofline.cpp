#include "simulator/roofline.hpp"

#include <algorithm>

#include "core/access.hpp"
#include "simulator/cost.hpp"

namespace um {

profile estimate(const graph& g, const machine& on) {
  profile costs;
  costs.reserve(g.ops.size());
  for (const op& o : g.ops) {
    const work w = work_of(g, o);
    const nanoseconds arithmetic = time_for(w.flops, on.fp32_flops_per_s, on, "fp32_flops_per_s");
    const nanoseconds memory = time_for(w.read + w.written, on.device_bytes_per_s, on, "device_bytes_per_s");
    costs.push_back({std::max(arithmetic, memory) + on.launch_ns, 0, "roofline"});
  }
  return costs;
}

}  // namespace um
