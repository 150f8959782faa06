#include "core/address_hazards.hpp"

namespace um {

address_hazards::address_hazards(const lifetime_table& table, const layout& at, hazards& waits)
    : table_(table), layout_(at), hazards_(waits), previous_users_(table.lifetimes.size()) {}

void address_hazards::use_addresses(std::uint32_t l) {
  const lifetime& held = table_.lifetimes[l];
  address_users& arena = held.is_managed ? managed_ : device_;
  const range bytes{layout_.offsets[l], held.bytes};
  if (!previous_users_[l]) previous_users_[l] = arena.users_of(bytes);
  hazards_.use(arena, bytes, *previous_users_[l]);
}

void address_hazards::use_addresses(const strip_use& u) {
  for (const std::uint32_t l : u.lifetimes) use_addresses(l);
}

void address_hazards::release_addresses(tensor_id t, const std::vector<range>& what, lane where,
                                        std::int32_t step) {
  for (const std::uint32_t l : table_.by_tensor[t]) {
    if (previous_users_[l])
      use_addresses(l);  // first use in this lifetime: kernels that used these addresses before may still run
    managed_.record({layout_.offsets[l], table_.lifetimes[l].bytes}, where, step);
  }
  for (const range& r : what) releases_.record(r, where, step);
}

void address_hazards::wait_for_release(const range& r) {
  hazards_.wait_for(releases_.users_of(r));
}

}  // namespace um
