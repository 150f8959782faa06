#include "harness/records/text.hpp"

#include <algorithm>

namespace um {

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

std::string first_sentence(std::string_view text, std::size_t most) {
  std::string_view first = text.substr(0, text.find(". "));
  if (first.size() <= most) return std::string(first);
  first = first.substr(0, most);
  return std::string(first.substr(0, first.rfind(' '))) + " ...";
}

}  // namespace um
