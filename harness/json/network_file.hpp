// Networks from graph files that users supply, as `umbench plan --graph` and `umbench export` write them.
#pragma once

#include <string>
#include <string_view>

#include "core/graph.hpp"
#include "networks/spec.hpp"

namespace um {

bool is_network_file(std::string_view network);

// The graph as a network, named "NAME#DIGEST" after its content.
network_spec spec_of_file(graph g);

// Throws input_error, with the place of the fault, for what is no graph file or no well-formed graph.
network_spec network_from_file(const std::string& path);

}  // namespace um
