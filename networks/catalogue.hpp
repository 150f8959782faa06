// A table of all networks by name. A network is a function from its knobs to a graph.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/graph.hpp"
#include "networks/spec.hpp"

namespace um {

struct network_family {
  std::string name, summary;
  std::function<graph(const network_spec&)> build;
  std::vector<network_knob> knobs;
};

std::span<const network_family> network_families();

// Builds a network of the catalogue, knobs completed with their defaults. Throws
// std::invalid_argument with one clear line for an unknown name or knob, a value out of range,
// extents that vanish or a size that overflows. The graph passes defect_of().
graph build_network(const network_spec& spec);

}  // namespace um
