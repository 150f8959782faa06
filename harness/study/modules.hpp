// What a plan does with a network's activations, module by module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph.hpp"
#include "core/memory_plan.hpp"

namespace um {

// Bytes of activations, each in one column: its operator is computed in parts (`cut`); else it is computed
// again, as torch.utils.checkpoint does; else it lies on the host for a time, as
// torch.autograd.graph.save_on_cpu does; else it is kept.
struct module_row {
  std::string module;
  byte_count again = 0, offload = 0, cut = 0, keep = 0;
};

// "layer1.0.bn1" of "layer1.0.bn1:add_5", "" where a name tells no module.
std::string_view module_of(std::string_view name);

// In the order in which modules first run. Empty where no name tells a module, as those of `umbench export`
// do.
std::vector<module_row> modules_of(const graph& g, const memory_plan& plan);

// A table with a head; "" of no rows. Neighbours whose names differ in numbers alone and that are treated
// alike share a line.
std::string text_of(const std::vector<module_row>& rows);

}  // namespace um
