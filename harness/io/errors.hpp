// The error of bad usage and bad input.
#pragma once

#include <stdexcept>

namespace um {

// what() is one line that names the bad input and its remedy. Leads to exit code 2.
struct input_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace um
