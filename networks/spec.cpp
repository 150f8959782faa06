#include "networks/spec.hpp"

#include <array>

namespace um {

memory_order standard_order(precision arithmetic) {
  return arithmetic == precision::fp32 ? memory_order::nchw : memory_order::nhwc;
}

std::string_view to_text(fusion joined) {
  constexpr std::array<std::string_view, 3> names{"none", "fused", "lean"};
  return names.at(static_cast<std::size_t>(joined));
}

}  // namespace um
