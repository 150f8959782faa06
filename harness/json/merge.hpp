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

// The entries of a file with all parts. If all parts have the same environment they are in the order of an
// undivided sweep (`--shard I/N` distributes cells in turn), else part after part. A cell that is in several
// parts appears once, with its result if one part has a result. Digests are checked again across the parts.
// Throws input_error for a cell with two different results.
std::vector<file_entry> merge_parts(std::vector<part> parts);

}  // namespace um
