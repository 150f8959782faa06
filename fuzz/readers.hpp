// Every reader of text from outside, as a function that must survive any input.
#pragma once

#include <span>
#include <string_view>

namespace um {

// Reads `text`: it is refused (input_error, then false), or what is read is written and read back as the same
// text. Anything else is a defect, and aborts.
struct fuzzed_reader {
  std::string_view name;
  bool (*bear)(std::string_view text);
};
std::span<const fuzzed_reader> fuzzed_readers();

// nullptr if there is none of that name.
const fuzzed_reader* fuzzed_reader_named(std::string_view name);

}  // namespace um
