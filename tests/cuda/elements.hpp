// Tensors' bytes as they lie in memory, and the values that they stand for in the order n, c, h, w.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tensor.hpp"
#include "tests/reference/reference.hpp"

namespace um::gpu_tests {

std::vector<std::byte> in_memory(const tensor& t, const reference::values& values);
reference::values from_memory(const tensor& t, const std::vector<std::byte>& bytes);

// ||out - expected|| / ||expected||; not a number if `out` holds one.
double relative_error(const reference::values& out, const reference::values& expected);

}  // namespace um::gpu_tests
