#include "backends/cuda/convolution_problem.hpp"

#include <array>

namespace um {

std::string signature_of(const convolution_problem& p) {
  constexpr std::array<const char*, 3> names{"convolution", "convolution_backward_data",
                                             "convolution_backward_filter"};
  return std::string(names.at(static_cast<std::size_t>(p.kind))) + " x " + to_text(p.x) + " w " +
         to_text(p.w) + " y " + to_text(p.y) + " stride " + std::to_string(p.attributes.stride_h) + ',' +
         std::to_string(p.attributes.stride_w) + " pad " + std::to_string(p.attributes.pad_h) + ',' +
         std::to_string(p.attributes.pad_w) +
         (p.attributes.groups > 1 ? " groups " + std::to_string(p.attributes.groups) : "") +
         (p.has_bias ? " bias" : "") + (p.attributes.relu ? " relu" : "") + ' ' +
         std::string(to_text(p.arithmetic)) + ' ' + std::string(to_text(p.order)) +
         (p.accumulates ? " accumulate" : "");
}

}  // namespace um
