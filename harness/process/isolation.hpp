// Runs each cell in its own process and turns the process's end into a record.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "harness/process/child.hpp"
#include "harness/study/environment.hpp"
#include "harness/study/record.hpp"

namespace um {

// Starts the cell's process, which writes the record to its standard output. Its deadline is that of the
// experiment, in processor time if simulated. Returns false if the limit of processes or descriptors is
// reached while other processes of the pool run. Throws what child_pool::start() throws. For tests, the
// environment variable UMBENCH_TEST_CELL, "HOW:TEXT", makes the cells fail whose key contains TEXT. HOW is
// abort, memory (allocations fail), hang, or sleep (the parent takes it to be in uninterruptible sleep). With
// late_HOW the cell reports its times before it fails, like a cell that fails while it counts.
bool start_cell(child_pool& pool, std::size_t id, const cell& work);

// The record of a cell whose process has ended. A process that failed while counting keeps its times.
record record_of(const cell& work, const child_report& report);

// Runs cells, `jobs` at a time. Calls `ended` with the index of each, in the order in which they end. Returns
// false if a stop signal came first.
using cell_end_callback = std::function<void(std::size_t index, record r, const child_report& report)>;
// `meanwhile` is called twice a second or more often.
bool run_cells(std::span<const cell> cells, std::size_t jobs, signal_watch& signals,
               const cell_end_callback& ended, const std::function<void()>& meanwhile = {});
// Runs cells and returns their records in order; nothing if a stop signal came. Calls `ended` with each.
std::optional<std::vector<record>> run_and_collect(std::span<const cell> cells, std::size_t jobs,
                                                   signal_watch& signals,
                                                   const std::function<void()>& meanwhile,
                                                   const std::function<void(const record&)>& ended = {});

// Collects the facts of GPU `device` in a child. Throws input_error if there is no such GPU or no CUDA
// backend.
gpu_facts ask_for_gpu(signal_watch& signals, int device);

}  // namespace um
