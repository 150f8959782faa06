#include "core/memory_plan.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/errors.hpp"

namespace um {
namespace {

constexpr std::uint64_t most_cells = 65'536;

std::string part_suffix(const box& b) {
  return is_whole(b) ? "" : " " + to_text(b);
}

using borders = std::vector<std::int64_t>;

void add_borders(borders& to, const interval& i) {
  to.push_back(i.begin);
  to.push_back(i.end);
}

void add_borders(cell_grid& to, const region& r) {
  add_borders(to.batch, r.batch);
  add_borders(to.channel, r.channel);
  add_borders(to.row, r.row);
}

// Indices [begin, end) of the parts between borders that an interval overlaps.
std::pair<std::uint32_t, std::uint32_t> indices_between(const borders& b, const interval& i) {
  const auto begin = std::ranges::upper_bound(b, i.begin) - b.begin() - 1;
  const auto end = std::ranges::lower_bound(b, i.end) - b.begin();
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

std::uint32_t part_count(const borders& b) {
  return static_cast<std::uint32_t>(b.size() - 1);
}

}  // namespace

std::optional<op> cheap_recomputation_of(const op& o) {
  const auto* const first = std::get_if<batch_norm>(&o.attributes.value);
  if (first == nullptr) return std::nullopt;
  op second{o.name, normalize{first->relu, first->relu6}, o.in, {o.out[0]}, o.is_repeatable, {}};
  second.in.insert(second.in.begin() + 3, {o.out[1], o.out[2]});
  return second;
}

op operator_of(const graph& g, const compute& c) {
  const op& first = g.ops[c.op];
  if (!c.cheap_recompute) return first;
  if (std::optional<op> second = cheap_recomputation_of(first)) return *std::move(second);
  throw std::invalid_argument("operator " + first.name + " (" + std::string(kind_of(first.attributes)) +
                              ") takes nothing from the first time when it is computed again");
}

std::vector<access> accesses_of(const graph& g, const compute& c) {
  return c.cheap_recompute ? accesses_of(g, operator_of(g, c), c.part) : accesses_of(g, g.ops[c.op], c.part);
}

compute as_cheap_recomputation(const graph& g, compute c) {
  c.cheap_recompute = cheap_recomputation_of(g.ops[c.op]).has_value();
  return c;
}

double cheap_recomputation_share(const graph& g, const op& o) {
  const std::optional<op> second = cheap_recomputation_of(o);
  if (!second) return 1;
  const work w = work_of(g, *second);
  const auto moved = static_cast<double>(w.read + w.written);
  return moved / (moved + static_cast<double>(bytes_of(g.tensors[o.in[0]])));
}

std::string to_text(const graph& g, const action& a) {
  const auto name = [&](tensor_id id) {
    return id < g.tensors.size() ? g.tensors[id].name : "#" + std::to_string(id);
  };
  return std::visit(
      overloaded{
          [&](const advise& x) { return "advise " + name(x.tensor) + " " + std::string(to_text(x.hint)); },
          [&](const prefetch& x) { return "prefetch " + name(x.tensor) + part_suffix(x.part); },
          [&](const evict& x) { return "evict " + name(x.tensor) + part_suffix(x.part); },
          [&](const discard& x) { return "discard " + name(x.tensor) + part_suffix(x.part); },
          [&](const compute& x) {
            return "compute " + (x.op < g.ops.size() ? g.ops[x.op].name : "#" + std::to_string(x.op)) +
                   part_suffix(x.part) + (x.cheap_recompute ? " again" : "");
          },
      },
      a);
}

std::uint32_t cell_grid::batch_part_count() const {
  return part_count(batch);
}
std::uint32_t cell_grid::cells_per_batch_part() const {
  return part_count(channel) * part_count(row);
}
std::uint32_t cell_grid::cell_count() const {
  return part_count(batch) * cells_per_batch_part();
}

std::vector<cell_grid> cells_of(const graph& g, const memory_plan& plan) {
  std::vector<cell_grid> all(g.tensors.size());
  for (tensor_id t = 0; t < g.tensors.size(); ++t) add_borders(all[t], whole_of(g.tensors[t].shape));
  const auto of_movement = [&](const auto& x) {
    if (is_whole(x.part)) return;
    try {
      add_borders(all[x.tensor], region_of(g.tensors[x.tensor].shape, x.part));
    } catch (const std::invalid_argument& reason) {
      throw std::invalid_argument("tensor " + g.tensors[x.tensor].name + ": " + reason.what());
    }
  };
  for (const action& a : plan.actions) {
    std::visit(overloaded{
                   [](const advise&) {},
                   [&](const compute& x) {
                     if (is_whole(x.part)) return;
                     // An output into which parts are summed is complete only after every part has run.
                     for (const access& touched : accesses_of(g, x)) {
                       if (touched.mode != access_mode::read) add_borders(all[touched.tensor], touched.where);
                     }
                   },
                   of_movement,
               },
               a);
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    for (borders* const along : {&all[t].batch, &all[t].channel, &all[t].row})
      sort_and_remove_duplicates(*along);
    const std::uint64_t plane = std::uint64_t{part_count(all[t].channel)} * part_count(all[t].row);
    if (plane > most_cells || plane * part_count(all[t].batch) > most_cells) {
      throw too_many_parts("tensor " + g.tensors[t].name + " is cut into more than " +
                           std::to_string(most_cells) + " parts");
    }
  }
  return all;
}

cell_span cells_in(const cell_grid& cells, const region& r) {
  const auto [b0, b1] = indices_between(cells.batch, r.batch);
  const auto [c0, c1] = indices_between(cells.channel, r.channel);
  const auto [h0, h1] = indices_between(cells.row, r.row);
  return {b0, b1, c0, c1, h0, h1};
}

std::vector<std::uint32_t> cell_indices_of(const cell_grid& cells, const cell_span& s) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t b = s.batch_begin; b < s.batch_end; ++b) {
    for (std::uint32_t c = s.channel_begin; c < s.channel_end; ++c) {
      for (std::uint32_t h = s.row_begin; h < s.row_end; ++h) {
        all.push_back((b * part_count(cells.channel) + c) * part_count(cells.row) + h);
      }
    }
  }
  return all;
}

region region_of(const cell_grid& cells, std::uint32_t cell) {
  const auto at = [](const borders& b, std::uint32_t i) { return interval{b[i], b[i + 1]}; };
  const std::uint32_t rows = part_count(cells.row), channels = part_count(cells.channel);
  return {at(cells.batch, cell / rows / channels), at(cells.channel, cell / rows % channels),
          at(cells.row, cell % rows)};
}

}  // namespace um
