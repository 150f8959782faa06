#include "measure/running.hpp"

#include <cuda_runtime_api.h>

namespace um::measure {

convolution_problem vgg_convolution(std::int64_t batch, std::int64_t channels, std::int64_t filters,
                                    std::int64_t extent) {
  convolution_problem p;
  p.x = {batch, channels, extent, extent};
  p.w = {filters, channels, 3, 3};
  p.y = {batch, filters, extent, extent};
  p.attributes = {1, 1, 1, 1, true};
  p.has_bias = true;
  return p;
}

std::vector<byte_count> operand_bytes(const convolution_problem& of) {
  const auto bytes = [&](const dims& shape) {
    return static_cast<byte_count>(element_count(shape)) * element_bytes(operand_type(of.arithmetic));
  };
  std::vector<byte_count> all{bytes(of.x), bytes(of.w), bytes(of.y)};
  if (of.has_bias) all.push_back(static_cast<byte_count>(of.y.c) * sizeof(float));
  return all;
}

std::vector<byte_count> operand_bytes(const matrix_problem& of) {
  const byte_count each = element_bytes(operand_type(of.arithmetic));
  const auto n = static_cast<byte_count>(of.n), in = static_cast<byte_count>(of.in),
             out = static_cast<byte_count>(of.out);
  return {n * in * each, out * in * each, n * out * each};
}

operand_layout layout_of(const std::vector<byte_count>& operands) {
  operand_layout made;
  for (const byte_count bytes : operands) {
    made.offsets.push_back(made.bytes);
    made.bytes += round_up(bytes, managed_block);
  }
  return made;
}

void fill_randomly_by_gpu(session& on, std::byte* data, byte_count bytes, dtype type) {
  kernels::fill_random(on.compute(), data, static_cast<std::int64_t>(bytes / element_bytes(type)), type, 1);
  check(cudaStreamSynchronize(on.compute().stream));
}

}  // namespace um::measure
