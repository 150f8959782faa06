#include "core/homes.hpp"

#include <algorithm>

namespace um {

homes homes_of(const graph& g, const memory_plan& plan, const lifetime_table& table, const layout& at) {
  homes all;
  all.pinned.assign(g.tensors.size(), 0);
  std::vector<bool> leaves(g.tensors.size(), false);
  for (const action& a : plan.actions) {
    if (const auto* e = std::get_if<evict>(&a)) leaves[e->what] = true;
  }
  const auto last = static_cast<std::uint32_t>(plan.actions.empty() ? 0 : plan.actions.size() - 1);
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const residence home = plan.home[t];
    const bool pinned = is_pinned(home), has_twin = leaves[t] || persists(g.tensors[t].use);
    if (pinned && (home != residence::twinned || has_twin)) {
      all.pinned[t] = all.pinned_bytes;
      all.pinned_bytes += round_up(bytes_of(g.tensors[t]), arena_alignment);
    }
    const auto place = [&](std::uint32_t now) -> address {
      if (pinned) return {space::pinned, all.pinned[t]};
      const auto l = std::ranges::find_if(table.of_tensor[t], [&](std::uint32_t i) {
        return table.all[i].begin <= now && now < table.all[i].end;
      });
      if (l == table.of_tensor[t].end()) return {};
      return {home == residence::managed ? space::managed : space::device, at.offset[*l]};
    };
    all.at_start.push_back(place(0));
    all.at_end.push_back(place(last));
  }
  return all;
}

}  // namespace um
