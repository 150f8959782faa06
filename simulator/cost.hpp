// Time for work at one of a machine's rates, in integer nanoseconds.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/machine.hpp"

namespace um {

// Time for `amount` at a rate of `on`; 0 for amount 0, also where the rate is not known. Throws
// std::invalid_argument, naming the machine and the rate, if something is to be done and the rate
// is 0, or so low that the clock could overflow.
nanoseconds time_for(std::uint64_t amount, std::uint64_t per_second, const machine& on,
                     std::string_view rate_name);

}  // namespace um
