#include "core/address_hazards.hpp"

namespace um {

address_hazards::address_hazards(const lifetime_table& table, const layout& at, hazards& waits)
    : table_(table), at_(at), waits_(waits), before_(table.all.size()) {}

void address_hazards::use(std::uint32_t l) {
  const lifetime& held = table_.all[l];
  address_users& arena = held.managed ? managed_ : device_;
  const range bytes{at_.offset[l], held.bytes};
  if (!before_[l]) before_[l] = arena.of(bytes);
  waits_.use(arena, bytes, *before_[l]);
}

void address_hazards::use(const strip_use& u) {
  for (const std::uint32_t l : u.held) use(l);
}

void address_hazards::give_up(tensor_id t, const std::vector<range>& what, lane where, std::int32_t step) {
  for (const std::uint32_t l : table_.of_tensor[t]) {
    if (before_[l]) use(l);  // a part that nobody has used in this lifetime: others' users may still run
    managed_.add({at_.offset[l], table_.all[l].bytes}, where, step);
  }
  for (const range& r : what) gone_.add(r, where, step);
}

void address_hazards::wait_until_gone(const range& r) {
  waits_.wait_for(gone_.of(r));
}

}  // namespace um
