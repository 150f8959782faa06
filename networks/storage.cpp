#include <optional>
#include <utility>
#include <vector>

#include "networks/passes.hpp"

namespace um {
namespace {

// Per tensor: whether it is f32 in every precision. Vectors over channels and sums over the batch are.
std::vector<bool> stays_f32(const graph& g) {
  std::vector<bool> whole(g.tensors.size());
  const auto mark = [&](const std::vector<tensor_id>& operands, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end && i < operands.size(); ++i) whole[operands[i]] = true;
  };
  for (const op& o : g.ops) {
    std::visit(
        overloaded{[&](const batch_norm&) { mark(o.out, 1, 3); }, [&](const normalize&) { mark(o.in, 1, 5); },
                   [&](const softmax_cross_entropy&) { mark(o.out, 0, 1); },
                   [&](const softmax_cross_entropy_gradient&) { mark(o.out, 0, 1); }, [](const auto&) {}},
        o.attributes.value);
  }
  for (std::size_t id = 0; id < whole.size(); ++id) {
    const role use = g.tensors[id].role;
    if (belongs_to_parameter(use)) whole[id] = true;
  }
  return whole;
}

// Index of the operand that is the filter or the weight matrix; nothing if the operator has none.
std::optional<std::size_t> weight_operand(const op_attributes& what) {
  return std::visit(overloaded{[](const convolution&) { return std::optional<std::size_t>(1); },
                               [](const linear&) { return std::optional<std::size_t>(1); },
                               [](const convolution_backward_data&) { return std::optional<std::size_t>(0); },
                               [](const linear_backward_data&) { return std::optional<std::size_t>(0); },
                               [](const auto&) { return std::optional<std::size_t>(); }},
                    what.value);
}

// Lets products read casts of their weights. Each cast is made before its first use.
void cast_weights(graph& g) {
  std::vector<op> ops;
  std::vector<std::optional<tensor_id>> narrow(g.tensors.size());
  for (op& o : g.ops) {
    const auto at = weight_operand(o.attributes);
    if (at && g.tensors[o.in[*at]].type == dtype::f32) {
      std::optional<tensor_id>& cast_to = narrow[o.in[*at]];
      if (!cast_to) {
        tensor t = g.tensors[o.in[*at]];
        t.name += ".bf16";
        t.type = dtype::bf16;
        t.role = role::activation;
        cast_to = static_cast<tensor_id>(g.tensors.size());
        ops.push_back({t.name, cast{}, {o.in[*at]}, {*cast_to}, true, std::nullopt});
        g.tensors.push_back(std::move(t));
      }
      o.in[*at] = *cast_to;
    }
    ops.push_back(std::move(o));
  }
  g.ops = std::move(ops);
}

}  // namespace

graph with_storage_format(const graph& g, precision arithmetic, memory_order order, bool narrow_weights) {
  graph result = g;
  result.arithmetic = arithmetic;
  for (tensor& t : result.tensors) t.order = order;
  if (arithmetic != precision::bf16) return result;
  const std::vector<bool> whole = stays_f32(g);
  for (std::size_t id = 0; id < whole.size(); ++id) {
    tensor& t = result.tensors[id];
    if (t.type == dtype::f32 && !whole[id]) t.type = dtype::bf16;
  }
  if (narrow_weights) {
    for (const op& o : g.ops) {
      if (const auto at = weight_operand(o.attributes)) result.tensors[o.in[*at]].type = dtype::bf16;
    }
  }
  cast_weights(result);
  return result;
}

graph without_unused_tensors(const graph& g) {
  std::vector<bool> named(g.tensors.size());
  for (const op& o : g.ops) {
    for (const auto* operands : {&o.in, &o.out}) {
      for (const tensor_id id : *operands) named[id] = true;
    }
  }
  graph result{g.name, {}, g.ops, g.arithmetic};
  std::vector<tensor_id> renamed(g.tensors.size());
  for (std::size_t id = 0; id < named.size(); ++id) {
    renamed[id] = static_cast<tensor_id>(result.tensors.size());
    if (named[id]) result.tensors.push_back(g.tensors[id]);
  }
  for (op& o : result.ops) {
    for (auto* operands : {&o.in, &o.out}) {
      for (tensor_id& id : *operands) id = renamed[id];
    }
  }
  return result;
}

}  // namespace um
