// Runs calls of the library on a GPU.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/session.hpp"
#include "ooc/one_call.hpp"

namespace um::ooc {

// The device that is current when it is made; engines are searched for briefly.
class calling {
 public:
  calling();
  // The parts it went in. `budget` 0: 90 % of what is free. Throws infeasible, unsupported, out_of_memory,
  // cuda_error, or std::invalid_argument.
  std::size_t run(const one_call& call, byte_count budget);

 private:
  session on_;
  machine figures_;
};

}  // namespace um::ooc
