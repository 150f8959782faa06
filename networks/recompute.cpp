#include "networks/recompute.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace um {
namespace {

constexpr std::int64_t most_products = 32;  // an element of a convolution's output

// --- how many bytes are alive when ---

constexpr std::int64_t never = -1;

// First and last operator that touches a tensor.
struct stretch {
  std::int64_t first = never, last = never;
};

std::vector<stretch> stretches_of(const graph& g) {
  std::vector<stretch> all(g.tensors.size());
  const auto end = static_cast<std::int64_t>(g.ops.size()) - 1;
  for (std::int64_t i = 0; i <= end; ++i) {
    const op& o = g.ops[static_cast<std::size_t>(i)];
    for (const auto* operands : {&o.in, &o.out}) {
      for (const tensor_id id : *operands) {
        stretch& s = all[id];
        if (s.first == never) s.first = i;
        s.last = i;
      }
    }
  }
  for (std::size_t id = 0; id < all.size(); ++id) {
    const role use = g.tensors[id].use;
    if (persists(use)) all[id].first = 0;
    if (survives(use) && all[id].first != never) all[id].last = end;
  }
  return all;
}

// Bytes alive while each operator runs. An output that takes an input's place is counted once.
std::vector<byte_count> live_bytes(const graph& g, const std::vector<byte_count>& size) {
  const std::vector<stretch> all = stretches_of(g);
  std::vector<byte_count> live(g.ops.size() + 1);
  for (std::size_t id = 0; id < all.size(); ++id) {
    if (all[id].first == never) continue;
    live[static_cast<std::size_t>(all[id].first)] += size[id];
    live[static_cast<std::size_t>(all[id].last) + 1] -= size[id];
  }
  for (std::size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.pop_back();
  for (std::size_t i = 0; i < g.ops.size(); ++i) {
    const op& o = g.ops[i];
    if (!o.alias) continue;
    const tensor_id from = o.in[o.alias->input], to = o.out[o.alias->output];
    const bool ends = all[from].last == static_cast<std::int64_t>(i) && !survives(g.tensors[from].use);
    if (from != to && ends && size[from] == size[to]) live[i] -= size[to];
  }
  return live;
}

std::vector<byte_count> sizes_of(const graph& g) {
  std::vector<byte_count> sizes;
  for (const tensor& t : g.tensors) sizes.push_back(round_up(bytes_of(t), arena_alignment));
  return sizes;
}

}  // namespace

byte_count peak_live_bytes(const graph& g) {
  const std::vector<byte_count> live = live_bytes(g, sizes_of(g));
  return live.empty() ? 0 : *std::ranges::max_element(live);
}

graph recompute_cheap(const graph& g) {
  return g;
}

}  // namespace um
