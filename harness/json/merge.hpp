// Merges record files of parts of one sweep.
#pragma once

#include <variant>
#include <vector>

#include "harness/json/record_file.hpp"

namespace um {

// The contents of one part's file: the last record of each cell, in the order of first appearance, each with
// its environment.
struct part_entry {
  environment recorded_environment;
  record entry;
};
using part = std::vector<part_entry>;
part part_from_file(const record_file& file);

using file_entry = std::variant<environment, record>;

// The entries of a file that holds all parts: where every cell was made in the same environment, in the order
// of an undivided sweep (`--shard I/N` deals cells out in turn), else part after part. A cell in several
// parts counts once: a result outweighs a failure. Digests are checked anew across the parts. Throws
// input_error for a cell with two different results.
std::vector<file_entry> merge_parts(std::vector<part> parts);

}  // namespace um
