#include "harness/json/parts.hpp"

namespace um {

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
