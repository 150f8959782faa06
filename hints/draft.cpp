#include "hints/draft.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "core/lower.hpp"
#include "hints/parts.hpp"
#include "schedule/orders.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

// Fractions of the budget (1/20 and 1/10), the same for all machines: a larger input gets a twin; a tensor up
// to the second size may move as a whole for each slice.
constexpr byte_count share_of_large_input = 20, share_moved_whole = 10;

// For each operator and tensor, whether the operator found some of it off the device in a simulated first
// iteration of plain managed memory under the budget.
std::vector<std::vector<bool>> simulate_first_iteration_faults(const problem& p) {
  const graph& g = p.network;
  problem by_driver = p;
  by_driver.evicted_by = evictor::driver;
  const execution_plan plan = lower(by_driver, make_plan(g, graph_order(g), residence::managed));
  std::vector<std::vector<bool>> faulted(g.ops.size(), std::vector<bool>(g.tensors.size(), false));
  simulate({g, plan, p.target, p.operator_costs}, 1, false, [&](const step& s, const managed_memory& memory) {
    const op_id o = std::get<compute>(s.command).op;
    for (const operand& x : s.operands) {
      if (x.location.where != space::managed) continue;
      const range r{x.location.offset, bytes_of(g.tensors[x.accessed.tensor])};
      if (!memory.would_hit(r, x.accessed.mode)) faulted[o][x.accessed.tensor] = true;
    }
  });
  return faulted;
}

bool reads(access_mode mode) {
  return mode != access_mode::write;
}
bool writes(access_mode mode) {
  return mode != access_mode::read;
}
bool is_on_operand_side(access_mode mode, operand_side side) {
  return side == operand_side::both || (side == operand_side::inputs ? reads(mode) : writes(mode));
}

// Whether the rules evict on demand. Then dead data is discarded when memory is needed, and outputs are
// populated.
bool makes_room_on_demand(const hint_strategy& s) {
  return std::ranges::any_of(s.rules, [](const hint_rule& r) {
    const auto* f = std::get_if<prefetch_rule>(&r.policy);
    const auto* e = std::get_if<evict_rule>(&r.policy);
    return (f != nullptr && f->unit == look_ahead_unit::room) ||
           (e != nullptr && e->means == evict_means::twin);
  });
}

// Whether a tensor can move once per slice. It moves as a whole then unless its parts are whole blocks, so it
// must be small.
bool can_move_per_slice(const problem& p, const use_table& uses, tensor_id t) {
  const tensor& what = p.network.tensors[t];
  const std::uint32_t slices = uses.first_part[t + 1] - uses.first_part[t];
  return slices == 1 || bytes_of(what) <= p.budget / share_moved_whole ||
         eviction_part_count(what, residence::twinned, slices, managed_block) > 1;
}

// Whether a tensor may be evicted by twin. Small inputs need a rule that names them, since copying them is
// cheaper than the memory that it would free.
bool can_evict_by_twin(const problem& p, const use_table& uses, const tensor_choice& which, tensor_id t) {
  const tensor& what = p.network.tensors[t];
  const bool is_used = !uses.uses_of_part[uses.first_part[t]].empty();
  // Smaller tensors share their block with others and move with it.
  if (!is_used || !is_block_sized(what) || !can_move_per_slice(p, uses, t)) return false;
  if (what.role == role::input) {
    return !which.roles.empty() || !which.names.empty() || bytes_of(what) > p.budget / share_of_large_input;
  }
  return what.role == role::activation || what.role == role::activation_gradient;
}

bool matches_pattern(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

bool matches_kind(const std::string& kind, const op_attributes& attributes) {
  const auto* const a = std::get_if<opaque>(&attributes.value);
  if (a != nullptr && kind.starts_with(opaque_label)) {
    return matches_pattern(kind.substr(opaque_label.size()), a->label);
  }
  return kind == kind_of(attributes);
}

// A residence rule takes precedence over rules that evict.
residence choose_residence(const hint_strategy& s, const problem& p, const use_table& uses,
                           const tensor_matcher& matcher, tensor_id t) {
  bool twinned = false;
  for (const hint_rule& r : s.rules) {
    if (!matcher.matches(r.tensors, t)) continue;
    if (const auto* x = std::get_if<residence_rule>(&r.policy)) return x->where;
    const auto* e = std::get_if<evict_rule>(&r.policy);
    twinned = twinned ||
              (e != nullptr && e->means == evict_means::twin && can_evict_by_twin(p, uses, r.tensors, t));
  }
  return twinned ? residence::twinned : residence::managed;
}

// Collects the actions that rules add before and after each compute, part by part (schedule/uses.hpp).
class draft_builder {
 public:
  draft_builder(const hint_strategy& s, const problem& p, const std::vector<compute>& order)
      : strategy_(s),
        problem_(p),
        graph_(p.network),
        matcher_(p.network),
        uses_(make_use_table(p.network, order, part_borders::written)),
        actions_before_(order.size()),
        actions_after_(order.size()) {
    for (tensor_id t = 0; t < graph_.tensors.size(); ++t)
      home_.push_back(choose_residence(s, p, uses_, matcher_, t));
  }

  memory_plan build() {
    memory_plan made{home_, advice_at_start()};
    for (const hint_rule& r : strategy_.rules) {
      if (const auto* x = std::get_if<prefetch_rule>(&r.policy)) add_prefetches(r.tensors, *x);
      if (const auto* x = std::get_if<evict_rule>(&r.policy)) add_evictions_after_use(r.tensors, *x);
      if (const auto* x = std::get_if<discard_rule>(&r.policy)) add_discards_of_dead(r.tensors, *x);
    }
    for (std::size_t i = 0; i < uses_.order.size(); ++i) {
      made.actions.insert(made.actions.end(), actions_before_[i].begin(), actions_before_[i].end());
      made.actions.emplace_back(uses_.order[i]);
      made.actions.insert(made.actions.end(), actions_after_[i].begin(), actions_after_[i].end());
    }
    return made;
  }

 private:
  // Hints apply to tensors in managed memory that fill at least a block.
  bool applies_to(const tensor_choice& which, tensor_id t) const {
    return is_managed(home_[t]) && is_block_sized(graph_.tensors[t]) && matcher_.matches(which, t);
  }
  // A twinned tensor moves by whole blocks. If its parts are not whole blocks, make_room() moves larger
  // parts.
  bool can_move(const tensor_choice& which, part_id x) const {
    const tensor_id t = uses_.parts[x].tensor;
    return applies_to(which, t) && (home_[t] != residence::twinned || fills_whole_blocks(x));
  }
  box box_of(part_id x) const { return um::box_of(graph_, uses_.parts[x]); }

  // Advice at the start, for tensors of at least one block: advice on part of a block would split the block.
  std::vector<action> advice_at_start() const {
    std::vector<action> all;
    for (tensor_id t = 0; t < graph_.tensors.size(); ++t) {
      for (const hint_rule& r : strategy_.rules) {
        const auto* x = std::get_if<advice_rule>(&r.policy);
        if (x != nullptr && applies_to(r.tensors, t)) all.emplace_back(advise{t, x->hint});
      }
    }
    return all;
  }

  // --- prefetches ---

  void add_prefetches(const tensor_choice& which, const prefetch_rule& rule) {
    if (rule.unit == look_ahead_unit::room) return;
    const auto wanted = parts_to_prefetch(which, rule);
    for (position target = 0; target < uses_.end(); ++target) {
      const std::int64_t ahead = std::min<std::int64_t>(rule.ahead, target);
      const position at = rule.unit == look_ahead_unit::bytes
                              ? first_position_within_bytes(wanted, target, rule.ahead)
                              : target - static_cast<position>(ahead);
      for (const part_id x : wanted[static_cast<std::size_t>(target)]) insert_prefetch(x, at, target);
    }
  }

  bool runs_on_cpu(position at) const {
    return um::runs_on_cpu(graph_.ops[uses_.order[static_cast<std::size_t>(at)].op]);
  }
  // Moves a part to the processor that uses it at `target`: to the device from `at` on, but not while the CPU
  // uses it; to the host when the device has used it.
  void insert_prefetch(part_id x, position at, position target) {
    const tensor_id t = uses_.parts[x].tensor;
    if (runs_on_cpu(target)) {
      if (home_[t] == residence::managed)
        actions_before_[static_cast<std::size_t>(target)].emplace_back(evict{t, box_of(x)});
      return;
    }
    for (const use& u : uses_.uses_of_part[x]) {
      if (u.at < target && runs_on_cpu(u.at)) at = std::max(at, u.at + 1);
    }
    actions_before_[static_cast<std::size_t>(at)].emplace_back(prefetch{t, box_of(x)});
  }

  // The parts to prefetch for each compute. A part is skipped if the last compute that touched it lies within
  // the look-ahead.
  std::vector<std::vector<part_id>> parts_to_prefetch(const tensor_choice& which,
                                                      const prefetch_rule& rule) const {
    const std::vector<std::vector<bool>> faulted = rule.source == fetch_source::recorded
                                                       ? simulate_first_iteration_faults(problem_)
                                                       : std::vector<std::vector<bool>>{};
    const std::int64_t ahead = rule.unit == look_ahead_unit::operators ? rule.ahead : 0;
    std::vector<std::int64_t> called(uses_.parts.size(), -2 - ahead);
    std::vector<bool> on_cpu(uses_.parts.size(), false);
    std::vector<std::vector<part_id>> wanted(uses_.order.size());
    for (std::size_t target = 0; target < wanted.size(); ++target) {
      const auto now = static_cast<std::int64_t>(target);
      for (const touched_part& u : uses_.touched_parts[target]) {
        const bool by_cpu = runs_on_cpu(static_cast<position>(target));
        const bool recent = now - called[u.part] <= ahead + 1 && on_cpu[u.part] == by_cpu;
        called[u.part] = now;
        on_cpu[u.part] = by_cpu;
        const tensor_id t = uses_.parts[u.part].tensor;
        if (recent || !can_move(which, u.part) || !is_on_operand_side(u.mode, rule.side)) continue;
        if (!faulted.empty() && !faulted[uses_.order[target].op][t]) continue;
        wanted[target].push_back(u.part);
      }
    }
    return wanted;
  }

  // The first compute from which at most `max_bytes` are prefetched until `target`.
  position first_position_within_bytes(const std::vector<std::vector<part_id>>& wanted, position target,
                                       std::int64_t max_bytes) const {
    const auto bytes_at = [&](position at) {
      byte_count bytes = 0;
      for (const part_id x : wanted[static_cast<std::size_t>(at)]) bytes += uses_.parts[x].bytes;
      return bytes;
    };
    byte_count bytes = bytes_at(target);
    position at = target;
    while (at > 0 && bytes + bytes_at(at - 1) <= static_cast<byte_count>(max_bytes)) bytes += bytes_at(--at);
    return at;
  }

  // --- evictions and discards ---

  bool fills_whole_blocks(part_id x) const {
    const range r = batch_range(graph_.tensors[uses_.parts[x].tensor], box_of(x));
    return r.offset % managed_block == 0 && r.bytes % managed_block == 0;
  }

  // Adds an eviction after each use whose next use is more than `gap` operators away. Skips values that are
  // dead then.
  void add_evictions_after_use(const tensor_choice& which, const evict_rule& rule) {
    if (rule.when != evict_when::after_use) return;
    for (part_id x = 0; x < uses_.parts.size(); ++x) {
      const tensor_id t = uses_.parts[x].tensor;
      const std::vector<use>& all = uses_.uses_of_part[x];
      if (!can_move(which, x) || (rule.means == evict_means::twin && !fills_whole_blocks(x))) continue;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const bool is_last = i + 1 == all.size();
        if (is_last && !persists(graph_.tensors[t].role)) continue;
        const position next = is_last ? uses_.end() + all.front().at : all[i + 1].at;
        if (next - all[i].at > rule.gap)
          actions_after_[static_cast<std::size_t>(all[i].at)].emplace_back(evict{t, box_of(x)});
      }
    }
  }

  // Adds a discard after the last use of each part whose value does not survive the iteration and, if the
  // rule repopulates, a prefetch before its first write.
  void add_discards_of_dead(const tensor_choice& which, const discard_rule& rule) {
    if (makes_room_on_demand(strategy_)) return;
    for (part_id x = 0; x < uses_.parts.size(); ++x) {
      const tensor_id t = uses_.parts[x].tensor;
      if (uses_.uses_of_part[x].empty() || survives(graph_.tensors[t].role) || !applies_to(which, t))
        continue;
      actions_after_[static_cast<std::size_t>(uses_.uses_of_part[x].back().at)].emplace_back(
          discard{t, box_of(x)});
    }
    if (!rule.repopulates) return;
    for (std::size_t i = 0; i < uses_.order.size(); ++i) {
      for (const touched_part& u : uses_.touched_parts[i]) {
        const tensor_id t = uses_.parts[u.part].tensor;
        const bool first =
            writes(u.mode) && uses_.uses_of_part[u.part].front().at == static_cast<position>(i);
        if (first && applies_to({}, t)) actions_before_[i].emplace_back(prefetch{t, box_of(u.part)});
      }
    }
  }

  const hint_strategy& strategy_;
  const problem& problem_;
  const graph& graph_;
  tensor_matcher matcher_;
  use_table uses_;
  std::vector<residence> home_;
  std::vector<std::vector<action>> actions_before_, actions_after_;  // actions before and after each compute
};

}  // namespace

tensor_matcher::tensor_matcher(const graph& g)
    : graph_(g),
      is_written_(g.tensors.size(), false),
      is_used_again_(g.tensors.size(), false),
      readers_(g.tensors.size()),
      writers_(g.tensors.size()) {
  std::vector<std::int64_t> last(g.tensors.size(), -1);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (const tensor_id t : g.ops[o].in) readers_[t].push_back(o);
    for (const tensor_id t : g.ops[o].out) writers_[t].push_back(o);
    for (const tensor_id t : g.ops[o].out) is_written_[t] = true;
    for (const auto* side : {&g.ops[o].in, &g.ops[o].out}) {
      for (const tensor_id t : *side) {
        if (last[t] >= 0 && o - last[t] > 1) is_used_again_[t] = true;
        last[t] = o;
      }
    }
  }
}

bool tensor_matcher::is_touched_by(const std::vector<std::string>& kinds,
                                   const std::vector<op_id>& by) const {
  if (kinds.empty()) return true;
  return std::ranges::any_of(by, [&](op_id o) {
    return std::ranges::any_of(
        kinds, [&](const std::string& kind) { return matches_kind(kind, graph_.ops[o].attributes); });
  });
}

bool tensor_matcher::matches(const tensor_choice& which, tensor_id t) const {
  const tensor& what = graph_.tensors[t];
  if (!which.roles.empty() && std::ranges::find(which.roles, what.role) == which.roles.end()) return false;
  const auto fits_name = [&](const std::string& pattern) { return matches_pattern(pattern, what.name); };
  if (!which.names.empty() && std::ranges::none_of(which.names, fits_name)) return false;
  if (which.least_bytes > 0 && bytes_of(what) < which.least_bytes) return false;
  if (!is_touched_by(which.read_by, readers_[t]) || !is_touched_by(which.written_by, writers_[t]))
    return false;
  switch (which.use) {
    case tensor_use::any:
      return true;
    case tensor_use::read_only:
      return !is_written_[t];
    case tensor_use::written:
      return is_written_[t];
    case tensor_use::needed_again:
      return is_used_again_[t];
    case tensor_use::passing:
      return is_written_[t] && !is_used_again_[t];
  }
  return false;
}

memory_plan make_draft(const hint_strategy& s, const problem& p, const std::vector<compute>& order) {
  return draft_builder(s, p, order).build();
}

}  // namespace um
