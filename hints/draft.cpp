#include "hints/draft.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "core/cpu_work.hpp"
#include "hints/parts.hpp"
#include "hints/recorded.hpp"

namespace um {
namespace {

// Of the budget: policy, the same on every machine. An input is worth a twin from a twentieth on; what slices
// must move as a whole may take a tenth.
constexpr byte_count share_of_large_input = 20, share_moved_whole = 10;

// Tensors below a block share their blocks with others and come in with them.
bool fills_blocks(const tensor& t) {
  return bytes_of(t) >= managed_block;
}

bool reads(access_mode mode) {
  return mode != access_mode::write;
}
bool writes(access_mode mode) {
  return mode != access_mode::read;
}
bool is_on_side(access_mode mode, operand_side side) {
  return side == operand_side::both || (side == operand_side::inputs ? reads(mode) : writes(mode));
}

// Whether the rules fetch missing data at its use: then dead data is discarded when room is needed, and
// outputs are populated.
bool room_is_made(const hint_strategy& s) {
  return std::ranges::any_of(s.rules, [](const hint_rule& r) {
    const auto* f = std::get_if<prefetch_rule>(&r.what);
    const auto* e = std::get_if<evict_rule>(&r.what);
    return (f != nullptr && f->unit == look_ahead::room) || (e != nullptr && e->by == evict_means::twin);
  });
}

// What slices go over moves as a whole for each of them where no parts of it are whole blocks: that much
// room there must be.
bool moves_in_parts(const problem& p, const use_table& uses, tensor_id t) {
  const tensor& what = p.network.tensors[t];
  const std::uint32_t slices = uses.first_part[t + 1] - uses.first_part[t];
  return slices == 1 || bytes_of(what) <= p.budget / share_moved_whole ||
         parts_to_leave(what, residence::twinned, slices, managed_block) > 1;
}

// Small inputs only where a rule names them: they are worth their room less than the wait for them when an
// iteration begins.
bool may_twin(const problem& p, const use_table& uses, const tensor_choice& which, tensor_id t) {
  const tensor& what = p.network.tensors[t];
  const bool is_used = !uses.of_part[uses.first_part[t]].empty();
  if (!is_used || !fills_blocks(what) || !moves_in_parts(p, uses, t)) return false;
  if (what.use == role::input) {
    return !which.roles.empty() || !which.names.empty() || bytes_of(what) > p.budget / share_of_large_input;
  }
  return what.use == role::activation || what.use == role::activation_gradient;
}

bool fits_pattern(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

bool fits(const std::string& kind, const op_attributes& what) {
  const auto* const a = std::get_if<opaque>(&what);
  if (a != nullptr && kind.starts_with(opaque_label)) {
    return fits_pattern(kind.substr(opaque_label.size()), a->label);
  }
  return kind == kind_of(what);
}

// The first rule that places a tensor counts before those by which it leaves.
residence home_of(const hint_strategy& s, const problem& p, const use_table& uses,
                  const tensor_chooser& choose, tensor_id t) {
  bool twinned = false;
  for (const hint_rule& r : s.rules) {
    if (!choose.is_for(r.which, t)) continue;
    if (const auto* x = std::get_if<residence_rule>(&r.what)) return x->where;
    const auto* e = std::get_if<evict_rule>(&r.what);
    twinned = twinned || (e != nullptr && e->by == evict_means::twin && may_twin(p, uses, r.which, t));
  }
  return twinned ? residence::twinned : residence::managed;
}

// The lists of actions that rules add to, around computes whose parts (schedule/uses.hpp) they are for.
class drafter {
 public:
  drafter(const hint_strategy& s, const problem& p, const std::vector<compute>& order)
      : s_(s),
        p_(p),
        g_(p.network),
        choose_(p.network),
        uses_(uses_of(p.network, order, borders_of::written)),
        before_(order.size()),
        behind_(order.size()) {
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) home_.push_back(home_of(s, p, uses_, choose_, t));
  }

  memory_plan plan() {
    memory_plan made{home_, advice_at_start()};
    for (const hint_rule& r : s_.rules) {
      if (const auto* x = std::get_if<prefetch_rule>(&r.what)) prefetch_ahead(r.which, *x);
      if (const auto* x = std::get_if<evict_rule>(&r.what)) evict_after_use(r.which, *x);
      if (const auto* x = std::get_if<discard_rule>(&r.what)) discard_dead(r.which, *x);
    }
    for (std::size_t i = 0; i < uses_.order.size(); ++i) {
      made.actions.insert(made.actions.end(), before_[i].begin(), before_[i].end());
      made.actions.emplace_back(uses_.order[i]);
      made.actions.insert(made.actions.end(), behind_[i].begin(), behind_[i].end());
    }
    return made;
  }

 private:
  // Hints are for what lies in managed memory and fills its blocks.
  bool is_for(const tensor_choice& which, tensor_id t) const {
    return is_managed(home_[t]) && fills_blocks(g_.tensors[t]) && choose_.is_for(which, t);
  }
  // A twinned tensor moves by whole blocks; where its parts are none, whoever makes room moves larger ones.
  bool can_move(const tensor_choice& which, part_id x) const {
    const tensor_id t = uses_.parts[x].what;
    return is_for(which, t) && (home_[t] != residence::twinned || fills_whole_blocks(x));
  }
  box box_of(part_id x) const { return um::box_of(g_, uses_.parts[x]); }

  // Advice on part of a block would split it.
  std::vector<action> advice_at_start() const {
    std::vector<action> all;
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      for (const hint_rule& r : s_.rules) {
        const auto* x = std::get_if<advice_rule>(&r.what);
        if (x != nullptr && is_for(r.which, t)) all.emplace_back(advise{t, x->hint});
      }
    }
    return all;
  }

  // --- prefetches ---

  void prefetch_ahead(const tensor_choice& which, const prefetch_rule& rule) {
    if (rule.unit == look_ahead::room) return;
    const auto wanted = wanted_at(which, rule);
    for (position target = 0; target < uses_.end(); ++target) {
      const std::int64_t ahead = std::min<std::int64_t>(rule.ahead, target);
      const position at = rule.unit == look_ahead::bytes ? within(wanted, target, rule.ahead)
                                                         : target - static_cast<position>(ahead);
      for (const part_id x : wanted[static_cast<std::size_t>(target)]) bring(x, at, target);
    }
  }

  bool runs_on_cpu(position at) const {
    return um::runs_on_cpu(g_.ops[uses_.order[static_cast<std::size_t>(at)].what]);
  }
  // To where it is used: to the device from `at` on, but not while the CPU uses it; to the host when the
  // device is done with it.
  void bring(part_id x, position at, position target) {
    const tensor_id t = uses_.parts[x].what;
    if (runs_on_cpu(target)) {
      if (home_[t] == residence::managed)
        before_[static_cast<std::size_t>(target)].emplace_back(evict{t, box_of(x)});
      return;
    }
    for (const use& u : uses_.of_part[x]) {
      if (u.at < target && runs_on_cpu(u.at)) at = std::max(at, u.at + 1);
    }
    before_[static_cast<std::size_t>(at)].emplace_back(prefetch{t, box_of(x)});
  }

  // What is called for each compute. A part need not be called again while the compute for which it last was,
  // or the last that touched it, lies within the look-ahead.
  std::vector<std::vector<part_id>> wanted_at(const tensor_choice& which, const prefetch_rule& rule) const {
    const std::vector<std::vector<bool>> faulted =
        rule.from == fetch_source::recorded ? recorded_faults(p_) : std::vector<std::vector<bool>>{};
    const std::int64_t ahead = rule.unit == look_ahead::operators ? rule.ahead : 0;
    std::vector<std::int64_t> called(uses_.parts.size(), -2 - ahead);
    std::vector<bool> on_cpu(uses_.parts.size(), false);
    std::vector<std::vector<part_id>> wanted(uses_.order.size());
    for (std::size_t target = 0; target < wanted.size(); ++target) {
      const auto now = static_cast<std::int64_t>(target);
      for (const touched_part& u : uses_.of_position[target]) {
        const bool by_cpu = runs_on_cpu(static_cast<position>(target));
        const bool recent = now - called[u.which] <= ahead + 1 && on_cpu[u.which] == by_cpu;
        called[u.which] = now;
        on_cpu[u.which] = by_cpu;
        const tensor_id t = uses_.parts[u.which].what;
        if (recent || !can_move(which, u.which) || !is_on_side(u.mode, rule.of)) continue;
        if (!faulted.empty() && !faulted[uses_.order[target].what][t]) continue;
        wanted[target].push_back(u.which);
      }
    }
    return wanted;
  }

  // The first compute from which on no more than `most` bytes are wanted until `target`.
  position within(const std::vector<std::vector<part_id>>& wanted, position target, std::int64_t most) const {
    const auto bytes_at = [&](position at) {
      byte_count bytes = 0;
      for (const part_id x : wanted[static_cast<std::size_t>(at)]) bytes += uses_.parts[x].bytes;
      return bytes;
    };
    byte_count bytes = bytes_at(target);
    position at = target;
    while (at > 0 && bytes + bytes_at(at - 1) <= static_cast<byte_count>(most)) bytes += bytes_at(--at);
    return at;
  }

  // --- evictions and discards ---

  bool fills_whole_blocks(part_id x) const {
    const range r = batch_range(g_.tensors[uses_.parts[x].what], box_of(x));
    return r.offset % managed_block == 0 && r.bytes % managed_block == 0;
  }

  // Adds an eviction after each use without another one within the gap; values that are dead then are
  // skipped.
  void evict_after_use(const tensor_choice& which, const evict_rule& rule) {
    if (rule.when != evict_when::after_use) return;
    for (part_id x = 0; x < uses_.parts.size(); ++x) {
      const tensor_id t = uses_.parts[x].what;
      const std::vector<use>& all = uses_.of_part[x];
      if (!can_move(which, x) || (rule.by == evict_means::twin && !fills_whole_blocks(x))) continue;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const bool is_last = i + 1 == all.size();
        if (is_last && !persists(g_.tensors[t].use)) continue;
        const position next = is_last ? uses_.end() + all.front().at : all[i + 1].at;
        if (next - all[i].at > rule.gap)
          behind_[static_cast<std::size_t>(all[i].at)].emplace_back(evict{t, box_of(x)});
      }
    }
  }

  // What was discarded is populated again before it is first written.
  void discard_dead(const tensor_choice& which, const discard_rule& rule) {
    if (room_is_made(s_)) return;
    for (part_id x = 0; x < uses_.parts.size(); ++x) {
      const tensor_id t = uses_.parts[x].what;
      if (uses_.of_part[x].empty() || survives(g_.tensors[t].use) || !is_for(which, t)) continue;
      behind_[static_cast<std::size_t>(uses_.of_part[x].back().at)].emplace_back(discard{t, box_of(x)});
    }
    if (!rule.prefetch) return;
    for (std::size_t i = 0; i < uses_.order.size(); ++i) {
      for (const touched_part& u : uses_.of_position[i]) {
        const tensor_id t = uses_.parts[u.which].what;
        const bool first = writes(u.mode) && uses_.of_part[u.which].front().at == static_cast<position>(i);
        if (first && is_for({}, t)) before_[i].emplace_back(prefetch{t, box_of(u.which)});
      }
    }
  }

  const hint_strategy& s_;
  const problem& p_;
  const graph& g_;
  tensor_chooser choose_;
  use_table uses_;
  std::vector<residence> home_;
  std::vector<std::vector<action>> before_, behind_;  // per compute
};

}  // namespace

tensor_chooser::tensor_chooser(const graph& g)
    : g_(g),
      written_(g.tensors.size(), false),
      used_again_(g.tensors.size(), false),
      readers_(g.tensors.size()),
      writers_(g.tensors.size()) {
  std::vector<std::int64_t> last(g.tensors.size(), -1);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (const tensor_id t : g.ops[o].in) readers_[t].push_back(o);
    for (const tensor_id t : g.ops[o].out) writers_[t].push_back(o);
    for (const tensor_id t : g.ops[o].out) written_[t] = true;
    for (const auto* side : {&g.ops[o].in, &g.ops[o].out}) {
      for (const tensor_id t : *side) {
        if (last[t] >= 0 && o - last[t] > 1) used_again_[t] = true;
        last[t] = o;
      }
    }
  }
}

bool tensor_chooser::is_touched(const std::vector<std::string>& kinds, const std::vector<op_id>& by) const {
  if (kinds.empty()) return true;
  return std::ranges::any_of(by, [&](op_id o) {
    return std::ranges::any_of(kinds, [&](const std::string& kind) { return fits(kind, g_.ops[o].what); });
  });
}

bool tensor_chooser::is_for(const tensor_choice& which, tensor_id t) const {
  const tensor& what = g_.tensors[t];
  if (!which.roles.empty() && std::ranges::find(which.roles, what.use) == which.roles.end()) return false;
  const auto fits_name = [&](const std::string& pattern) { return fits_pattern(pattern, what.name); };
  if (!which.names.empty() && std::ranges::none_of(which.names, fits_name)) return false;
  if (which.least_bytes > 0 && bytes_of(what) < which.least_bytes) return false;
  if (!is_touched(which.read_by, readers_[t]) || !is_touched(which.written_by, writers_[t])) return false;
  switch (which.use) {
    case tensor_use::any:
      return true;
    case tensor_use::read_only:
      return !written_[t];
    case tensor_use::written:
      return written_[t];
    case tensor_use::needed_again:
      return used_again_[t];
    case tensor_use::passing:
      return written_[t] && !used_again_[t];
  }
  return false;
}

memory_plan draft_of(const hint_strategy& s, const problem& p, const std::vector<compute>& order) {
  return drafter(s, p, order).plan();
}

}  // namespace um
