#include "core/liveness.hpp"

namespace um {

std::vector<std::optional<index_range>> touched_ranges(const graph& g) {
  std::vector<std::optional<index_range>> all(g.tensors.size());
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (const auto* operands : {&g.ops[o].in, &g.ops[o].out}) {
      for (const tensor_id t : *operands) {
        if (!all[t]) all[t] = index_range{o, o};
        all[t]->last = o;
      }
    }
  }
  return all;
}

std::vector<std::optional<index_range>> live_ranges(const graph& g) {
  std::vector<std::optional<index_range>> all = touched_ranges(g);
  if (g.ops.empty()) return all;
  const auto end = static_cast<op_id>(g.ops.size() - 1);
  for (tensor_id t = 0; t < all.size(); ++t) {
    const role use = g.tensors[t].role;
    if (persists(use)) all[t] = index_range{0, end};
    if (survives(use) && all[t]) all[t]->last = end;
  }
  return all;
}

std::vector<byte_count> sizes_in_arena(const graph& g) {
  std::vector<byte_count> sizes;
  for (const tensor& t : g.tensors) sizes.push_back(round_up(bytes_of(t), arena_alignment));
  return sizes;
}

std::vector<byte_count> live_bytes(const graph& g, const std::vector<byte_count>& size) {
  const std::vector<std::optional<index_range>> all = live_ranges(g);
  std::vector<byte_count> live(g.ops.size() + 1);
  for (tensor_id t = 0; t < all.size(); ++t) {
    if (!all[t]) continue;
    live[all[t]->first] += size[t];
    live[all[t]->last + 1] -= size[t];
  }
  for (std::size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.pop_back();
  for (op_id i = 0; i < g.ops.size(); ++i) {
    const op& o = g.ops[i];
    if (!o.alias) continue;
    const tensor_id from = o.in[o.alias->input], to = o.out[o.alias->output];
    const bool ends = all[from]->last == i && !survives(g.tensors[from].role);
    if (from != to && ends && size[from] == size[to]) live[i] -= size[to];
  }
  return live;
}

}  // namespace um
