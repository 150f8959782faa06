// Units: bytes are unsigned 64-bit, times are signed 64-bit nanoseconds. All arithmetic that can overflow on
// user input goes through checked_*.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace um {

using byte_count = std::uint64_t;
using nanoseconds = std::int64_t;

inline constexpr byte_count KiB = 1024;
inline constexpr byte_count MiB = 1024 * KiB;
inline constexpr byte_count GiB = 1024 * MiB;

// The unit in which the UVM driver allocates device memory for managed memory (uvm_va_block_types.h).
inline constexpr byte_count managed_block = 2 * MiB;
// Every address inside an arena is a multiple of this, as cudaMalloc's are.
inline constexpr byte_count arena_alignment = 256;

constexpr byte_count round_up(byte_count value, byte_count multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr byte_count round_down(byte_count value, byte_count multiple) {
  return value / multiple * multiple;
}

// Product and sum, or nothing when the result does not fit.
std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b);
std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b);

// Time for `amount` units at `per_second` units per second, rounded up; 0 for amount 0.
// Integer arithmetic: the same on every compiler. Throws std::invalid_argument for rate 0.
nanoseconds time_at(std::uint64_t amount, std::uint64_t per_second);

// Parses a number of bytes such as "4GiB", "512 MB" or "1048576": decimal (kB, MB, GB, TB) and binary (KiB
// ... TiB) suffixes, an optional fraction ("1.5GiB"). Nothing for malformed, negative or overflowing text.
std::optional<byte_count> parse_bytes(std::string_view text);

// Formats with three significant digits and a binary suffix, such as "6.21 GiB".
std::string to_text(byte_count value);

}  // namespace um
