// Enumerations whose values have names in files and messages. One table each, beside the enumeration:
//
// template <> inline constexpr std::array enum_names<lane>{"compute"sv, "to_device"sv, "to_host"sv};
//
// to_text(), all_values() and all readers of such names use it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace um {

using namespace std::string_view_literals;

// The names of an enumeration's values, which count from 0, in order.
template <class E>
inline constexpr std::array<std::string_view, 0> enum_names{};

template <class E>
concept named_enum = !enum_names<E>.empty();

// The name of a value. Throws std::out_of_range if it has none.
template <named_enum E>
constexpr std::string_view to_text(E value) {
  return enum_names<E>.at(static_cast<std::size_t>(value));
}

// All values of an enumeration, in order.
template <named_enum E>
constexpr std::array<E, enum_names<E>.size()> all_values() {
  std::array<E, enum_names<E>.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<E>(i);
  return all;
}

}  // namespace um
