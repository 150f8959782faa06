// Tensors as files that NumPy reads: format 1.0 of NEP 1, little-endian, C order, extents n, c, h, w.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace um {

// The header has the magic string, the version, and a dictionary padded to 64 bytes.
std::string npy_header(const tensor& t);

// Returns the elements of a tensor, reordered to n, c, h, w. bf16 is widened to f32.
std::vector<std::byte> npy_elements(const tensor& t, std::span<const std::byte> memory);

// Throws std::runtime_error naming the file that cannot be written.
void write_npy(const std::filesystem::path& file, const tensor& t, std::span<const std::byte> memory);

}  // namespace um
