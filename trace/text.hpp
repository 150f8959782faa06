// JSON, as far as the lines of a trace need it.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/records.hpp"

namespace um::tracing {

std::string quoted(std::string_view text);

// `"kind":"name"`, which every line begins with.
std::string kind(std::string_view name);

// `,"name":value`
template <std::integral Number>
std::string field(const char* name, Number value) {
  return std::string(",\"") + name + "\":" + std::to_string(value);
}
std::string field(const char* name, std::string_view text);
// A GPU's number, or "host".
std::string device_field(std::uint32_t device);

}  // namespace um::tracing
