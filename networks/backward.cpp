#include <algorithm>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "networks/builder.hpp"

namespace um {
namespace {

// Name of a tensor's gradient: "conv1.w" -> "conv1.dw".
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

// Walks the forward operators from the last to the first and appends their gradients. The gradient of a
// tensor with several readers has one part per reader. Each part is added to the sum of the earlier ones,
// except for the last two if the operator that takes them adds them itself.
class backward_pass {
 public:
  backward_pass(graph& g, std::span<const tensor_id> inputs, bool joins_operators)
      : graph_(g),
        joins_operators_(joins_operators),
        forward_ops_(g.ops.size()),
        wanted_(g.tensors.size()),
        gradients_(g.tensors.size()) {
    for (const tensor_id id : inputs) wanted_.at(id) = true;
    for (std::size_t id = 0; id < g.tensors.size(); ++id) {
      if (g.tensors[id].role == role::parameter) wanted_[id] = true;
    }
    for (const op& o : g.ops) {
      const bool wanted = std::ranges::any_of(o.in, [&](tensor_id id) { return bool{wanted_[id]}; });
      for (const tensor_id id : o.out) wanted_[id] = wanted_[id] || wanted;
    }
  }

  void run(tensor_id y, tensor_id dy) {
    count_gradient_parts(y);
    gradients_.at(y).parts.assign(1, dy);
    for (std::size_t i = forward_ops_; i-- > 0;) {
      const op forward = graph_.ops[i];  // a copy, since appending may reallocate the list
      if (gradients_[forward.out[0]].parts.empty()) continue;
      std::visit([&](const auto& what) { differentiate(forward, what); }, forward.attributes.value);
    }
  }

 private:
  struct gradient {
    std::vector<tensor_id> parts;  // parts that are computed but not added up yet
    int expected = 0, come = 0,
        made = 0;          // number of parts: expected; computed so far; with a tensor of their own
    std::size_t room = 1;  // number of parts that its reader adds up itself
  };

  // Counts the parts that each gradient will have.
  void count_gradient_parts(tensor_id y) {
    std::vector<bool> reached(gradients_.size());
    reached.at(y) = true;
    for (std::size_t i = forward_ops_; i-- > 0;) {
      const op& o = graph_.ops[i];
      if (!reached[o.out[0]]) continue;
      if (joins_operators_ && has_kind<batch_norm>(o)) gradients_[o.out[0]].room = 2;
      for (const tensor_id id : o.in) {
        if (!wanted_[id]) continue;
        reached[id] = true;
        ++gradients_[id].expected;
      }
    }
  }

  void differentiate(const op& o, const convolution& what) {
    const bool biased = o.in.size() > 2;
    tensor_id dy = gradient_of(o);
    if (what.relu) dy = gradient_before_relu(o, dy);
    um::convolution product = what;
    product.relu = false;
    append_gradient_op(o, ".backward_filter", convolution_backward_filter{product}, {o.in[0], dy}, {o.in[1]});
    if (biased && !(what.relu && joins_operators_))
      append_gradient_op(o, ".backward_bias", bias_backward{}, {dy}, {o.in[2]});
    append_gradient_op(o, ".backward_data", convolution_backward_data{product}, {o.in[1], dy}, {o.in[0]});
  }

  void differentiate(const op& o, const linear& what) {
    const bool biased = o.in.size() > 2;
    tensor_id dy = gradient_of(o);
    if (what.relu) dy = gradient_before_relu(o, dy);
    const bool together = biased && joins_operators_ && !what.relu;
    std::vector<tensor_id> of{o.in[1]};
    if (together) of.push_back(o.in[2]);
    append_gradient_op(o, ".backward_filter", linear_backward_filter{}, {o.in[0], dy}, of);
    if (biased && !joins_operators_)
      append_gradient_op(o, ".backward_bias", bias_backward{}, {dy}, {o.in[2]});
    append_gradient_op(o, ".backward_data", linear_backward_data{}, {o.in[1], dy}, {o.in[0]});
  }

  // The gradient before the ReLU that is fused into `o`, and the gradient of its bias if that is fused, too.
  tensor_id gradient_before_relu(const op& o, tensor_id dy) {
    const tensor_id y = o.out[0];
    const tensor_id dx = append_tensor(
        graph_, {o.name + ".dy", graph_.tensors[y].shape, dtype::f32, role::activation_gradient});
    if (joins_operators_ && o.in.size() > 2) {
      const tensor_id db = new_gradient_part(o.in[2]);
      append_op(o, ".backward_relu", relu_bias_backward{}, {y, dy}, {dx, db}, may_alias{1, 0});
      add_gradient_part(o.in[2], db);
    } else {
      append_op(o, ".backward_relu", relu_backward{}, {y, dy}, {dx}, may_alias{1, 0});
    }
    return dx;
  }

  void differentiate(const op& o, const relu& what) {
    append_gradient_op(o, ".backward", relu_backward{what}, {o.out[0], gradient_of(o)}, {o.in[0]},
                       may_alias{1, 0});
  }

  void differentiate(const op& o, const max_pool& what) {
    std::vector<tensor_id> in{gradient_of(o), o.out[1]}, of{o.in[0]};
    if (what.relu) {
      in.push_back(o.out[0]);
      of.push_back(o.in[1]);
    }
    append_gradient_op(o, ".backward", max_pool_backward{what}, in, of);
  }

  void differentiate(const op& o, const batch_norm& what) {
    const std::vector<tensor_id> dy = gradients_[o.out[0]].parts;
    batch_norm_backward backward{what.relu, o.in.size() > 3, dy.size() > 1, what.relu6};
    // A gradient that passes unchanged needs no tensor of its own.
    const bool passed = backward.residual && !backward.relu && !backward.two_gradients;
    if (passed) backward.residual = false;
    std::vector<tensor_id> in{o.in[0], o.in[1], o.in[2], o.out[1], o.out[2]};
    in.insert(in.end(), dy.begin(), dy.end());
    if (backward.relu && backward.residual) in.push_back(o.out[0]);
    std::vector<tensor_id> of{o.in[0], o.in[1], o.in[2]};
    if (backward.residual) of.push_back(o.in[3]);
    append_gradient_op(o, ".backward", backward, in, of, may_alias{5, backward.residual ? 3U : 0U});
    if (passed) pass_gradient_on(o.in[3], dy[0]);
  }

  void differentiate(const op& o, const um::add&) {
    const tensor_id dy = gradient_of(o);
    for (const tensor_id id : o.in) pass_gradient_on(id, dy);
  }

  void differentiate(const op& o, const global_average_pool&) {
    append_gradient_op(o, ".backward", global_average_pool_backward{}, {gradient_of(o)}, {o.in[0]});
  }

  void differentiate(const op& o, const average_pool& what) {
    append_gradient_op(o, ".backward", average_pool_backward{what}, {gradient_of(o)}, {o.in[0]});
  }

  void differentiate(const op& o, const concat&) {
    append_gradient_op(o, ".backward", concat_backward{}, {gradient_of(o)}, o.in);
  }

  template <class Other>
  void differentiate(const op& o, const Other&) {
    throw std::invalid_argument("operator " + o.name + " (" + std::string(kind_of(o.attributes)) +
                                ") has no gradient");
  }

  tensor_id gradient_of(const op& o) const { return gradients_[o.out[0]].parts.at(0); }

  // Appends an operator that computes one part of the gradient of each tensor in `differentiated`, unless no
  // such gradient is wanted.
  void append_gradient_op(const op& forward, const char* suffix, op_attributes what,
                          std::vector<tensor_id> in, const std::vector<tensor_id>& differentiated,
                          std::optional<may_alias> alias = std::nullopt) {
    if (std::ranges::none_of(differentiated, [&](tensor_id id) { return bool{wanted_[id]}; })) return;
    std::vector<tensor_id> out;
    for (const tensor_id id : differentiated) out.push_back(new_gradient_part(id));
    append_op(forward, suffix, what, std::move(in), out, alias);
    for (std::size_t i = 0; i < differentiated.size(); ++i) add_gradient_part(differentiated[i], out[i]);
  }

  void append_op(const op& forward, const char* suffix, op_attributes what, std::vector<tensor_id> in,
                 std::vector<tensor_id> out, std::optional<may_alias> alias) {
    graph_.ops.push_back({forward.name + suffix, what, std::move(in), std::move(out), true, alias});
  }

  // The tensor of the next part of a gradient: the gradient itself if there is only one part.
  tensor_id new_gradient_part(tensor_id id) {
    gradient& d = gradients_[id];
    if (!wanted_[id]) return new_gradient_tensor(id, "", role::activation_gradient);
    if (d.expected <= 1) return new_gradient_tensor(id, "", gradient_role(graph_.tensors[id].role));
    return new_gradient_tensor(id, "." + std::to_string(++d.made), role::activation_gradient);
  }

  tensor_id new_gradient_tensor(tensor_id id, const std::string& suffix, role use) {
    const tensor& t = graph_.tensors[id];
    return append_tensor(graph_, {gradient_name(t.name) + suffix, t.shape, dtype::f32, use});
  }

  void pass_gradient_on(tensor_id id, tensor_id part) {
    const tensor& t = graph_.tensors[id];
    if (wanted_[id] && gradients_[id].expected == 1 && persists(t.role)) {
      throw std::invalid_argument("tensor " + t.name +
                                  " is added to another and read nowhere else: its gradient has no tensor");
    }
    add_gradient_part(id, part);
  }

  void add_gradient_part(tensor_id id, tensor_id part) {
    if (!wanted_[id]) return;
    gradient& d = gradients_[id];
    ++d.come;
    d.parts.push_back(part);
    const bool last = d.come == d.expected;
    if (d.parts.size() < 2 || (last && d.parts.size() <= d.room)) return;
    const tensor_id sum =
        last ? new_gradient_tensor(id, "", gradient_role(graph_.tensors[id].role))
             : new_gradient_tensor(id, "." + std::to_string(++d.made), role::activation_gradient);
    graph_.ops.push_back(
        {graph_.tensors[sum].name, um::add{}, {d.parts[0], d.parts[1]}, {sum}, true, may_alias{0, 0}});
    d.parts.assign(1, sum);
  }

  graph& graph_;
  bool joins_operators_;
  std::size_t forward_ops_;
  std::vector<bool> wanted_;
  std::vector<gradient> gradients_;  // per tensor of the forward operators
};

}  // namespace

void append_backward(graph& g, tensor_id y, tensor_id dy, std::span<const tensor_id> inputs,
                     bool joins_operators) {
  backward_pass(g, inputs, joins_operators).run(y, dy);
}

std::vector<std::pair<tensor_id, tensor_id>> trained_parameters(const graph& g) {
  std::unordered_map<std::string, tensor_id> gradients;
  for (std::size_t id = 0; id < g.tensors.size(); ++id) {
    if (g.tensors[id].role == role::parameter_gradient) {
      gradients[g.tensors[id].name] = static_cast<tensor_id>(id);
    }
  }
  std::vector<std::pair<tensor_id, tensor_id>> trained;
  for (std::size_t id = 0; id < g.tensors.size(); ++id) {
    if (g.tensors[id].role != role::parameter) continue;
    const auto gradient = gradients.find(gradient_name(g.tensors[id].name));
    if (gradient != gradients.end()) trained.emplace_back(static_cast<tensor_id>(id), gradient->second);
  }
  return trained;
}

void append_updates(graph& g) {
  for (const auto& [w, dw] : trained_parameters(g)) {
    g.ops.push_back({g.tensors[w].name + ".update", sgd_update{}, {w, dw}, {w}, false, std::nullopt});
  }
}

}  // namespace um
