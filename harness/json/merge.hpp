// Record files of parts of one sweep -> the entries of the whole.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "harness/json/record_file.hpp"

namespace um {

// What one part's file holds: its records in the order of their first appearance, each as it was last
// and with the environment that it was made in.
struct part_entry {
  environment recorded_in;
  record what;
};
using part = std::vector<part_entry>;
part part_of(const record_file& file);

using file_entry = std::variant<environment, record>;

// The entries of a file that holds all parts: where every cell was made in the same environment, in the order
// of an undivided sweep (`--shard I/N` deals cells out in turn), else part after part. A cell in several
// parts counts once: a result outweighs a failure. Digests are checked anew across the parts. Throws
// input_error for a cell with two different results.
std::vector<file_entry> merged(std::vector<part> parts);

}  // namespace um
