// Runs the cells of a sweep in child processes and keeps their records.
#pragma once

#include <cstdio>
#include <optional>
#include <span>
#include <vector>

#include "harness/json/record_file.hpp"
#include "harness/process/child.hpp"
#include "harness/study/environment.hpp"

namespace um {

struct sweep_settings {
  std::size_t jobs = 1;
  bool run_all = false;  // also what is tighter than a cell that timed out, and what hung before
};

struct sweep_result {
  std::vector<record> records;      // records of all cells, earlier ones included, in the sweep's order
  std::size_t failed = 0;           // neither ok nor infeasible
  std::optional<int> stopped_by;    // the signal; then `records` is not complete
  std::optional<std::string> hung;  // the key of a cell that hangs in the kernel; the same
};

// The earlier record that makes running the cell again needless: ok or infeasible, the same number
// of iterations, a timeline if one is asked for. nullptr if there is none.
const record* finished_record(const std::vector<record>& earlier, const cell& c);

// The last record of the cell, whatever its outcome.
const record* last_record(const std::vector<record>& earlier, const cell& c);

// Throws input_error if the file's records went by other figures of one of the cells' machines, or by other
// rules of one of their strategies.
void check_settings(std::span<const cell> cells, const record_file& file);

// Cells that `file` does not hold yet run `jobs` at a time; their records are appended in the order
// of `cells`, each before its line appears on `progress`. `here` goes before the first of them,
// unless the file's last environment is the same. Once a cell has timed out, tighter ones of its line
// are recorded without running them; once one hangs in the kernel, no other is started. Throws append_error.
sweep_result run_sweep(const std::vector<cell>& cells, const sweep_settings& settings, record_file& file,
                       const environment& here, signal_watch& signals, std::FILE* progress);

}  // namespace um
