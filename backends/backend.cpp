#include "backends/backend.hpp"

#include <array>

namespace um {

std::string_view to_text(launch_way way) {
  constexpr std::array<std::string_view, 3> names{"simulated", "streams", "cuda_graph"};
  return names.at(static_cast<std::size_t>(way));
}

}  // namespace um
