#include <stdexcept>
#include <utility>

#include "networks/builder.hpp"
#include "networks/passes.hpp"

namespace um {
namespace {

optimizer_step step_of(optimizer_kind how) {
  constexpr float standard_rate = 1e-3F;  // default learning rate of torch.optim.SGD and AdamW
  return {.moments = static_cast<std::int32_t>(how), .learning_rate = standard_rate};
}

tensor_id append_state(graph& g, tensor_id parameter, const std::string& suffix) {
  tensor state = g.tensors[parameter];
  state.name += suffix;
  state.type = dtype::f32;
  state.role = role::state;
  return append_tensor(g, std::move(state));
}

}  // namespace

graph with_optimizer_step(const graph& g, optimizer_kind how) {
  graph result = g;
  const optimizer_step step = step_of(how);
  op o{"step", step, {}, {}, false, std::nullopt};
  const auto update = [&o](tensor_id state) {
    o.in.push_back(state);
    o.out.push_back(state);
  };
  for (const auto& [w, dw] : trained_parameters(g)) {
    update(w);
    o.in.push_back(dw);
    if (step.moments > 0) update(append_state(result, w, ".m"));
    if (step.moments > 1) update(append_state(result, w, ".v"));
    if (g.tensors[w].type == dtype::bf16) update(append_state(result, w, ".master"));
  }
  if (o.in.empty()) throw std::invalid_argument("an optimizer needs gradients of parameters");
  if (step.moments > 1) {
    update(append_tensor(result, {"step.count", {1, 1, 1, 1}, dtype::i32, role::state}));
  }
  result.ops.push_back(std::move(o));
  return result;
}

}  // namespace um
