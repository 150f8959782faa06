#include <array>

#include "networks/builder.hpp"
#include "networks/families.hpp"

namespace um {

graph build_conv(const network_spec& spec) {
  const auto knob = [&](const char* name) { return spec.knobs.at(name); };
  builder b(spec.name, spec.mode);
  const tensor_id x = b.input("x", {spec.batch, knob("c"), knob("h"), knob("w")});
  const tensor_id y = b.convolution("conv", x, {knob("k"), knob("kernel"), knob("stride"), knob("pad")});
  graph g = b.inference(y, spec.fusion_mode);
  if (spec.mode == pass::inference) return g;
  const tensor_id dy = append_tensor(g, {"conv.dy", g.tensors[y].shape, dtype::f32, role::input});
  append_backward(g, y, dy, std::array{x}, spec.fusion_mode != fusion::none);
  if (spec.appends_sgd) append_updates(g);
  return g;
}

}  // namespace um
