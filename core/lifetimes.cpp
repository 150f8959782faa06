#include "core/lifetimes.hpp"

#include <algorithm>
#include <optional>

#include "core/blocks.hpp"
#include "core/memory_plan.hpp"

namespace um {
namespace {

// Whether the operator is a convolution or one of its gradients.
bool is_convolution(const op& o) {
  return has_kind<convolution, convolution_backward_data, convolution_backward_filter>(o);
}

std::int64_t stride_of(const op& convolving) {
  return std::visit(
      overloaded{[](const convolution& c) -> std::int64_t { return c.stride_h; },
                 [](const convolution_backward_data& c) -> std::int64_t { return c.forward.stride_h; },
                 [](const convolution_backward_filter& c) -> std::int64_t { return c.forward.stride_h; },
                 [](const auto&) -> std::int64_t { return 1; }},
      convolving.attributes.value);
}

class lifetime_builder {
 public:
  lifetime_builder(const problem& p, const memory_plan& plan)
      : p_(p),
        g_(p.network),
        plan_(plan),
        copies_(g_, plan, fill_in_strips()),
        open_lifetimes_(g_.tensors.size()) {
    table_.by_tensor.resize(g_.tensors.size());
    table_.actions.resize(plan.actions.size());
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      const strip_layout& l = table_.strips[t];
      open_lifetimes_[t].assign(l.strips.size(), std::vector<std::uint32_t>(l.segment_count(), no_lifetime));
    }
  }

  lifetime_table build() {
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      const residence home = plan_.residences[t];
      if (persists(g_.tensors[t].role) && (home == residence::device || is_managed(home))) {
        hold_strip(t, {0, whole_of(g_.tensors[t].shape)}, 0);
      }
    }
    const auto count = static_cast<std::uint32_t>(plan_.actions.size());
    for (action_ = 0; action_ < count; ++action_)
      std::visit([&](const auto& x) { apply(x); }, plan_.actions[action_]);
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      const bool kept = survives(g_.tensors[t].role) && plan_.residences[t] != residence::staged;
      for (auto& strip : open_lifetimes_[t]) {
        for (std::uint32_t& l : strip)
          close_lifetime(l, kept ? std::optional(std::max(count, 1U)) : std::nullopt);
      }
      std::ranges::stable_sort(table_.by_tensor[t], {},
                               [&](std::uint32_t l) { return table_.lifetimes[l].begin; });
    }
    for (lifetime& l : table_.lifetimes) l.reused_from = l.end;
    return std::move(table_);
  }

 private:
  const std::vector<strip_layout>& fill_in_strips() {
    table_.strips = make_strip_layouts(g_, plan_);
    return table_.strips;
  }
  action_use& current_use() { return table_.actions[action_]; }

  void apply(const advise&) {}
  void apply(const prefetch& x) {
    copies_.apply(x, &current_use().cells_to_copy);
    if (plan_.residences[x.tensor] == residence::staged) hold_moved_part(x);
  }
  void apply(const evict& x) {
    copies_.apply(x, &current_use().cells_to_copy);
    if (plan_.residences[x.tensor] != residence::staged) return;
    hold_moved_part(x);
    close_empty_segments(x.tensor, current_use().moved.part, action_ + 1);
  }
  void apply(const discard& x) {
    copies_.apply(x);
    if (plan_.residences[x.tensor] != residence::staged && plan_.residences[x.tensor] != residence::device)
      return;
    const region r = region_of(g_.tensors[x.tensor].shape, x.part);
    for (std::uint32_t s = 0; s < open_lifetimes_[x.tensor].size(); ++s)
      close_empty_segments(x.tensor, {s, r}, std::nullopt);
  }

  void hold_moved_part(const auto& x) {
    const region r = region_of(g_.tensors[x.tensor].shape, x.part);
    current_use().moved = hold_strip(x.tensor, {table_.strips[x.tensor].find_strip(r), r}, action_);
  }

  void apply(const compute& x) {
    byte_count scratch = workspace_of(x);
    current_use().workspace_bytes = scratch;
    const byte_count alignment = operand_alignment(g_.ops[x.op]);
    for (const access& a : accesses_of(g_, x)) {
      current_use().operands.push_back(place_operand(a, scratch, alignment));
    }
    if (scratch == 0) return;
    current_use().workspace = static_cast<std::uint32_t>(table_.lifetimes.size());
    lifetime w;
    w.begin = action_;
    w.end = action_ + 1;
    w.bytes = scratch;
    table_.lifetimes.push_back(w);
  }

  // Uses the operand in place if it is dense and aligned; otherwise gathers it into the workspace.
  operand_use place_operand(const access& a, byte_count& workspace, byte_count alignment) {
    operand_use use;
    const tensor& t = g_.tensors[a.tensor];
    if (a.mode != access_mode::write) {
      for (const strip_region& from : copies_.sources_of(a.tensor, a.where)) {
        use.sources.push_back(hold_strip(a.tensor, from, action_));
      }
    }
    if (a.mode != access_mode::read)
      use.targets.push_back(hold_strip(a.tensor, copies_.write(a.tensor, a.where), action_));
    const auto is_in_place = [&](const strip_use& u) {
      const region& strip = table_.strips[a.tensor].strips[u.part.strip];
      const tensor lies = part_of(t, strip);
      const region there = relative_to(a.where, strip);
      return is_dense(lies, there) && strided_runs_of(lies, there).offset % alignment == 0;
    };
    use.is_gathered = use.targets.empty() ? use.sources.size() != 1 || !is_in_place(use.sources.front())
                                          : !is_in_place(use.targets.front());
    if (!use.is_gathered) return use;
    use.gathered_offset = workspace;
    workspace += round_up(bytes_of(t, a.where), arena_alignment);
    return use;
  }

  // Workspace of a compute: a part's fastest engine may need more than the whole operator's. A part that
  // accumulates may need extra memory for its own sum: engines that accumulate are slower or do not exist.
  byte_count workspace_of(const compute& x) const {
    if (x.cheap_recompute) return 0;
    byte_count bytes = round_up(cost_of(p_, x).workspace_bytes, arena_alignment);
    const op& o = g_.ops[x.op];
    if (!is_convolution(o)) return bytes;
    bytes += padded_copy_bytes(o, x.part);
    for (const access& a : accesses_of(g_, o, x.part)) {
      if (a.mode != access_mode::accumulate) continue;
      bytes += round_up(bytes_of(g_.tensors[a.tensor], a.where), arena_alignment);
    }
    return bytes;
  }

  // Bytes of the padded copy of x or dx on which engines work if padding is uneven: of one eighth of the
  // images at a time, or of all if single images are not aligned. Filter gradients are then computed in as
  // many parts, and these parts need memory beside the sum.
  byte_count padded_copy_bytes(const op& o, const box& part) const {
    const row_padding padding = padding_of(g_, o, part);
    if (is_even(padding, stride_of(o))) return 0;
    const std::vector<access> touched = accesses_of(g_, o, part);
    const bool back = has_kind<convolution_backward_data>(o);
    const bool sums = has_kind<convolution_backward_filter>(o);
    const access &x = touched[back ? 2 : 0], &y = touched[sums || back ? 1 : touched.size() - 1];
    const std::int64_t images = x.where.batch.end - x.where.batch.begin;
    region padded = x.where, one = y.where;
    one.batch.end = one.batch.begin + 1;
    const bool parts_are_aligned = bytes_of(g_.tensors[y.tensor], one) % engine_alignment == 0;
    padded.batch = {0, parts_are_aligned ? (images + 7) / 8 : images};
    padded.row = {0, x.where.row.end - x.where.row.begin + padding.above + padding.below};
    const byte_count copy = round_up(bytes_of(g_.tensors[x.tensor], padded), arena_alignment);
    return copy +
           (sums ? round_up(bytes_of(g_.tensors[touched[2].tensor], touched[2].where), arena_alignment) : 0);
  }

  strip_use hold_strip(tensor_id t, const strip_region& what, std::uint32_t action) {
    strip_use use{what, {}};
    if (plan_.residences[t] == residence::host) return use;
    const auto [first, last] = table_.strips[t].segments_in(what.where);
    for (std::uint32_t s = first; s < last; ++s) {
      std::uint32_t& l = open_lifetimes_[t][what.strip][s];
      if (l == no_lifetime) l = open_lifetime(t, what.strip, s, action);
      table_.lifetimes[l].end = action + 1;
      use.lifetimes.push_back(l);
    }
    return use;
  }

  std::uint32_t open_lifetime(tensor_id t, std::uint32_t strip, std::uint32_t segment, std::uint32_t action) {
    const strip_layout& layout = table_.strips[t];
    const region part = layout.segment_region(strip, segment);
    const tensor whole = part_of(g_.tensors[t], layout.strips[strip]);
    lifetime l;
    l.tensor = t;
    l.strip = strip;
    l.segment = segment;
    l.is_managed = is_managed(plan_.residences[t]);
    l.begin = action;
    l.bytes = bytes_of(g_.tensors[t], part);
    l.first_byte = strided_runs_of(whole, relative_to(part, layout.strips[strip])).offset;
    if (l.is_managed) {
      l.alignment = l.bytes >= managed_block ? managed_block : arena_alignment;
      l.bytes = round_up(l.bytes, l.alignment);
    }
    const auto index = static_cast<std::uint32_t>(table_.lifetimes.size());
    table_.by_tensor[t].push_back(index);
    table_.lifetimes.push_back(l);
    return index;
  }

  // Ends the lifetimes of those segments in the region that hold no live cell any more: before action `end`,
  // or at their last use.
  void close_empty_segments(tensor_id t, const strip_region& what, std::optional<std::uint32_t> end) {
    const strip_layout& layout = table_.strips[t];
    const auto [first, last] = layout.segments_in(what.where);
    for (std::uint32_t s = first; s < last; ++s) {
      std::uint32_t& l = open_lifetimes_[t][what.strip][s];
      if (l != no_lifetime && !copies_.holds_any(t, what.strip, layout.segment_region(what.strip, s)))
        close_lifetime(l, end);
    }
  }

  void close_lifetime(std::uint32_t& l, std::optional<std::uint32_t> end) {
    if (l == no_lifetime) return;
    if (end) table_.lifetimes[l].end = *end;
    l = no_lifetime;
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  lifetime_table table_;
  copy_tracker copies_;
  std::vector<std::vector<std::vector<std::uint32_t>>> open_lifetimes_;  // per tensor, strip, segment
  std::uint32_t action_ = 0;
};

// Extends lifetimes so that no address is reused, except by an output over its input: the first lifetime at
// an address begins with the plan, the last one ends with it. Leaves staged tensors as they are.
void forbid_address_reuse(const memory_plan& plan, lifetime_table& table) {
  const auto count = static_cast<std::uint32_t>(plan.actions.size());
  std::vector<std::vector<std::uint32_t>> of_block;
  for (std::uint32_t l = 0; l < table.lifetimes.size(); ++l) {
    const lifetime& x = table.lifetimes[l];
    if (x.tensor == no_lifetime || plan.residences[x.tensor] == residence::staged) continue;
    if (x.block >= of_block.size()) of_block.resize(x.block + 1);
    of_block[x.block].push_back(l);
  }
  const std::vector<lifetime> was = table.lifetimes;
  for (const auto& block : of_block) {
    for (const std::uint32_t l : block) {
      bool is_first = true, is_last = true;
      for (const std::uint32_t other : block) {
        const lifetime &x = was[l], &y = was[other];
        if (other == l || x.offset >= y.offset + y.bytes || y.offset >= x.offset + x.bytes) continue;
        (y.begin < x.begin ? is_first : is_last) = false;
      }
      if (is_first) table.lifetimes[l].begin = 0;
      if (is_last) table.lifetimes[l].end = table.lifetimes[l].reused_from = count;
    }
  }
}

}  // namespace

byte_count operand_alignment(const op& o) {
  return is_convolution(o) ? engine_alignment : 1;
}

lifetime_table lifetimes_of(const problem& p, const memory_plan& plan) {
  lifetime_table table = lifetime_builder(p, plan).build();
  join_blocks(p.network, plan, table);
  if (!p.network.shares_memory) forbid_address_reuse(plan, table);
  return table;
}

}  // namespace um
