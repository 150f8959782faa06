// Exceptions that are results of an experiment, not defects of the program.
#pragma once

#include <stdexcept>

namespace um {

// Thrown if a machine lacks a feature that a plan uses; what() names it.
struct unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Thrown when an allocation fails; what() says how many bytes of which memory.
struct out_of_memory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown if a plan cuts a tensor into more parts than a plan can hold.
struct too_many_parts : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

}  // namespace um
