#include "networks/spec.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace um {

memory_order standard_order(precision arithmetic) {
  return arithmetic == precision::fp32 ? memory_order::nchw : memory_order::nhwc;
}

network_spec spec_of(graph g, const std::string& digest) {
  const auto of_role = [&](role use) { return std::ranges::find(g.tensors, use, &tensor::use); };
  const auto none = g.tensors.end();
  network_spec n;
  n.name = g.name + "#" + digest;
  if (const auto data = of_role(role::input); data != none) n.batch = data->shape.n;
  n.mode = of_role(role::parameter_gradient) == none ? pass::inference : pass::train;
  n.sgd = std::ranges::any_of(g.ops, [](const op& o) { return std::holds_alternative<sgd_update>(o.what); });
  n.joined = fusion::none;
  n.arithmetic = g.arithmetic;
  const bool is_nhwc = std::ranges::find(g.tensors, memory_order::nhwc, &tensor::order) != none;
  n.order = is_nhwc ? memory_order::nhwc : memory_order::nchw;
  n.given = std::make_shared<const graph>(std::move(g));
  return n;
}

}  // namespace um
