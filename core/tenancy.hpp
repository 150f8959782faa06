// Whose addresses were whose before: what a step waits for because it takes bytes of an arena, whatever
// tensor they held.
#pragma once

#include <optional>
#include <vector>

#include "core/hazards.hpp"
#include "core/layout.hpp"

namespace um {

class tenancy {
 public:
  // Keeps references. `waits` learns, for the step that it is at, whom to wait for.
  tenancy(const lifetime_table& table, const layout& at, hazards& waits);

  // The step uses the addresses of a lifetime: it waits for those who used them before the lifetime's first
  // use.
  void use(std::uint32_t lifetime);
  void use(const strip_use& u);

  // A movement of a managed tensor's ranges is a use of its addresses, also of one that is dead or left from
  // the iteration before. Data comes in only once what was given up at its addresses is gone.
  void give_up(tensor_id t, const std::vector<range>& what, lane where, std::int32_t step);
  void wait_until_gone(const range& r);

 private:
  const lifetime_table& table_;
  const layout& at_;
  hazards& waits_;
  std::vector<std::optional<last_steps>> before_;  // per lifetime, from its first use on
  address_users device_, managed_;
  address_users gone_;  // of the managed arena: those that gave it up
};

}  // namespace um
