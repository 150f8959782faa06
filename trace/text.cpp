#include "trace/text.hpp"

#include <array>
#include <cstdio>

namespace um::tracing {

// Bytes that are not ASCII pass: names are UTF-8, and where they are not a reader replaces them.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string kind(std::string_view name) {
  return "\"kind\":" + quoted(name);
}

std::string field(const char* name, std::string_view text) {
  return std::string(",\"") + name + "\":" + quoted(text);
}

std::string device_field(std::uint32_t device) {
  return device == host ? field("device", "host") : field("device", device);
}

}  // namespace um::tracing
