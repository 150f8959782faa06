#include "harness/json/parts.hpp"

#include <algorithm>
#include <limits>

namespace um {

pass pass_from(const json& value, const place& at) {
  return as_choice<pass>(value, at);
}
fusion fusion_from(const json& value, const place& at) {
  return as_choice<fusion>(value, at);
}
precision precision_from(const json& value, const place& at) {
  return as_choice<precision>(value, at);
}
memory_order memory_order_from(const json& value, const place& at) {
  return as_choice<memory_order>(value, at);
}

json knobs_json(const std::map<std::string, std::int64_t>& knobs) {
  json out = json::object();
  for (const auto& [name, value] : knobs) out[name] = value;
  return out;
}

std::map<std::string, std::int64_t> knobs_from(const json& value, const place& at) {
  if (!value.is_object()) refuse(at, "wants an object of knobs, such as {\"insize\": 224}");
  std::map<std::string, std::int64_t> knobs;
  for (const auto& [name, number] : value.items()) {
    knobs[name] =
        as_integer(number, inside(at, name), std::numeric_limits<std::int64_t>::min(), most_integer);
  }
  return knobs;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string_view::npos;
}

bool is_strategy_name(std::string_view name) {
  std::string plain(name);
  std::erase_if(plain, [](char c) { return c == '#' || c == ',' || c == '='; });
  return is_plain_name(plain) && is_plain_name(name.substr(0, 1));
}

}  // namespace um
