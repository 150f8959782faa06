#include "core/units.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <stdexcept>

namespace um {
namespace {

__extension__ using wide = unsigned __int128;

struct suffix {
  std::string_view text;
  std::uint64_t bytes;
};

constexpr std::array<suffix, 10> suffixes{{{"", 1},
                                           {"B", 1},
                                           {"kB", 1'000},
                                           {"MB", 1'000'000},
                                           {"GB", 1'000'000'000},
                                           {"TB", 1'000'000'000'000},
                                           {"KiB", KiB},
                                           {"MiB", MiB},
                                           {"GiB", GiB},
                                           {"TiB", 1024 * GiB}}};

std::optional<std::uint64_t> find_unit(std::string_view text) {
  for (const suffix& s : suffixes) {
    if (s.text == text) return s.bytes;
  }
  return std::nullopt;
}

std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

// 0.digits * unit, rounded down. Starts from the last digit, so it is exact at any length.
std::uint64_t fraction_of(std::string_view digits, std::uint64_t unit) {
  std::uint64_t value = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    value = (static_cast<std::uint64_t>(*digit - '0') * unit + value) / 10;
  }
  return value;
}

}  // namespace

std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

nanoseconds time_at(std::uint64_t amount, std::uint64_t per_second) {
  if (per_second == 0) throw std::invalid_argument("a rate of 0 per second takes for ever");
  const wide nano_amount = static_cast<wide>(amount) * 1'000'000'000;
  const wide time = (nano_amount + per_second - 1) / per_second;
  if (time > static_cast<wide>(std::numeric_limits<nanoseconds>::max())) {
    throw std::overflow_error("a time beyond 2^63 ns: " + std::to_string(amount) + " at " +
                              std::to_string(per_second) + " per second");
  }
  return static_cast<nanoseconds>(time);
}

std::optional<byte_count> parse_bytes(std::string_view text) {
  const std::string_view whole = take_digits(text);
  if (whole.empty()) return std::nullopt;
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
    if (fraction.empty()) return std::nullopt;
  }
  const bool spaced = text.starts_with(' ');
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (spaced && text.empty()) return std::nullopt;
  const auto unit = find_unit(text);
  if (!unit || (*unit == 1 && !fraction.empty())) return std::nullopt;
  std::uint64_t count = 0;
  if (std::from_chars(whole.data(), whole.data() + whole.size(), count).ec != std::errc{})
    return std::nullopt;
  const auto bytes = checked_multiply(count, *unit);
  return bytes ? checked_add(*bytes, fraction_of(fraction, *unit)) : std::nullopt;
}

std::string to_text(byte_count value) {
  if (value < 1000) return std::to_string(value) + " B";
  constexpr std::array<std::string_view, 6> units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double scaled = static_cast<double>(value) / 1024.0;
  std::size_t unit = 0;
  while (scaled >= 999.5 && unit + 1 < units.size()) {
    scaled /= 1024.0;
    ++unit;
  }
  const int decimals = scaled < 0.9995 ? 3 : scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f ", decimals, scaled);
  return std::string(text.data()).append(units[unit]);
}

}  // namespace um
