// The values that a run starts from: a function of tensor name and logical element index (counted
// n, c, h, w) alone, so that every machine, backend, strategy and memory order starts from the same
// values. With u uniform in [-1, 1):
//   inputs                                 u
//   labels                                 classes of the loss that reads them
//   filters and matrices                   u sqrt(6 / fan in), as He et al. (2015) propose, so that
//                                          activations keep their magnitude through deep networks
//   biases; shifts and means of norms      u / 10
//   scales, inverse deviations of norms    1 + u / 8
//   states of optimizers                   0; masters those of their parameter, not rounded
// Tensors of type bf16 get the same values, rounded to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/graph.hpp"

namespace um {

// Writes the elements that lie in memory from position `first` on, as many as `to` has bytes for, on
// several threads where there are many. Tensors must persist (inputs, labels, parameters, states).
// Throws std::invalid_argument, naming the tensor, for an element type that has no initial values.
void write_initial_values(const graph& g, tensor_id id, std::int64_t first, std::span<std::byte> to);

std::vector<std::byte> initial_values(const graph& g, tensor_id id);

}  // namespace um
