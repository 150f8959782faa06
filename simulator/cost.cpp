#include "simulator/cost.hpp"

#include <stdexcept>
#include <string>

namespace um {

nanoseconds time_for(std::uint64_t amount, std::uint64_t per_second, const machine& on,
                     std::string_view rate_name) {
  if (amount == 0) return 0;
  if (per_second == 0) {
    throw std::invalid_argument("machine " + on.name + " has no " + std::string(rate_name) +
                                ", which this plan needs: add it to the machine's file");
  }
  return time_at(amount, per_second);
}

}  // namespace um
