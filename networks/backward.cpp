#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "networks/builder.hpp"

namespace um {
namespace {

// "conv1.w" -> "conv1.dw".
std::string gradient_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  const std::size_t stem = dot == std::string::npos ? 0 : dot + 1;
  return name.substr(0, stem) + "d" + name.substr(stem);
}

role gradient_role(role use) {
  switch (use) {
    case role::parameter:
      return role::parameter_gradient;
    case role::input:
      return role::output;
    default:
      return role::activation_gradient;
  }
}

// Walks the forward operators from the last to the first and appends what each contributes.
class backward_pass {
 public:
  backward_pass(graph& g, std::span<const tensor_id> inputs)
      : graph_(g), forward_ops_(g.ops.size()), wanted_(g.tensors.size()), gradient_(g.tensors.size()) {
    for (const tensor_id id : inputs) wanted_.at(id) = true;
    for (std::size_t id = 0; id < g.tensors.size(); ++id) {
      if (g.tensors[id].use == role::parameter) wanted_[id] = true;
    }
    for (const op& o : g.ops) {
      const bool wanted = std::ranges::any_of(o.in, [&](tensor_id id) { return bool{wanted_[id]}; });
      for (const tensor_id id : o.out) wanted_[id] = wanted_[id] || wanted;
    }
  }

  void run(tensor_id y, tensor_id dy) {
    gradient_.at(y) = dy;
    for (std::size_t i = forward_ops_; i-- > 0;) {
      const op forward = graph_.ops[i];  // a copy: appending moves the list
      if (!gradient_[forward.out[0]]) continue;
      std::visit([&](const auto& what) { differentiate(forward, what, *gradient_[forward.out[0]]); },
                 forward.what);
    }
  }

 private:
  void differentiate(const op& o, const convolution& what, tensor_id dy) {
    append(o, ".backward_filter", convolution_backward_filter{what}, {o.in[0], dy}, o.in[1]);
    if (o.in.size() > 2) append(o, ".backward_bias", bias_backward{}, {dy}, o.in[2]);
    append(o, ".backward_data", convolution_backward_data{what}, {o.in[1], dy}, o.in[0]);
  }

  void differentiate(const op& o, const linear&, tensor_id dy) {
    append(o, ".backward_filter", linear_backward_filter{}, {o.in[0], dy}, o.in[1]);
    if (o.in.size() > 2) append(o, ".backward_bias", bias_backward{}, {dy}, o.in[2]);
    append(o, ".backward_data", linear_backward_data{}, {o.in[1], dy}, o.in[0]);
  }

  void differentiate(const op& o, const relu&, tensor_id dy) {
    append(o, ".backward", relu_backward{}, {o.out[0], dy}, o.in[0], may_alias{1, 0});
  }

  void differentiate(const op& o, const max_pool& what, tensor_id dy) {
    append(o, ".backward", max_pool_backward{what}, {dy, o.out[1]}, o.in[0]);
  }

  template <class Other>
  void differentiate(const op& o, const Other&, tensor_id) {
    throw std::invalid_argument("operator " + o.name + " (" + std::string(kind_of(o.what)) +
                                ") has no gradient");
  }

  // An operator that computes the gradient of `of`, if that is wanted.
  void append(const op& forward, const char* suffix, op_attributes what, std::vector<tensor_id> in,
              tensor_id of, std::optional<may_alias> alias = std::nullopt) {
    if (!wanted_[of]) return;
    const tensor t = graph_.tensors[of];
    if (gradient_[of]) {
      throw std::invalid_argument("tensor " + t.name + " is read twice: gradients are not added up");
    }
    const tensor_id out =
        append_tensor(graph_, {gradient_name(t.name), t.shape, dtype::f32, gradient_role(t.use)});
    gradient_[of] = out;
    graph_.ops.push_back({forward.name + suffix, what, std::move(in), {out}, true, alias});
  }

  graph& graph_;
  std::size_t forward_ops_;
  std::vector<bool> wanted_;
  std::vector<std::optional<tensor_id>> gradient_;
};

std::optional<tensor_id> tensor_named(const graph& g, const std::string& name) {
  for (std::size_t id = 0; id < g.tensors.size(); ++id) {
    if (g.tensors[id].name == name) return static_cast<tensor_id>(id);
  }
  return std::nullopt;
}

}  // namespace

void append_backward(graph& g, tensor_id y, tensor_id dy, std::span<const tensor_id> inputs, bool) {
  backward_pass(g, inputs).run(y, dy);
}

void append_updates(graph& g) {
  for (std::size_t id = 0; id < g.tensors.size(); ++id) {
    if (g.tensors[id].use != role::parameter) continue;
    const std::string name = g.tensors[id].name;
    const auto gradient = tensor_named(g, gradient_name(name));
    if (!gradient || g.tensors[*gradient].use != role::parameter_gradient) continue;
    const auto w = static_cast<tensor_id>(id);
    g.ops.push_back({name + ".update", sgd_update{}, {w, *gradient}, {w}, false, std::nullopt});
  }
}

}  // namespace um
