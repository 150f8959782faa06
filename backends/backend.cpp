#include "backends/backend.hpp"

#include <array>

namespace um {

std::string_view to_text(launch_way way) {
  constexpr std::array<std::string_view, 4> names{"simulated", "streams", "operator_graphs", "cuda_graph"};
  return names.at(static_cast<std::size_t>(way));
}

}  // namespace um
