#include "schedule/uses.hpp"

#include <algorithm>
#include <utility>

#include "core/memory_plan.hpp"

namespace um {
namespace {

using image_range = std::pair<std::int64_t, std::int64_t>;

image_range image_range_of(const region& r) {
  return {r.batch.begin, r.batch.end};
}

// The accesses of every position of an order.
std::vector<std::vector<access>> accesses_of_order(const graph& g, const std::vector<compute>& order) {
  std::vector<std::vector<access>> all;
  all.reserve(order.size());
  for (const compute& c : order) all.push_back(accesses_of(g, c));
  return all;
}

void cut_into_parts(const graph& g, const std::vector<std::vector<access>>& touched, part_borders cut,
                    use_table& table) {
  std::vector<std::vector<std::int64_t>> borders(g.tensors.size());
  for (tensor_id t = 0; t < g.tensors.size(); ++t) borders[t] = {0, g.tensors[t].shape.n};
  for (const std::vector<access>& at : touched) {
    for (const access& a : at) {
      if (cut == part_borders::written && a.mode == access_mode::read) continue;
      const image_range r = image_range_of(a.where);
      for (const std::int64_t b : {r.first, r.second}) {
        if (b > 0 && b < g.tensors[a.tensor].shape.n) borders[a.tensor].push_back(b);
      }
    }
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    sort_and_remove_duplicates(borders[t]);
    table.first_part.push_back(static_cast<part_id>(table.parts.size()));
    const byte_count each = bytes_of(g.tensors[t]) / static_cast<byte_count>(g.tensors[t].shape.n);
    for (std::size_t i = 0; i + 1 < borders[t].size(); ++i) {
      const auto count = static_cast<byte_count>(borders[t][i + 1] - borders[t][i]);
      table.parts.push_back({t, borders[t][i], borders[t][i + 1], round_up(count * each, arena_alignment)});
    }
  }
  table.first_part.push_back(static_cast<part_id>(table.parts.size()));
}

void record_touch(std::vector<touched_part>& all, part_id which, access_mode mode) {
  const auto known = std::ranges::find(all, which, &touched_part::part);
  if (known == all.end()) {
    all.push_back({which, mode});
  } else if (known->mode == access_mode::read) {
    known->mode = mode == access_mode::write ? access_mode::accumulate : mode;
  }
}

bool is_gradient(role use) {
  return use == role::activation_gradient || use == role::parameter_gradient;
}

bool writes_gradient(const graph& g, const op& o) {
  return std::ranges::any_of(o.out, [&](tensor_id t) { return is_gradient(g.tensors[t].role); });
}

// Per part: the last position before which the part can be recomputed; -1: never. Its operator must be
// repeatable: it writes nothing that a user reads and accumulates nothing. Each of its inputs must start on
// the host unchanged, be recomputable, or have later uses: such an input is on the device or the host, since
// gaps that are not recomputable keep their part there.
std::vector<position> recompute_deadlines(const graph& g, const use_table& uses) {
  std::vector<position> again(uses.parts.size(), -1), available(uses.parts.size(), -1);
  std::vector<int> writes(uses.parts.size(), 0);
  const auto use_of = [&](part_id p) { return g.tensors[uses.parts[p].tensor].role; };
  const auto is_write = [](const use& u) { return u.mode != access_mode::read; };
  for (part_id p = 0; p < uses.parts.size(); ++p) {
    const std::vector<use>& all = uses.uses_of_part[p];
    writes[p] = static_cast<int>(std::ranges::count_if(all, is_write));
    if (persists(use_of(p))) {
      const auto first = std::ranges::find_if(all, is_write);
      available[p] = first == all.end() ? uses.end() : first->at;
    } else if (writes[p] == 1) {
      available[p] = survives(use_of(p)) ? uses.end() : all.back().at;
    }
  }
  for (position at = 0; at < uses.end(); ++at) {
    const std::vector<touched_part>& touched = uses.touched_by_recompute(at);
    position until = g.ops[uses.order[static_cast<std::size_t>(at)].op].is_repeatable ? uses.end() : -1;
    for (const touched_part& x : touched) {
      if (x.mode == access_mode::read) until = std::min(until, available[x.part]);
      if (x.mode != access_mode::read && (writes[x.part] != 1 || survives(use_of(x.part)))) until = -1;
    }
    for (const touched_part& x : touched) {
      if (x.mode == access_mode::read || until < 0) continue;
      again[x.part] = until;
      available[x.part] = std::max(available[x.part], until);
    }
  }
  return again;
}

// Position that wrote the value which the part holds after its use number `i`; -1: none.
position producer_of(const std::vector<use>& uses, std::size_t i) {
  for (std::size_t k = i + 1; k-- > 0;) {
    if (uses[k].mode != access_mode::read) return uses[k].at;
  }
  return -1;
}

void add_gaps_of_part(const graph& g, const use_table& table, part_id p, position until,
                      std::vector<gap>& all) {
  const std::vector<use>& uses = table.uses_of_part[p];
  const role what = g.tensors[table.parts[p].tensor].role;
  if (uses.empty()) return;
  if (persists(what)) all.push_back({p, -1, uses.front().at, true, false, -1});
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const bool ends = i + 1 == uses.size();
    if (ends && !survives(what)) continue;
    const position next = ends ? table.end() : uses[i + 1].at;
    if (!ends && next == uses[i].at + 1) continue;
    const position producer = producer_of(uses, i);
    all.push_back({p, uses[i].at, next, persists(what) && producer < 0,
                   g.shares_memory && producer >= 0 && next <= until, producer});
  }
}

}  // namespace

use_table make_use_table(const graph& g, std::vector<compute> order, part_borders cut) {
  use_table table;
  const auto parts_touched = [&](const std::vector<access>& by) {
    std::vector<touched_part> all;
    for (const access& a : by) {
      const image_range r = image_range_of(a.where);
      for (part_id p = table.first_part[a.tensor]; p < table.first_part[a.tensor + 1]; ++p) {
        if (table.parts[p].begin < r.second && r.first < table.parts[p].end) record_touch(all, p, a.mode);
      }
    }
    return all;
  };
  table.order = std::move(order);
  const std::vector<std::vector<access>> touched = accesses_of_order(g, table.order);
  cut_into_parts(g, touched, cut, table);
  table.uses_of_part.resize(table.parts.size());
  table.backward_begin = table.end();
  for (position at = 0; at < table.end(); ++at) {
    table.touched_parts.push_back(parts_touched(touched[static_cast<std::size_t>(at)]));
    for (const touched_part& x : table.touched_parts.back())
      table.uses_of_part[x.part].push_back({at, x.mode});
    const auto second = as_cheap_recomputation(g, table.order[static_cast<std::size_t>(at)]);
    table.recompute_touched_parts.push_back(second.cheap_recompute ? parts_touched(accesses_of(g, second))
                                                                   : std::vector<touched_part>());
    const op& o = g.ops[table.order[static_cast<std::size_t>(at)].op];
    if (table.backward_begin == table.end() && writes_gradient(g, o)) table.backward_begin = at;
  }
  return table;
}

bool keeps_memory(const graph& g, tensor_id t) {
  return !g.shares_memory || persists(g.tensors[t].role);
}

box box_of(const graph& g, const tensor_part& part) {
  region r = whole_of(g.tensors[part.tensor].shape);
  r.batch = {part.begin, part.end};
  return box_of(g.tensors[part.tensor].shape, r);
}

std::vector<gap> find_gaps(const graph& g, const use_table& uses) {
  std::vector<gap> all;
  const std::vector<position> until = recompute_deadlines(g, uses);
  for (part_id p = 0; p < uses.parts.size(); ++p) add_gaps_of_part(g, uses, p, until[p], all);
  return all;
}

bool spans_both_passes(const graph& g, const use_table& uses, const gap& x) {
  if (x.last_use < 0 || x.next_use >= uses.end() || uses.backward_begin == uses.end()) return false;
  const auto at = [&](position p) -> const op& { return g.ops[uses.order[static_cast<std::size_t>(p)].op]; };
  const op_id loss = uses.order[static_cast<std::size_t>(uses.backward_begin)].op;
  return uses.order[static_cast<std::size_t>(x.last_use)].op < loss && writes_gradient(g, at(x.next_use));
}

}  // namespace um
