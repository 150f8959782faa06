// Paragraphs for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace um {

inline constexpr std::size_t page_width = 100;

// Broken between words so that lines keep to `width` columns; each but the first begins with `indent` spaces,
// for which the first is taken to have been given room by its caller. No line break at the end.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = page_width);

// Its first sentence, cut at a word where that is longer than `most`.
std::string first_sentence(std::string_view text, std::size_t most);

}  // namespace um
