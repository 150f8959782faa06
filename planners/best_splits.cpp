#include "planners/best_splits.hpp"

#include <algorithm>
#include <array>

#include "core/layout.hpp"

namespace um {
namespace {

// Numbers of micro-batches to try. More parts of common batches do not fill a GPU.
constexpr std::array micro_batches{2U, 3U, 4U, 6U, 8U, 12U, 16U, 24U, 32U};
// Maximum number of computes of an order that is cut. A search takes about 20 kB for each, and planning may
// use 500 MB.
constexpr std::size_t max_computes_of_order = 16'000;
// An operator belongs to a region if its operands take more than one part in this many of the footprint or of
// the budget. A region is cut until its operands take at most half of that.
constexpr std::array<byte_count, 3> region_shares{6, 20, 64};
constexpr std::array<byte_count, 3> extra_region_shares{4, 12, 32};
constexpr std::array<byte_count, 2> region_shares_of_budget{4, 16};
constexpr std::uint32_t max_parts = 64;
// Maximum number of operators between two regions that are joined into one.
constexpr op_id max_ops_between = 8;

bool can_split_any(const graph& g, std::uint32_t k) {
  return std::ranges::any_of(g.ops, [&](const op& o) { return can_split_batch(g, o, k); });
}

byte_count activation_and_workspace_bytes(const problem& p, op_id o) {
  const graph& g = p.network;
  byte_count bytes = p.operator_costs[o].workspace_bytes;
  for (const auto* side : {&g.ops[o].in, &g.ops[o].out}) {
    for (const tensor_id t : *side) {
      if (!belongs_to_parameter(g.tensors[t].role)) bytes += bytes_of(g.tensors[t]);
    }
  }
  return bytes;
}

// Whether splitting into `k` parts lowers the maximum of operators' activation and workspace bytes by a
// tenth. Otherwise micro-batches between operators that need the whole batch save little.
bool lowers_max_operands(const problem& p, std::uint32_t k) {
  byte_count whole = 0, cut = 0;
  for (op_id o = 0; o < p.network.ops.size(); ++o) {
    const byte_count bytes = activation_and_workspace_bytes(p, o);
    whole = std::max(whole, bytes);
    cut = std::max(cut, can_split_batch(p.network, p.network.ops[o], k) ? bytes / k : bytes);
  }
  return cut < whole / 10 * 9;
}

void add_micro_batches(const problem& p, const std::vector<op_id>& deferred, std::vector<loop_nest>& all,
                       std::string& why) {
  const graph& g = p.network;
  for (const std::uint32_t k : micro_batches) {
    if (batch_size(g) % k != 0 || k * g.ops.size() > max_computes_of_order || !can_split_any(g, k)) continue;
    loop_nest by{k, {}, deferred};
    try {
      if (why.empty()) make_order(g, by);
    } catch (const infeasible& refused) {
      why = std::string("; ") + refused.what();
    }
    if (!why.empty() && !lowers_max_operands(p, k)) continue;
    if (!why.empty()) by = {1, {{0, static_cast<op_id>(g.ops.size()), k}}, deferred};
    all.push_back(std::move(by));
  }
}

// Runs of operators whose operands take more than `most` bytes and that can be split.
std::vector<batch_loop> regions_above(const problem& p, byte_count most, const std::vector<op_id>& deferred) {
  const graph& g = p.network;
  std::vector<batch_loop> all;
  for (op_id o = 0; o < g.ops.size(); ++o) {
    const byte_count bytes = activation_and_workspace_bytes(p, o);
    if (bytes <= most || std::ranges::find(deferred, o) != deferred.end()) continue;
    std::uint32_t parts = 2;
    while (parts < max_parts && bytes / parts > most / 2) parts *= 2;
    while (parts > 1 && !can_split_batch(g, g.ops[o], parts)) parts /= 2;
    if (parts < 2) continue;
    const bool joins = !all.empty() && o - all.back().end <= max_ops_between;
    if (!joins) all.push_back({o, o + 1, parts});
    all.back().end = o + 1;
    all.back().parts = std::max(all.back().parts, parts);
  }
  return all;
}

// Adds an order with these regions, unless it has none, is too long or is there already.
void add_regions(const problem& p, loop_nest regions, std::vector<loop_nest>& all) {
  std::size_t computes = p.network.ops.size();
  for (const batch_loop& x : regions.inner_loops) computes += (x.end - x.begin) * (x.parts - 1);
  if (!regions.inner_loops.empty() && computes <= max_computes_of_order &&
      std::ranges::find(all, regions) == all.end())
    all.push_back(std::move(regions));
}

// Adds these regions in half as many parts, which take less time and more memory. Returns whether that is
// new.
bool add_coarser(std::vector<loop_nest>& all, loop_nest regions) {
  for (batch_loop& x : regions.inner_loops) x.parts = std::max(x.parts / 2, 2U);
  if (regions.inner_loops.empty() || std::ranges::find(all, regions) != all.end()) return false;
  all.push_back(std::move(regions));
  return true;
}

}  // namespace

std::vector<batch_split> splits_of(const problem& p, const split_request& what, std::string& why) {
  const std::vector<op_id> deferred = ops_with_large_parameter_gradients(p.network);
  std::vector<loop_nest> all = whole_operator_nests(p.network);
  std::size_t fixed = all.size();
  if (!what.same_bits) {
    // A search for many budgets would have too little work for regions of other orders.
    const std::vector<loop_nest> whole(all.begin(), what.budget_independent ? all.begin() + 1 : all.end());
    add_micro_batches(p, deferred, all, why);
    const auto add = [&](byte_count most) {
      for (const loop_nest& by : whole)
        add_regions(p, {1, regions_above(p, most, by.deferred), by.deferred}, all);
    };
    const byte_count footprint = footprint_of(p.network, p.operator_costs).total;
    for (const byte_count share : region_shares) add(footprint / share);
    fixed = all.size();
    if (what.budget_independent) {
      for (const byte_count share : extra_region_shares) add(footprint / share);
      fixed = all.size();
    } else {
      for (const byte_count share : region_shares_of_budget) add(p.budget / share);
    }
  }
  std::vector<std::optional<std::size_t>> finer(all.size());
  for (std::size_t i = 0, count = all.size(); i < count && what.also_coarser; ++i) {
    if (add_coarser(all, all[i])) finer.emplace_back(i);
  }
  std::vector<batch_split> splits;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool depends_on_budget = i >= fixed;
    if (what.also_without_swaps)
      splits.push_back({all[i], false, memory_waits::for_all, depends_on_budget, finer[i]});
    splits.push_back({all[i], true, memory_waits::for_all, depends_on_budget, finer[i]});
    if (what.with_both_waits)
      splits.push_back({all[i], true, memory_waits::until_enough, depends_on_budget, finer[i]});
  }
  return splits;
}

}  // namespace um
