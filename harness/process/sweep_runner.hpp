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
  bool ignores_earlier_failures =
      false;  // also run cells with less memory than one that timed out, and cells that hung before
};

struct sweep_result {
  std::vector<record> records;     // records of all cells, earlier ones included, in the sweep's order
  std::size_t failed = 0;          // number of cells whose outcome is neither ok nor infeasible
  std::optional<int> stop_signal;  // the stop signal; then `records` is incomplete
  std::optional<std::string>
      hung_cell;  // key of a cell that hangs in the kernel; then `records` is incomplete
};

// An earlier record of the cell that is ok or infeasible, with the same number of iterations and, if
// requested, a timeline, so that the cell need not run; else nullptr.
const record* finished_record(const std::vector<record>& earlier, const cell& c);

// The last record of the cell, whatever its outcome.
const record* last_record(const std::vector<record>& earlier, const cell& c);

// Throws input_error if the file's records used other figures of a cell's machine or other rules of its
// strategy.
void check_figures_and_rules(std::span<const cell> cells, const record_file& file);

// Runs the cells that `file` does not have yet, `jobs` at a time. Appends their records in the order of
// `cells`, each before its line is printed to `progress`. Appends `here` before the first of them, unless the
// file's last environment is the same. Once a cell has timed out, cells that differ from it only by a tighter
// budget are recorded without running them; once one hangs in the kernel, no other is started. Throws
// append_error.
sweep_result run_sweep(const std::vector<cell>& cells, const sweep_settings& settings, record_file& file,
                       const environment& here, signal_watch& signals, std::FILE* progress);

}  // namespace um
