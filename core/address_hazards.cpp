#include "core/address_hazards.hpp"

namespace um {

address_hazards::address_hazards(const lifetime_table& table, const layout& at, hazards& waits)
    : table_(table), layout_(at), hazards_(waits), previous_users_(table.lifetimes.size()) {}

void address_hazards::use(std::uint32_t l) {
  const lifetime& held = table_.lifetimes[l];
  address_users& arena = held.managed ? managed_ : device_;
  const range bytes{layout_.offset[l], held.bytes};
  if (!previous_users_[l]) previous_users_[l] = arena.users_of(bytes);
  hazards_.use(arena, bytes, *previous_users_[l]);
}

void address_hazards::use(const strip_use& u) {
  for (const std::uint32_t l : u.lifetimes) use(l);
}

void address_hazards::release(tensor_id t, const std::vector<range>& what, lane where, std::int32_t step) {
  for (const std::uint32_t l : table_.by_tensor[t]) {
    if (previous_users_[l])
      use(l);  // not used yet in this lifetime: kernels that used what lay here before may still run
    managed_.add({layout_.offset[l], table_.lifetimes[l].bytes}, where, step);
  }
  for (const range& r : what) releases_.add(r, where, step);
}

void address_hazards::wait_for_release(const range& r) {
  hazards_.wait_for(releases_.users_of(r));
}

}  // namespace um
