#include "core/errors.hpp"
#include "schedule/milp/mixed_program.hpp"

namespace um {

bool can_solve_mixed() {
  return false;
}

mixed_solution minimum_of(const mixed_program&, const mixed_effort&, std::span<const mixed_program::term>) {
  throw unsupported(how_to_get_highs);
}

}  // namespace um
