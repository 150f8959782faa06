// Builds a graph layer by layer: forward operators with inferred shapes, then the loss, the backward
// operators and the updates. Layers take and return tensors, so a network may branch: gradients of a tensor
// with several readers are added up.
//
// Names: layer `conv1` writes `conv1.y` and owns `conv1.w` and `conv1.b`; the gradient of `conv1.w` is
// `conv1.dw`. Every function throws std::invalid_argument, naming the layer or the tensor, if a window or
// stride is below 1, a window is larger than its input, or a size overflows. defect_of() (core/graph.hpp)
// finds operands that do not fit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "networks/spec.hpp"

namespace um {

// How a pool treats input beyond its last whole window.
enum class partial_windows : std::uint8_t {
  dropped,  // output extent rounded down
  pooled,   // output extent rounded up: a clipped window covers the rest (Chainer's cover_all)
};

// Number of rows and columns.
struct extent {
  std::int64_t h = 1, w = 1;
  constexpr extent(std::int64_t of_both = 1)
      : h(of_both), w(of_both) {}  // NOLINT: one number stands for both extents
  constexpr extent(std::int64_t rows, std::int64_t columns) : h(rows), w(columns) {}
};

struct filters {
  std::int64_t count = 1;
  extent kernel = 1, stride = 1, pad = 0;
  bool bias = true;
  std::int64_t groups = 1;
};

class builder {
 public:
  builder(std::string name, pass mode);

  tensor_id input(const std::string& name, const dims& shape);
  tensor_id convolution(const std::string& name, tensor_id x, const filters& f);
  tensor_id relu(const std::string& name, tensor_id x, bool relu6 = false);
  tensor_id max_pool(const std::string& name, tensor_id x, std::int64_t window, std::int64_t stride,
                     partial_windows rest, std::int64_t pad = 0);
  // For `count_include_pad` see core/operators.hpp.
  tensor_id average_pool(const std::string& name, tensor_id x, extent window, extent stride,
                         partial_windows rest, extent pad = 0, bool count_include_pad = false);
  tensor_id linear(const std::string& name, tensor_id x, std::int64_t outputs);
  // Owns the parameters `NAME.scale` and `NAME.shift`. For inference the statistics are parameters, too.
  tensor_id batch_norm(const std::string& name, tensor_id x, float epsilon = 1e-5F);
  tensor_id add(const std::string& name, tensor_id a, tensor_id b);
  // Joins the channels of at least two tensors, in this order.
  tensor_id concat(const std::string& name, const std::vector<tensor_id>& parts);
  tensor_id global_average_pool(const std::string& name, tensor_id x);

  // The finished graph, with fused operators unless `fusion_mode` is none. `y` becomes the output.
  graph inference(tensor_id y, fusion fusion_mode) const;
  // The loss of `logits` against labels becomes the output; gradients of all parameters follow.
  graph training(tensor_id logits, fusion fusion_mode, bool sgd) const;
  // The inference or training graph that the specification asks for.
  graph complete(tensor_id logits, const network_spec& spec) const;

  const graph& so_far() const { return graph_; }

 private:
  tensor_id parameter(const std::string& name, const dims& shape);
  tensor_id append_layer(const std::string& name, op_attributes what, std::vector<tensor_id> in,
                         const dims& y);
  void append_output(tensor t);  // adds another output to the last operator

  graph graph_;
  pass mode_;
};

// Appends a tensor whose extents are at least 1 and whose bytes fit in 2^63.
tensor_id append_tensor(graph& g, tensor t);

// Appends the operators that compute, from the gradient `dy` of `y`, the gradients of all parameters that `y`
// depends on and of the requested inputs. Last layer first; within a layer the gradient of the data comes
// last, when the operands of the others are no longer needed. Gradients of parameters have the role
// parameter_gradient, those of inputs the role output. `joins_operators`: bias gradients are computed
// together with the gradient that they sum, and normalisations add two gradients.
void append_backward(graph& g, tensor_id y, tensor_id dy, std::span<const tensor_id> inputs,
                     bool joins_operators);

// Pairs of each parameter that has a gradient and that gradient, in the order of the parameters.
std::vector<std::pair<tensor_id, tensor_id>> trained_parameters(const graph& g);

// Appends an SGD update of each trained parameter.
void append_updates(graph& g);

}  // namespace um
