// The engines that were chosen for operators are kept on disk. A choice is timed once on a machine, and every
// later process runs the same engine. So results are equal to the bit, and engines never explain why one
// strategy is slower than another.
//
// The file has a line of JSON for each choice: {"engine", "key", "parts", "position", "time_ns",
// "workspace_bytes"}. Writers append under a lock, so that a choice costs the same in a large file. The first choice
// for a key stays; a line that replaces one that went stale comes later. Lines that cannot be read are
// skipped.
#pragma once

#include <filesystem>
#include <ios>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace um {

struct engine_choice {
  std::string engine;         // the library's own name for it; enough to find it again
  std::int64_t position = 0;  // in the library's list of candidates
  byte_count workspace_bytes = 0;
  nanoseconds time = 0;    // measured time of all parts, when it was chosen
  std::int64_t parts = 1;  // equal parts of the batch, computed one after the other
  friend bool operator==(const engine_choice&, const engine_choice&) = default;
};

// $XDG_CACHE_HOME/umbench/engines.jsonl, else ~/.cache/umbench/engines.jsonl.
std::filesystem::path standard_engine_cache();

// Returns the key of the choice for `problem` within a workspace, by a version of the search.
std::string engine_key(const std::string& problem, byte_count workspace_cap, const std::string& version);

class engine_cache {
 public:
  // A missing file counts as empty.
  explicit engine_cache(std::filesystem::path file);

  std::optional<engine_choice> find(const std::string& key) const;
  // Returns choices for `problem` within `workspace_cap` or more that fit it. The fastest engine within more
  // memory is also the fastest within less, if it fits.
  std::vector<engine_choice> find_within(const std::string& problem, byte_count workspace_cap,
                                         const std::string& version) const;

  // Stores the choice on disk unless another process stored one meanwhile, and returns the stored one.
  // `stale` is an earlier choice that no longer works and may be replaced.
  engine_choice store(const std::string& key, const engine_choice& choice,
                      const std::optional<engine_choice>& stale = {});

  const std::filesystem::path& file() const { return file_; }

 private:
  // Reads the lines that were appended since the last call.
  void read_new_lines();

  std::filesystem::path file_;
  std::map<std::string, engine_choice> engines_;
  std::streamoff bytes_read_ = 0;  // bytes of the file that were read, all of them whole lines
};

}  // namespace um
