// bfloat16 on the host is the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace um {

// Rounds to nearest, ties to even. `value` is a number.
constexpr std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float from_bf16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

}  // namespace um
