#include "core/homes.hpp"

#include <algorithm>

namespace um {

home_addresses home_addresses_of(const graph& g, const memory_plan& plan, const lifetime_table& table,
                                 const layout& at) {
  home_addresses all;
  all.pinned_offset.assign(g.tensors.size(), 0);
  std::vector<bool> leaves(g.tensors.size(), false);
  for (const action& a : plan.actions) {
    if (const auto* e = std::get_if<evict>(&a)) leaves[e->tensor] = true;
  }
  const auto last = static_cast<std::uint32_t>(plan.actions.empty() ? 0 : plan.actions.size() - 1);
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const residence home = plan.residences[t];
    const bool pinned = is_pinned(home), has_twin = leaves[t] || persists(g.tensors[t].role);
    if (pinned && (home != residence::twinned || has_twin)) {
      all.pinned_offset[t] = all.pinned_bytes;
      all.pinned_bytes += round_up(bytes_of(g.tensors[t]), arena_alignment);
    }
    const auto place = [&](std::uint32_t now) -> address {
      if (pinned) return {space::pinned, all.pinned_offset[t]};
      const auto l = std::ranges::find_if(table.by_tensor[t], [&](std::uint32_t i) {
        return table.lifetimes[i].begin <= now && now < table.lifetimes[i].end;
      });
      if (l == table.by_tensor[t].end()) return {};
      return {home == residence::managed ? space::managed : space::device, at.offsets[*l]};
    };
    all.at_start.push_back(place(0));
    all.at_end.push_back(place(last));
  }
  return all;
}

}  // namespace um
