#include "backends/initial_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace um {
namespace {

// FNV-1a, to tell tensors apart by name.
std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

// SplitMix64's output function: element i of a stream without the elements before it.
std::uint64_t bits_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Uniform in [-1, 1), exact in single precision.
float uniform_at(std::uint64_t seed, std::uint64_t index) {
  const auto top = static_cast<std::int32_t>(bits_at(seed, index) >> 40);  // 24 bits
  return static_cast<float>(top - (1 << 23)) / static_cast<float>(1 << 23);
}

bool is_bias(const graph& g, tensor_id what) {
  return std::any_of(g.ops.begin(), g.ops.end(), [&](const op& o) {
    const bool takes_bias =
        std::holds_alternative<convolution>(o.what) || std::holds_alternative<linear>(o.what);
    return takes_bias && o.in.size() == 3 && o.in[2] == what;
  });
}

// Half-width of the uniform distribution.
float scale_of(const graph& g, tensor_id what) {
  const tensor& t = g.tensors[what];
  if (t.use != role::parameter) return 1.0F;
  if (is_bias(g, what)) return 0.1F;
  const std::int64_t fan_in = t.shape.c * t.shape.h * t.shape.w;
  return std::sqrt(6.0F / static_cast<float>(std::max<std::int64_t>(fan_in, 1)));
}

// Number of classes of the loss that reads these labels; 1 if none does.
std::uint64_t classes_of(const graph& g, tensor_id labels) {
  for (const op& o : g.ops) {
    if (!std::holds_alternative<softmax_cross_entropy>(o.what) || o.in.at(1) != labels) continue;
    const dims& logits = g.tensors[o.in[0]].shape;
    return static_cast<std::uint64_t>(logits.c * logits.h * logits.w);
  }
  return 1;
}

template <class Value, class Make>
void write_as(std::span<std::byte> to, std::int64_t first, Make make) {
  const std::size_t count = to.size() / sizeof(Value);
  for (std::size_t i = 0; i < count; ++i) {
    const Value value = make(static_cast<std::uint64_t>(first) + i);
    std::memcpy(to.data() + i * sizeof(Value), &value, sizeof(Value));
  }
}

}  // namespace

void write_initial_values(const graph& g, tensor_id what, std::int64_t first, std::span<std::byte> to) {
  const tensor& t = g.tensors.at(what);
  const std::uint64_t seed = hash_of(t.name);
  if (t.type == dtype::f32) {
    const float scale = scale_of(g, what);
    write_as<float>(to, first, [&](std::uint64_t i) { return scale * uniform_at(seed, i); });
  } else if (t.type == dtype::i32) {
    const std::uint64_t classes = classes_of(g, what);
    write_as<std::int32_t>(
        to, first, [&](std::uint64_t i) { return static_cast<std::int32_t>(bits_at(seed, i) % classes); });
  } else {
    throw std::invalid_argument("tensor " + t.name + " cannot be given values: it is neither f32 nor i32");
  }
}

std::vector<std::byte> initial_values(const graph& g, tensor_id what) {
  std::vector<std::byte> values(bytes_of(g.tensors.at(what)));
  write_initial_values(g, what, 0, values);
  return values;
}

}  // namespace um
