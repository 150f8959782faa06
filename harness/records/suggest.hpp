// Errors that a user can mend, and the words that help to mend them.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace um {

// Bad usage or bad input: what() is one line that names the offender and the mend. Exit code 2.
struct input_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `unknown network "vgg61"; did you mean vgg16? Known: alexnet, vgg16`. The question appears only
// where a known name is near.
std::string unknown_name(std::string_view kind, std::string_view given, std::span<const std::string> known);

// The known name that begins with `given`, else the one that is fewest single-letter edits away from it,
// small and capital letters alike; "" if none is near.
std::string nearest(std::string_view given, std::span<const std::string> known);

// Control characters and line breaks become spaces, so that foreign text stays one line.
std::string one_line(std::string_view text);

}  // namespace um
