// The operators of the reference, one overload each. Called through execute() in reference.hpp.
#pragma once

#include <span>
#include <vector>

#include "core/graph.hpp"
#include "tests/reference/values.hpp"

namespace um::reference {

// What an operator gets: the values of its inputs and the shapes of all its operands.
struct arguments {
  const graph& g;
  const op& o;
  std::span<const values> in;

  const dims& in_shape(std::size_t i) const { return g.tensors[o.in[i]].shape; }
  const dims& out_shape(std::size_t i) const { return g.tensors[o.out[i]].shape; }
};

std::vector<values> apply(const convolution& what, const arguments& of);
std::vector<values> apply(const convolution_backward_data& what, const arguments& of);
std::vector<values> apply(const convolution_backward_filter& what, const arguments& of);
std::vector<values> apply(const bias_backward& what, const arguments& of);
std::vector<values> apply(const relu& what, const arguments& of);
std::vector<values> apply(const relu_backward& what, const arguments& of);
std::vector<values> apply(const relu_bias_backward& what, const arguments& of);
std::vector<values> apply(const max_pool& what, const arguments& of);
std::vector<values> apply(const max_pool_backward& what, const arguments& of);
std::vector<values> apply(const linear& what, const arguments& of);
std::vector<values> apply(const linear_backward_data& what, const arguments& of);
std::vector<values> apply(const linear_backward_filter& what, const arguments& of);
std::vector<values> apply(const batch_norm& what, const arguments& of);
std::vector<values> apply(const normalize& what, const arguments& of);
std::vector<values> apply(const batch_norm_backward& what, const arguments& of);
std::vector<values> apply(const add& what, const arguments& of);
std::vector<values> apply(const global_average_pool& what, const arguments& of);
std::vector<values> apply(const global_average_pool_backward& what, const arguments& of);
std::vector<values> apply(const cast& what, const arguments& of);
std::vector<values> apply(const softmax_cross_entropy& what, const arguments& of);
std::vector<values> apply(const softmax_cross_entropy_backward& what, const arguments& of);
std::vector<values> apply(const softmax_cross_entropy_gradient& what, const arguments& of);
std::vector<values> apply(const sgd_update& what, const arguments& of);
// Throws std::invalid_argument: nothing is known of its values.
std::vector<values> apply(const opaque& what, const arguments& of);

}  // namespace um::reference
