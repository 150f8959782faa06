// A tiny network for the tests of plans: x -> relu -> a -> relu -> b -> ... with one backward
// operator a layer, all tensors of one size, built by hand so that every address can be foreseen.
#pragma once

#include <string>

#include "core/planner.hpp"

namespace um::testing {

inline constexpr byte_count chain_bytes = 4 * 256 * 1024;  // of every tensor: n 4, c 256, h 32, w 32

// `layers` relus forward, then as many relu_backward back to the gradient of the first output.
// No operator may work in place.
inline graph chain(int layers) {
  graph g;
  g.name = "chain";
  const dims shape{4, 256, 32, 8};
  const auto add = [&](const std::string& name, role use) {
    g.tensors.push_back({name, shape, dtype::f32, use});
    return static_cast<tensor_id>(g.tensors.size() - 1);
  };
  tensor_id before = add("x", role::input);
  std::vector<tensor_id> outputs;
  for (int i = 0; i < layers; ++i) {
    const tensor_id y = add("y" + std::to_string(i), role::activation);
    g.ops.push_back({"relu" + std::to_string(i), relu{}, {before}, {y}, true, {}});
    outputs.push_back(before = y);
  }
  tensor_id gradient = add("dy", role::input);
  for (int i = layers - 1; i >= 0; --i) {
    const tensor_id dx = add("d" + std::to_string(i), i == 0 ? role::output : role::activation_gradient);
    g.ops.push_back({"back" + std::to_string(i),
                     relu_backward{},
                     {outputs[static_cast<std::size_t>(i)], gradient},
                     {dx},
                     true,
                     {}});
    gradient = dx;
  }
  return g;
}

inline profile costs_of(const graph& g, byte_count workspace = 0) {
  return profile(g.ops.size(), op_cost{1000, workspace, "test"});
}

inline memory_plan in_order(const graph& g, residence home) {
  memory_plan plan;
  plan.residences.assign(g.tensors.size(), home);
  for (op_id o = 0; o < g.ops.size(); ++o) plan.actions.emplace_back(compute{o, {}});
  return plan;
}

inline tensor_id named(const graph& g, const std::string& name) {
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (g.tensors[t].name == name) return t;
  }
  throw std::invalid_argument("no tensor " + name);
}

}  // namespace um::testing
