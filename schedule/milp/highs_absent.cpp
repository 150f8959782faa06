#include "core/errors.hpp"
#include "schedule/milp/mixed_program.hpp"

namespace um {

bool has_mixed_solver() {
  return false;
}

mixed_solution minimize(const mixed_program&, const solver_limits&, std::span<const mixed_program::term>) {
  throw unsupported(how_to_get_highs);
}

}  // namespace um
