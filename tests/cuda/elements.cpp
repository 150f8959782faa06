#include "tests/cuda/elements.hpp"

#include <cmath>
#include <cstring>

#include "backends/bf16.hpp"

namespace um::gpu_tests {
namespace {

template <class Value>
void put(std::byte* to, double value) {
  const auto narrow = static_cast<Value>(value);
  std::memcpy(to, &narrow, sizeof narrow);
}
template <class Value>
double got(const std::byte* from) {
  Value value{};
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}

void put_element(dtype type, std::byte* to, double value) {
  if (type == dtype::f32) put<float>(to, value);
  if (type == dtype::i32) put<std::int32_t>(to, value);
  if (type == dtype::u8) put<std::uint8_t>(to, value);
  if (type == dtype::u16) put<std::uint16_t>(to, value);
  if (type == dtype::bf16) put<std::uint16_t>(to, to_bf16(static_cast<float>(value)));
}
double got_element(dtype type, const std::byte* from) {
  if (type == dtype::f32) return got<float>(from);
  if (type == dtype::i32) return got<std::int32_t>(from);
  if (type == dtype::u8) return got<std::uint8_t>(from);
  if (type == dtype::u16) return got<std::uint16_t>(from);
  return from_bf16(static_cast<std::uint16_t>(got<std::uint16_t>(from)));
}

}  // namespace

std::vector<std::byte> in_memory(const tensor& t, const reference::values& values) {
  std::vector<std::byte> bytes(bytes_of(t));
  const byte_count size = element_bytes(t.type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    put_element(t.type, bytes.data() + i * size,
                values[static_cast<std::size_t>(logical_index(t, static_cast<std::int64_t>(i)))]);
  }
  return bytes;
}
reference::values from_memory(const tensor& t, const std::vector<std::byte>& bytes) {
  reference::values values(static_cast<std::size_t>(element_count(t.shape)));
  const byte_count size = element_bytes(t.type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[static_cast<std::size_t>(logical_index(t, static_cast<std::int64_t>(i)))] =
        got_element(t.type, bytes.data() + i * size);
  }
  return values;
}

double relative_error(const reference::values& out, const reference::values& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (out[i] - expected[i]) * (out[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(size == 0 ? difference : difference / size);
}

}  // namespace um::gpu_tests
