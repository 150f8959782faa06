// The values that a run starts from: a function of tensor name and element index alone, so that
// every machine, backend and strategy starts from the same bits. Parameters are scaled as He et
// al. (2015) propose, so that activations keep their magnitude through deep networks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/graph.hpp"

namespace um {

// Writes the elements from `first` on, as many as `to` has bytes for. Tensors must persist (inputs,
// labels, parameters); labels are classes of the loss that reads them.
// Throws std::invalid_argument, naming the tensor, for an element type that has no initial values.
void write_initial_values(const graph& g, tensor_id what, std::int64_t first, std::span<std::byte> to);

std::vector<std::byte> initial_values(const graph& g, tensor_id what);

}  // namespace um
