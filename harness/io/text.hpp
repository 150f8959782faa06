// Text for users: lines, paragraphs, and messages about unknown names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace um {

inline constexpr std::size_t page_width = 100;

// Replaces control characters and line breaks by spaces.
std::string one_line(std::string_view text);

// Breaks lines between words at `width` columns and indents each but the first by `indent` spaces; the caller
// has indented the first. No line break at the end.
std::string wrap_text(std::string_view text, std::size_t indent, std::size_t width = page_width);

// The first sentence, cut between words if it is longer than `max_length`.
std::string first_sentence(std::string_view text, std::size_t max_length);

// The known name most similar to `given`, ignoring case: one that begins with it, else the longest with which
// it begins, else the one with the fewest single-letter edits; "" if none is similar.
std::string nearest_name(std::string_view given, std::span<const std::string> known);

// `unknown network "vgg61"; did you mean vgg16? Known: alexnet, vgg16`. The question appears only if a known
// name is similar.
std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> known);

}  // namespace um
