// Operator times without a GPU: the roofline model.
#pragma once

#include "core/graph.hpp"
#include "core/machine.hpp"
#include "core/planner.hpp"

namespace um {

// Per operator: one launch plus the longer of its arithmetic and its memory traffic at
// device_bytes_per_s, each operand byte moved once; no workspace. Convolutions and fully connected
// layers compute at the rate of the graph's precision (fp32_flops_per_s, tf32_flops_per_s,
// bf16_flops_per_s), everything else at fp32_flops_per_s. Kernels are assumed to reach these rates; real ones
// may be slower. Opaque operators take the time that they name; where they name none, a launch plus the
// longer of their own operations and bytes at these rates. They keep their workspace. Throws unsupported,
// naming machine and precision, where it has no units for that precision, and std::invalid_argument, naming
// the machine, where it lacks another rate that is needed.
profile estimate(const graph& g, const machine& on);

// Whether some operators are assumed to reach the roofline's rates because no speed was measured: the machine
// has none in that precision, and not every operator states its own time.
bool kernels_at_peak(const graph& g, const machine& on);

// Estimates the costs of parts of operators by the rules of estimate(). If every part reads an operand whole,
// each part counts all of it. So many parts of an operator with large weights take longer than the whole
// operator. Caches results. Keeps references to both arguments.
slice_costs make_slice_estimator(const graph& g, const machine& on);

// The graph with a duration in every opaque operator: that of estimate() if it states none. A GPU needs it to
// replay the graph. Throws as estimate() does.
graph with_opaque_durations(graph g, const machine& on);

}  // namespace um
