// Hazards between tensors that share addresses: a step that uses bytes of an arena waits for all earlier
// steps that used these bytes, also for other tensors.
#pragma once

#include <optional>
#include <vector>

#include "core/hazards.hpp"
#include "core/layout.hpp"

namespace um {

class address_hazards {
 public:
  // Keeps references. Adds the waits of the current step to `waits`.
  address_hazards(const lifetime_table& table, const layout& at, hazards& waits);

  // The step uses the addresses of a lifetime: it waits for the steps that used them before the lifetime.
  void use_addresses(std::uint32_t lifetime);
  void use_addresses(const strip_use& u);

  // Records that a step moves ranges of a managed tensor, which uses their addresses even if the tensor is
  // dead or left from the iteration before. Data comes in only after the data released at its addresses has
  // left.
  void release_addresses(tensor_id t, const std::vector<range>& what, lane where, std::int32_t step);
  void wait_for_release(const range& r);

 private:
  const lifetime_table& table_;
  const layout& layout_;
  hazards& hazards_;
  std::vector<std::optional<last_steps>>
      previous_users_;  // per lifetime that has been used: steps that used its addresses before it
  address_users device_, managed_;
  address_users releases_;  // per byte of the managed arena: steps that released it
};

}  // namespace um
