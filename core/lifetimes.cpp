#include "core/lifetimes.hpp"

#include <algorithm>

namespace um {
namespace {

// Parts of a tensor that some compute touches together must lie next to each other: a group.
// Only batch parts are contiguous in memory, so other cuts form one group.
std::vector<std::vector<part_run>> groups_of(const graph& g, const memory_plan& plan,
                                             const std::vector<cell_grid>& cells) {
  std::vector<std::vector<bool>> joined;  // joined[t][p]: parts p and p + 1 belong together
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    // A tensor that survives on the device has one address at the end, so its parts stay together.
    const bool separable =
        cells[t].inner() == 1 && (plan.home[t] == residence::staged ||
                                  (plan.home[t] == residence::device && !survives(g.tensors[t].use)));
    joined.emplace_back(cells[t].batch_parts(), !separable);
  }
  for (const action& a : plan.actions) {
    const compute* c = std::get_if<compute>(&a);
    if (c == nullptr) continue;
    for (const access& touched : accesses_of(g, g.ops[c->what], c->part)) {
      const part_run run = parts_of(cells[touched.what], touched.where);
      for (std::uint32_t p = run.begin; p + 1 < run.end; ++p) joined[touched.what][p] = true;
    }
  }
  std::vector<std::vector<part_run>> groups(g.tensors.size());
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    part_run open{0, 1};
    for (std::uint32_t p = 0; p + 1 < cells[t].batch_parts(); ++p) {
      if (!joined[t][p]) {
        groups[t].push_back(open);
        open.begin = p + 1;
      }
      open.end = p + 2;
    }
    groups[t].push_back(open);
  }
  return groups;
}

// One group of one tensor while the action list is walked.
struct group_state {
  part_run parts;
  std::uint32_t open = no_lifetime;  // index of the lifetime that holds now
  std::uint32_t last_use = 0;        // last action that touched the group's bytes
  std::vector<bool> resident;        // per part
};

class walk {
 public:
  walk(const graph& g, const profile& costs, const memory_plan& plan, const std::vector<cell_grid>& cells)
      : g_(g), costs_(costs), plan_(plan), cells_(cells) {
    table_.of_tensor.resize(g.tensors.size());
    table_.workspace_of_action.assign(plan.actions.size(), no_lifetime);
    auto groups = groups_of(g, plan, cells);
    for (tensor_id t = 0; t < g.tensors.size(); ++t) {
      for (const part_run run : groups[t]) {
        state_.emplace_back();
        group_index_.push_back(t);
        state_.back().parts = run;
        state_.back().resident.assign(run.end - run.begin, false);
      }
      first_group_.push_back(state_.size() - groups[t].size());
    }
    first_group_.push_back(state_.size());
  }

  lifetime_table run() {
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (persists(g_.tensors[t].use) && (is(t, residence::device) || is_managed(plan_.home[t]))) {
        for_groups(t, {0, cells_[t].batch_parts()}, [&](group_state& s) { touch(t, s, s.parts, 0); });
      }
    }
    const auto count = static_cast<std::uint32_t>(plan_.actions.size());
    for (now_ = 0; now_ < count; ++now_) std::visit([&](const auto& x) { apply(x); }, plan_.actions[now_]);
    for (std::size_t i = 0; i < state_.size(); ++i) {
      const tensor_id t = group_index_[i];
      const bool kept = survives(g_.tensors[t].use) && !is(t, residence::staged);
      if (state_[i].open != no_lifetime) close(state_[i], kept ? count : state_[i].last_use + 1);
    }
    for (std::vector<std::uint32_t>& of_one : table_.of_tensor) {
      std::sort(of_one.begin(), of_one.end(),
                [&](std::uint32_t a, std::uint32_t z) { return table_.all[a].begin < table_.all[z].begin; });
    }
    share_in_place();
    return std::move(table_);
  }

 private:
  bool is(tensor_id t, residence home) const { return plan_.home[t] == home; }

  void apply(const advise&) {}
  void apply(const prefetch& x) {
    if (!is(x.what, residence::staged)) return;
    const part_run run = parts_of(cells_[x.what], region_of(g_.tensors[x.what].shape, x.part));
    for_groups(x.what, run, [&](group_state& s) { touch(x.what, s, run, now_); });
  }
  void apply(const evict& x) {
    if (is(x.what, residence::staged)) release(x.what, x.part, now_ + 1);
  }
  void apply(const discard& x) {
    if (is(x.what, residence::staged) || is(x.what, residence::device)) release(x.what, x.part, 0);
  }
  void apply(const compute& x) {
    const op& o = g_.ops[x.what];
    for (const access& a : accesses_of(g_, o, x.part)) {
      if (is(a.what, residence::host)) continue;
      const part_run run = parts_of(cells_[a.what], a.where);
      for_groups(a.what, run, [&](group_state& s) { touch(a.what, s, run, now_); });
    }
    const byte_count workspace = workspace_of(x);
    if (workspace == 0) return;
    table_.workspace_of_action[now_] = static_cast<std::uint32_t>(table_.all.size());
    lifetime w;
    w.begin = now_;
    w.end = now_ + 1;
    w.bytes = workspace;
    table_.all.push_back(w);
  }

  // A part of a convolution or of its gradients that adds to what earlier ones wrote may keep its own share
  // apart first: engines that add by themselves are slower, or there are none.
  byte_count workspace_of(const compute& x) const {
    byte_count bytes = round_up(std::min(costs_[x.what].workspace_bytes, x.workspace), arena_alignment);
    const op_attributes& what = g_.ops[x.what].what;
    if (!std::holds_alternative<convolution>(what) &&
        !std::holds_alternative<convolution_backward_data>(what) &&
        !std::holds_alternative<convolution_backward_filter>(what)) {
      return bytes;
    }
    for (const access& a : accesses_of(g_, g_.ops[x.what], x.part)) {
      if (a.mode != access_mode::accumulate) continue;
      bytes += round_up(bytes_of(g_.tensors[a.what], a.where), arena_alignment);
    }
    return bytes;
  }

  void touch(tensor_id t, group_state& s, part_run run, std::uint32_t action) {
    if (s.open == no_lifetime) {
      s.open = static_cast<std::uint32_t>(table_.all.size());
      table_.of_tensor[t].push_back(s.open);
      table_.all.push_back(opened(t, s.parts, action));
    }
    s.last_use = action;
    for (std::uint32_t p = std::max(run.begin, s.parts.begin); p < std::min(run.end, s.parts.end); ++p) {
      s.resident[p - s.parts.begin] = true;
    }
  }

  lifetime opened(tensor_id t, part_run parts, std::uint32_t action) const {
    lifetime l;
    l.what = t;
    l.parts = parts;
    l.managed = is_managed(plan_.home[t]);
    l.begin = action;
    l.first_byte = first_byte_of(g_.tensors[t], cells_[t], parts.begin);
    const byte_count end = parts.end == cells_[t].batch_parts()
                               ? bytes_of(g_.tensors[t])
                               : first_byte_of(g_.tensors[t], cells_[t], parts.end);
    const bool whole_blocks = l.managed && end - l.first_byte >= managed_block;
    l.alignment = whole_blocks ? managed_block : arena_alignment;
    l.bytes = round_up(end - l.first_byte, l.alignment);
    return l;
  }

  // Ends the lifetimes of groups no part of which stays; `end` 0 means at the last use.
  void release(tensor_id t, const box& part, std::uint32_t end) {
    const part_run run = parts_of(cells_[t], region_of(g_.tensors[t].shape, part));
    for_groups(t, run, [&](group_state& s) {
      for (std::uint32_t p = std::max(run.begin, s.parts.begin); p < std::min(run.end, s.parts.end); ++p) {
        s.resident[p - s.parts.begin] = false;
      }
      if (end != 0) s.last_use = now_;
      const bool empty = std::find(s.resident.begin(), s.resident.end(), true) == s.resident.end();
      if (empty && s.open != no_lifetime) close(s, s.last_use + 1);
    });
  }

  void close(group_state& s, std::uint32_t end) {
    table_.all[s.open].end = end;
    s.open = no_lifetime;
  }

  template <class F>
  void for_groups(tensor_id t, part_run run, F&& f) {
    for (std::size_t i = first_group_[t]; i < first_group_[t + 1]; ++i) {
      if (state_[i].parts.begin < run.end && run.begin < state_[i].parts.end) f(state_[i]);
    }
  }

  // An output that may take the place of an input does so where the input's lifetime ends there.
  void share_in_place() {
    for (std::uint32_t i = 0; i < plan_.actions.size(); ++i) {
      const compute* c = std::get_if<compute>(&plan_.actions[i]);
      if (c == nullptr || !g_.ops[c->what].alias) continue;
      const op& o = g_.ops[c->what];
      const tensor_id from = o.in[o.alias->input], to = o.out[o.alias->output];
      if (from == to || survives(g_.tensors[from].use) ||
          is_managed(plan_.home[from]) != is_managed(plan_.home[to]))
        continue;
      for (const std::uint32_t l : table_.of_tensor[to]) {
        lifetime& heir = table_.all[l];
        if (heir.begin != i) continue;
        const std::uint32_t k = table_.at(from, heir.parts.begin, i);
        if (k == no_lifetime) continue;
        const lifetime& giver = table_.all[k];
        if (giver.end == i + 1 && giver.bytes == heir.bytes && giver.first_byte == heir.first_byte)
          heir.shares = k;
      }
    }
  }

  const graph& g_;
  const profile& costs_;
  const memory_plan& plan_;
  const std::vector<cell_grid>& cells_;
  lifetime_table table_;
  std::vector<group_state> state_;
  std::vector<tensor_id> group_index_;    // the tensor of each group
  std::vector<std::size_t> first_group_;  // per tensor, and one past the last
  std::uint32_t now_ = 0;
};

}  // namespace

byte_count first_byte_of(const tensor& t, const cell_grid& cells, std::uint32_t part) {
  const auto n = static_cast<byte_count>(t.shape.n), before = static_cast<byte_count>(cells.batch[part]);
  return n == 0 ? 0 : bytes_of(t) / n * before;
}

part_run parts_of(const cell_grid& cells, const region& r) {
  const cell_span s = cells_in(cells, r);
  return {s.batch_begin, s.batch_end};
}

std::uint32_t lifetime_table::at(tensor_id what, std::uint32_t part, std::uint32_t now) const {
  for (const std::uint32_t l : of_tensor[what]) {
    const lifetime& held = all[l];
    if (held.begin <= now && now < held.end && held.parts.begin <= part && part < held.parts.end) return l;
  }
  return no_lifetime;
}

lifetime_table lifetimes_of(const graph& g, const profile& costs, const memory_plan& plan,
                            const std::vector<cell_grid>& cells) {
  return walk(g, costs, plan, cells).run();
}

}  // namespace um
