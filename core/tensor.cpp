#include "core/tensor.hpp"

#include <limits>
#include <stdexcept>

namespace um {

byte_count element_bytes(dtype type) {
  switch (type) {
    case dtype::f32:
    case dtype::i32:
      return 4;
    case dtype::u8:
      return 1;
    case dtype::bf16:
    case dtype::u16:
      return 2;
  }
  throw std::invalid_argument("an unknown element type");
}

std::int64_t element_count(const dims& shape) {
  std::int64_t count = shape.n;
  for (const std::int64_t extent : {shape.c, shape.h, shape.w}) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      throw std::overflow_error("the shape " + to_text(shape) + " has more than 2^63 elements");
    }
  }
  return count;
}

byte_count bytes_of(const tensor& t) {
  const std::int64_t count = element_count(t.shape);
  if (count < 0) throw std::invalid_argument("the shape " + to_text(t.shape) + " is negative");
  const auto bytes = checked_multiply(static_cast<std::uint64_t>(count), element_bytes(t.type));
  if (!bytes || *bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw std::overflow_error("tensor " + t.name + " of shape " + to_text(t.shape) +
                              " has more than 2^63 bytes");
  }
  return *bytes;
}

dims strides_of(const tensor& t) {
  const dims& s = t.shape;
  if (t.order == memory_order::nhwc) return {s.c * s.h * s.w, 1, s.w * s.c, s.c};
  return {s.c * s.h * s.w, s.h * s.w, s.w, 1};
}

std::int64_t logical_index(const tensor& t, std::int64_t position) {
  const dims& s = t.shape;
  if (t.order == memory_order::nchw) return position;
  const std::int64_t c = position % s.c, pixel = position / s.c;
  const std::int64_t plane = s.h * s.w;
  return (pixel / plane * s.c + c) * plane + pixel % plane;
}

std::string to_text(const dims& shape) {
  return std::to_string(shape.n) + "x" + std::to_string(shape.c) + "x" + std::to_string(shape.h) + "x" +
         std::to_string(shape.w);
}

}  // namespace um
