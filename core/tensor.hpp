// A tensor: name, shape, element type and role. It owns no memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/names.hpp"
#include "core/units.hpp"

namespace um {

enum class dtype : std::uint8_t { f32, bf16, i32, u8, u16 };
template <>
inline constexpr std::array enum_names<dtype>{"f32"sv, "bf16"sv, "i32"sv, "u8"sv, "u16"sv};
constexpr bool is_floating(dtype type) {
  return type == dtype::f32 || type == dtype::bf16;
}

// Memory order of elements; the shape does not depend on it.
enum class memory_order : std::uint8_t {
  nchw,  // planes of single channels, one after another
  nhwc,  // all channels of one position together ("channels last"); filters lie as K, R, S, C
};
template <>
inline constexpr std::array enum_names<memory_order>{"nchw"sv, "nhwc"sv};

// Role of a tensor. Inputs, labels, parameters and states keep their value across iterations and start on the
// host; outputs and parameter gradients hold their value when an iteration ends.
enum class role : std::uint8_t {
  input,
  label,
  parameter,
  parameter_gradient,
  activation,
  activation_gradient,
  output,
  state,  // of an optimizer: moments or momentum of a parameter
};
template <>
inline constexpr std::array enum_names<role>{
    "input"sv,  "label"sv, "parameter"sv, "parameter_gradient"sv, "activation"sv, "activation_gradient"sv,
    "output"sv, "state"sv};

// Four extents. Activations: N, C, H, W. Filters: K, C, R, S. Matrices of fully connected layers:
// out, C, H, W of the input they read. Vectors (biases): 1, C, 1, 1.
struct dims {
  std::int64_t n = 1, c = 1, h = 1, w = 1;
  friend bool operator==(const dims&, const dims&) = default;
};

struct tensor {
  std::string name;
  dims shape;
  dtype type = dtype::f32;
  um::role role = um::role::activation;
  memory_order order = memory_order::nchw;
};

using tensor_id = std::uint32_t;

byte_count element_bytes(dtype type);
std::int64_t element_count(const dims& shape);
byte_count bytes_of(const tensor& t);
// Whether the tensor has managed blocks of its own; smaller tensors share blocks.
inline bool is_block_sized(const tensor& t) {
  return bytes_of(t) >= managed_block;
}

// Distance in elements between neighbours along each axis.
dims strides_of(const tensor& t);
// Index, in the order n, c, h, w, of the element at a position in memory.
std::int64_t logical_index(const tensor& t, std::int64_t position);

std::string to_text(const dims& shape);

constexpr bool belongs_to_parameter(role use) {
  return use == role::parameter || use == role::parameter_gradient || use == role::state;
}
// True for tensors that keep their value from one iteration to the next.
constexpr bool persists(role use) {
  return use == role::input || use == role::label || use == role::parameter || use == role::state;
}
// True for tensors whose value a user reads when an iteration has ended.
constexpr bool survives(role use) {
  return persists(use) || use == role::parameter_gradient || use == role::output;
}

}  // namespace um
