// Tensors as files that NumPy reads: format 1.0 of NEP 1, little-endian, C order, extents n, c, h, w.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace um {

// What precedes the elements: magic string, version, and a dictionary padded to 64 bytes.
std::string npy_header(const tensor& t);

// The elements of a tensor as it lies in memory, brought into the order n, c, h, w; bf16 is widened
// to f32, other types stay.
std::vector<std::byte> npy_elements(const tensor& t, std::span<const std::byte> memory);

// Throws std::runtime_error naming the file that cannot be written.
void write_npy(const std::filesystem::path& file, const tensor& t, std::span<const std::byte> memory);

}  // namespace um
