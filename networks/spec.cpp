#include "networks/spec.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace um {

bool operator==(const network_spec& a, const network_spec& b) {
  const auto fields = [](const network_spec& n) {
    return std::tie(n.name, n.batch, n.mode, n.appends_sgd, n.optimizer, n.keeps_masters, n.fusion_mode,
                    n.arithmetic, n.order, n.knobs);
  };
  return fields(a) == fields(b);
}

memory_order standard_order(precision arithmetic) {
  return arithmetic == precision::fp32 ? memory_order::nchw : memory_order::nhwc;
}

std::optional<std::string> update_defect(const network_spec& spec) {
  if ((spec.appends_sgd || spec.optimizer) && spec.mode == pass::inference) {
    return std::string(spec.appends_sgd ? "sgd" : "an optimizer") +
           " needs the train pass, inference has no gradients";
  }
  if (spec.appends_sgd && spec.optimizer) return "sgd and optimizer both update the parameters; keep one";
  if (spec.keeps_masters && (!spec.optimizer || spec.arithmetic != precision::bf16)) {
    return "masters need an optimizer and precision bf16";
  }
  return std::nullopt;
}

network_spec imported_spec(graph g, const std::string& digest) {
  const auto of_role = [&](role use) { return std::ranges::find(g.tensors, use, &tensor::role); };
  const auto none = g.tensors.end();
  network_spec n;
  n.name = g.name + "#" + digest;
  if (const auto data = of_role(role::input); data != none) n.batch = data->shape.n;
  n.mode = of_role(role::parameter_gradient) == none ? pass::inference : pass::train;
  n.appends_sgd = std::ranges::any_of(g.ops, [](const op& o) { return has_kind<sgd_update>(o); });
  for (const op& o : g.ops) {
    if (const auto* const step = std::get_if<optimizer_step>(&o.attributes.value)) {
      n.optimizer = all_values<optimizer_kind>().at(static_cast<std::size_t>(step->moments));
    }
  }
  n.fusion_mode = fusion::none;
  n.arithmetic = g.arithmetic;
  const bool is_nhwc = std::ranges::find(g.tensors, memory_order::nhwc, &tensor::order) != none;
  n.order = is_nhwc ? memory_order::nhwc : memory_order::nchw;
  n.imported_graph = std::make_shared<const graph>(std::move(g));
  return n;
}

}  // namespace um
