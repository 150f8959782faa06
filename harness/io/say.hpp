// Messages for users. A message that cannot be written is dropped: a full disk or a closed reader ends
// nothing.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace um {

// Message for out-of-memory; must not allocate.
inline constexpr const char* no_memory = "umbench: memory does not suffice for what is asked for\n";

template <class... T>
void print_to(std::FILE* to, fmt::format_string<T...> format, T&&... values) {
  const std::string text = fmt::format(format, std::forward<T>(values)...);
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

// Prints to standard error.
template <class... T>
void print_text(fmt::format_string<T...> format, T&&... values) {
  print_to(stderr, format, std::forward<T>(values)...);
}

}  // namespace um
