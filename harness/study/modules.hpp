// Summarizes what a plan does with the activations of each module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph.hpp"
#include "core/memory_plan.hpp"

namespace um {

// Bytes of a module's activations, by the first that applies: `split_bytes` if the operator is computed in
// parts, `recomputed_bytes` if it is computed again, as by torch.utils.checkpoint, `offloaded_bytes` if the
// tensor is on the host for a time, as by torch.autograd.graph.save_on_cpu, else `kept_bytes`.
struct module_row {
  std::string module;
  byte_count recomputed_bytes = 0, offloaded_bytes = 0, split_bytes = 0, kept_bytes = 0;
};

// The module in an operator's name: "layer1.0.bn1" in "layer1.0.bn1:add_5"; "" if there is none.
std::string_view module_of(std::string_view name);

// Rows in the order in which modules first run. Empty if names contain no module, as those of `umbench
// export` do.
std::vector<module_row> modules_of(const graph& g, const memory_plan& plan);

// A table with a header; "" without rows. Consecutive modules whose names differ only in numbers share a line
// if the plan treats them alike.
std::string module_table(const std::vector<module_row>& rows);

}  // namespace um
