// Summarizes what a plan does with the activations of each module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph.hpp"
#include "core/memory_plan.hpp"

namespace um {

// Bytes of activations per treatment. `split_bytes`: the operator is computed in parts; else
// `recomputed_bytes`: it is computed again, as torch.utils.checkpoint does; else `offloaded_bytes`: it is on
// the host for a time, as torch.autograd.graph.save_on_cpu does; else `kept_bytes`.
struct module_row {
  std::string module;
  byte_count recomputed_bytes = 0, offloaded_bytes = 0, split_bytes = 0, kept_bytes = 0;
};

// The module in an operator's name: "layer1.0.bn1" in "layer1.0.bn1:add_5"; "" if there is none.
std::string_view module_of(std::string_view name);

// Rows in the order in which modules first run. Empty if names contain no module, as those of `umbench
// export` do.
std::vector<module_row> modules_of(const graph& g, const memory_plan& plan);

// A table with a header; "" without rows. Neighbours with the same treatment whose names differ only in
// numbers share a line.
std::string module_table(const std::vector<module_row>& rows);

}  // namespace um
