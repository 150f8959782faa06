#include "hints/slices.hpp"

#include <algorithm>

namespace um {
namespace {

byte_count activation_bytes(const graph& g, const op& o) {
  byte_count bytes = 0;
  for (const auto* side : {&o.in, &o.out}) {
    for (const tensor_id t : *side)
      bytes += belongs_to_parameter(g.tensors[t].role) ? 0 : bytes_of(g.tensors[t]);
  }
  return bytes;
}

// Whether all large activations of the loop are cut at block borders, so that each part can be evicted alone.
bool cuts_at_block_borders(const graph& g, const batch_loop& r, std::uint32_t parts) {
  for (op_id o = r.begin; o < r.end; ++o) {
    for (const auto* side : {&g.ops[o].in, &g.ops[o].out}) {
      for (const tensor_id t : *side) {
        const byte_count bytes = bytes_of(g.tensors[t]);
        if (belongs_to_parameter(g.tensors[t].role) || bytes < parts * managed_block) continue;
        if (bytes % (parts * managed_block) != 0) return false;
      }
    }
  }
  return true;
}

// Chooses the number of slices: a divisor of the batch of at least `least`, so that slices have equal size.
// Prefers one up to four times `least` that cuts at block borders.
std::uint32_t choose_part_count(const graph& g, const batch_loop& r, std::uint32_t least) {
  const auto images = static_cast<std::uint32_t>(g.tensors[g.ops[r.begin].out.front()].shape.n);
  std::uint32_t first = 0;
  for (std::uint32_t parts = least; parts <= std::min(4 * least, images); ++parts) {
    if (images % parts != 0) continue;
    if (first == 0) first = parts;
    if (cuts_at_block_borders(g, r, parts)) return parts;
  }
  return first == 0 ? std::min(least, images) : first;
}

bool has_accumulation(const graph& g, const batch_loop& r) {
  for (op_id o = r.begin; o < r.end; ++o) {
    const auto touched =
        accesses_of(g, g.ops[o], batch_part(images_of_op(g, g.ops[o]), r.parts - 1, r.parts));
    if (std::ranges::any_of(touched, [](const access& a) { return a.mode == access_mode::accumulate; }))
      return true;
  }
  return false;
}

// Whether an operator can run in slices; those that write an output of the network run whole.
bool can_be_sliced(const graph& g, const op& o, std::uint32_t parts) {
  return can_split_batch(g, o, parts) &&
         std::ranges::none_of(o.out, [&](tensor_id t) { return g.tensors[t].role == role::output; });
}

std::vector<batch_loop> loops_of_large_ops(const graph& g, byte_count max_bytes) {
  std::vector<batch_loop> all;
  std::uint32_t least = 1;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const byte_count bytes = activation_bytes(g, g.ops[o]);
    const auto images = static_cast<byte_count>(g.tensors[g.ops[o].out.front()].shape.n);
    const auto parts = static_cast<std::uint32_t>(std::min((bytes + max_bytes - 1) / max_bytes, images));
    if (parts < 2 || !can_be_sliced(g, g.ops[o], parts)) continue;
    const bool joins = !all.empty() && all.back().end == o;
    least = joins ? std::max(least, parts) : parts;
    if (!joins) all.push_back({o, o, 1, false});
    all.back().end = o + 1;
    all.back().parts = choose_part_count(g, all.back(), least);
  }
  return all;
}

}  // namespace

std::vector<compute> make_sliced_order(const graph& g, byte_count max_bytes) {
  loop_nest sliced;
  for (batch_loop r : loops_of_large_ops(g, std::max<byte_count>(max_bytes, 1))) {
    const bool can = std::ranges::all_of(g.ops.begin() + r.begin, g.ops.begin() + r.end,
                                         [&](const op& o) { return can_be_sliced(g, o, r.parts); });
    if (!can || r.parts < 2) continue;
    r.descending = !has_accumulation(g, r);
    sliced.inner_loops.push_back(r);
  }
  return make_order(g, sliced);
}

}  // namespace um
