// A CUPTI that a test drives: it says when a context is made, what moves and what time it is.
#pragma once

#include <cstdint>

extern "C" {
void fake_time(std::uint64_t ns);
void fake_context(std::uint32_t device);
// Told at the next flush, if Unified Memory is counted.
void fake_move(std::uint32_t count, std::uint64_t address, std::uint64_t bytes_each);
void fake_kernel(std::uint64_t begin, std::uint64_t end, const char* name);
bool fake_counts();
bool fake_counts_faults();     // whether it was last told to count the faults of GPUs
std::uint32_t fake_waiting();  // records that no flush has told yet
}
