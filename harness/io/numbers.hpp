// Numbers and choices as users write them on a command line. Every function throws input_error naming the
// option for anything but a number within its limits, or one of the choices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/names.hpp"
#include "core/units.hpp"

namespace um {

std::int64_t parse_whole_number(std::string_view option, std::string_view text, std::int64_t min_value,
                                std::int64_t max_value);
double parse_real_number(std::string_view option, std::string_view text, double min_value, double max_value);
// A size of at least one byte that a JSON integer of 64 bits can hold; nothing for other texts.
std::optional<byte_count> parse_positive_size(std::string_view text);
// Parses a size such as "4GiB"; see parse_positive_size().
byte_count parse_size(std::string_view option, std::string_view text);
// Parses "name=value".
std::pair<std::string, std::int64_t> parse_assignment(std::string_view option, std::string_view text);

[[noreturn]] void throw_unknown_value(std::string_view option, std::string_view text,
                                      std::span<const std::string_view> known);
// Returns the enumerator of that name; throws for other text.
template <named_enum E>
E parse_choice(std::string_view option, std::string_view text) {
  const auto at = std::ranges::find(enum_names<E>, text);
  if (at != enum_names<E>.end()) return static_cast<E>(at - enum_names<E>.begin());
  throw_unknown_value(option, text, enum_names<E>);
}

}  // namespace um
