#include "harness/io/numbers.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <vector>

#include "harness/io/errors.hpp"
#include "harness/io/text.hpp"

namespace um {
namespace {

std::string quote(std::string_view text) {
  return fmt::format("\"{}\"", one_line(text.substr(0, 80)));
}

}  // namespace

std::int64_t parse_whole_number(std::string_view option, std::string_view text, std::int64_t min_value,
                                std::int64_t max_value) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < min_value || value > max_value) {
    throw input_error(
        fmt::format("{}: {} is not a whole number from {} to {}", option, quote(text), min_value, max_value));
  }
  return value;
}

double parse_real_number(std::string_view option, std::string_view text, double min_value, double max_value) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // The condition is false for NaN, too.
  const bool good =
      error == std::errc{} && end == text.data() + text.size() && value >= min_value && value <= max_value;
  if (!good) {
    throw input_error(
        fmt::format("{}: {} is not a number from {} to {}", option, quote(text), min_value, max_value));
  }
  return value;
}

void throw_unknown_value(std::string_view option, std::string_view text,
                         std::span<const std::string_view> known) {
  const std::vector<std::string> names(known.begin(), known.end());
  throw input_error(fmt::format("{}: {}", option, unknown_name("value", text, names)));
}

std::optional<byte_count> parse_positive_size(std::string_view text) {
  const auto bytes = parse_bytes(text);
  const bool good = bytes && *bytes > 0 && *bytes <= std::numeric_limits<std::int64_t>::max();
  return good ? bytes : std::nullopt;
}

byte_count parse_size(std::string_view option, std::string_view text) {
  const auto bytes = parse_positive_size(text);
  if (!bytes) {
    throw input_error(fmt::format("{}: {} is not a size below 2^63 bytes; write for example 4GiB or 512MB",
                                  option, quote(text)));
  }
  return *bytes;
}

std::pair<std::string, std::int64_t> parse_assignment(std::string_view option, std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw input_error(fmt::format("{}: {} is not of the form name=value", option, quote(text)));
  }
  const std::string name(text.substr(0, equals));
  const std::string where = fmt::format("{} {}", option, name);
  return {name, parse_whole_number(where, text.substr(equals + 1), std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max())};
}

}  // namespace um
