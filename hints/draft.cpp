#include "hints/draft.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "hints/recorded.hpp"
#include "hints/room.hpp"

namespace um {
namespace {

// Of the budget: policy, the same on every machine. An input is worth a twin from a twentieth on; what slices
// must move as a whole may take a tenth.
constexpr byte_count share_of_large_input = 20, share_moved_whole = 10;

std::vector<tensor_id> operands_of(const op& o) {
  std::vector<tensor_id> all = o.in;
  all.insert(all.end(), o.out.begin(), o.out.end());
  return all;
}

// A tensor, or the part of it that a slice of an operator works on.
struct piece {
  tensor_id what = 0;
  box part;
  friend auto operator<=>(const piece& a, const piece& b) {
    return std::tie(a.what, a.part) <=> std::tie(b.what, b.part);
  }
  friend bool operator==(const piece&, const piece&) = default;
};

struct use_of_piece {
  piece what;
  bool reads = false, writes = false;
};

class drafter {
 public:
  drafter(const hint_strategy& s, const problem& p, const std::vector<compute>& order)
      : s_(s),
        p_(p),
        g_(p.network),
        choose_(p.network),
        order_(order),
        cells_(cells_of(g_, plan_of_order())) {
    before_.resize(order.size());
    behind_.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      used_.push_back(pieces_of(order[i]));
      for (const use_of_piece& u : used_.back()) {
        std::vector<std::size_t>& at = uses_[u.what];
        if (at.empty() || at.back() != i) at.push_back(i);
      }
    }
    home_ = homes();
  }

  memory_plan plan() {
    advise_all();
    for (const hint_rule& r : s_.rules) {
      if (const auto* x = std::get_if<prefetch_rule>(&r.what)) call(r.which, *x);
      if (const auto* x = std::get_if<evict_rule>(&r.what)) leave(r.which, *x);
      if (const auto* x = std::get_if<discard_rule>(&r.what)) forget(r.which, *x);
    }
    memory_plan made{home_, at_start_};
    for (std::size_t i = 0; i < order_.size(); ++i) {
      made.actions.insert(made.actions.end(), before_[i].begin(), before_[i].end());
      made.actions.emplace_back(order_[i]);
      made.actions.insert(made.actions.end(), behind_[i].begin(), behind_[i].end());
    }
    return made;
  }

 private:
  memory_plan plan_of_order() const {
    memory_plan plan;
    plan.home.assign(g_.tensors.size(), residence::managed);
    plan.actions.assign(order_.begin(), order_.end());
    return plan;
  }

  // The pieces that a compute touches, operands in order; a tensor that some slice cuts is one piece a part.
  std::vector<use_of_piece> pieces_of(const compute& c) const {
    std::vector<use_of_piece> all;
    for (const access& a : accesses_of(g_, g_.ops[c.what], c.part)) {
      const cell_grid& made = cells_[a.what];
      for (const std::uint32_t cell : numbers_of(made, cells_in(made, a.where))) {
        const piece what{a.what, box_of(g_.tensors[a.what].shape, region_of(made, cell))};
        all.push_back({what, a.mode != access_mode::write, a.mode != access_mode::read});
      }
    }
    return all;
  }

  // Hints are for what lies in managed memory.
  bool is_for(const tensor_choice& which, tensor_id t) const {
    return is_managed(home_[t]) && choose_.is_for(which, t);
  }

  std::vector<residence> homes() const {
    std::vector<residence> home(g_.tensors.size(), residence::managed);
    for (tensor_id t = 0; t < home.size(); ++t) {
      bool placed = false;
      for (const hint_rule& r : s_.rules) {
        if (!choose_.is_for(r.which, t)) continue;
        if (const auto* x = std::get_if<residence_rule>(&r.what); x != nullptr && !placed) {
          home[t] = x->where;
          placed = true;
        }
        const auto* e = std::get_if<evict_rule>(&r.what);
        if (e != nullptr && e->by == evict_means::twin && !placed && may_twin(r.which, t))
          home[t] = residence::twinned;
      }
    }
    return home;
  }

  // Small inputs only where a rule names them: they are worth their room less than the wait for them when an
  // iteration begins.
  bool may_twin(const tensor_choice& which, tensor_id t) const {
    const role use = g_.tensors[t].use;
    const bool used = std::ranges::any_of(g_.ops, [&](const op& o) {
      const auto all = operands_of(o);
      return std::ranges::find(all, t) != all.end();
    });
    return used && fills_blocks(g_.tensors[t]) && moves_in_parts(t) &&
           (use == role::activation || use == role::activation_gradient ||
            (use == role::input && (!which.roles.empty() || um::bytes_of(g_.tensors[t]) > p_.budget / share_of_large_input)));
  }

  // What slices go over moves as a whole for each of them where no parts of it are whole blocks: that much
  // room there must be.
  bool moves_in_parts(tensor_id t) const {
    const std::uint32_t slices = cells_[t].count();
    return slices == 1 || um::bytes_of(g_.tensors[t]) <= p_.budget / share_moved_whole ||
           parts_to_leave(g_.tensors[t], residence::twinned, slices, managed_block) > 1;
  }

  void advise_all() {
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (!fills_blocks(g_.tensors[t])) continue;  // advice on part of a block would split it
      for (const hint_rule& r : s_.rules) {
        const auto* x = std::get_if<advice_rule>(&r.what);
        if (x != nullptr && is_for(r.which, t)) at_start_.emplace_back(advise{t, x->hint});
      }
    }
  }

  // --- prefetches ---

  void call(const tensor_choice& which, const prefetch_rule& rule) {
    if (rule.unit == look_ahead::room) return;
    const std::vector<std::vector<bool>> faulted =
        rule.from == fetch_source::recorded ? recorded_faults(p_) : std::vector<std::vector<bool>>{};
    const std::int64_t ahead = rule.unit == look_ahead::operators ? rule.ahead : 0;
    // The compute for which each piece was last called, or the last that touched it: it need not be called
    // again while that lies within the look-ahead.
    std::map<piece, std::int64_t> called;
    std::vector<std::vector<piece>> wanted(order_.size());
    for (std::size_t target = 0; target < order_.size(); ++target) {
      const auto now = static_cast<std::int64_t>(target);
      for (const use_of_piece& u : used_[target]) {
        const auto [at, is_new] = called.try_emplace(u.what, -2 - ahead);
        const bool recent = now - at->second <= ahead + 1;
        at->second = now;
        const tensor_id t = u.what.what;
        if (recent || !fills_blocks(g_.tensors[t]) || !is_for(which, t) || !on_side(u, rule.of)) continue;
        if (!faulted.empty() && !faulted[order_[target].what][t]) continue;
        wanted[target].push_back(u.what);
      }
    }
    for (std::size_t target = 0; target < order_.size(); ++target) {
      const std::size_t at = rule.unit == look_ahead::bytes ? within(wanted, target, rule.ahead)
                             : target > static_cast<std::size_t>(ahead)
                                 ? target - static_cast<std::size_t>(ahead)
                                 : 0;
      for (const piece& x : wanted[target]) before_[at].emplace_back(prefetch{x.what, x.part});
    }
  }

  // The first compute from which on no more than `most` bytes are wanted until `target`.
  std::size_t within(const std::vector<std::vector<piece>>& wanted, std::size_t target,
                     std::int64_t most) const {
    byte_count bytes = bytes_of(wanted[target]);
    std::size_t at = target;
    while (at > 0 && bytes + bytes_of(wanted[at - 1]) <= static_cast<byte_count>(most))
      bytes += bytes_of(wanted[--at]);
    return at;
  }
  byte_count bytes_of(const std::vector<piece>& pieces) const {
    byte_count bytes = 0;
    for (const piece& x : pieces) {
      const tensor& t = g_.tensors[x.what];
      bytes += um::bytes_of(t, region_of(t.shape, x.part));
    }
    return bytes;
  }

  bool fills_whole_blocks(const piece& x) const {
    const range r = batch_range(g_.tensors[x.what], x.part);
    return r.offset % managed_block == 0 && r.bytes % managed_block == 0;
  }

  static bool on_side(const use_of_piece& u, operand_side side) {
    return side == operand_side::both || (side == operand_side::inputs ? u.reads : u.writes);
  }

  // --- evictions and discards ---

  // Behind every use that is not followed by one within the gap; values that die are none.
  void leave(const tensor_choice& which, const evict_rule& rule) {
    if (rule.when != evict_when::after_use) return;
    for (const auto& [what, at] : uses_) {
      const tensor& t = g_.tensors[what.what];
      if (!fills_blocks(t) || !is_for(which, what.what)) continue;
      if (rule.by == evict_means::twin && !fills_whole_blocks(what)) continue;
      for (std::size_t i = 0; i < at.size(); ++i) {
        const bool last = i + 1 == at.size();
        if (last && !persists(t.use)) continue;
        const std::size_t next = last ? order_.size() + at.front() : at[i + 1];
        if (static_cast<std::int64_t>(next - at[i]) > rule.gap)
          behind_[at[i]].emplace_back(evict{what.what, what.part});
      }
    }
  }

  void forget(const tensor_choice& which, const discard_rule& rule) {
    if (room_is_made()) return;
    for (const auto& [what, at] : uses_) {
      const tensor& t = g_.tensors[what.what];
      if (!fills_blocks(t) || survives(t.use) || !is_for(which, what.what)) continue;
      behind_[at.back()].emplace_back(discard{what.what, what.part});
    }
    if (!rule.prefetch) return;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (const use_of_piece& u : used_[i]) {
        const bool first = u.writes && uses_.at(u.what).front() == i;
        if (first && fills_blocks(g_.tensors[u.what.what]) && is_managed(home_[u.what.what]))
          before_[i].emplace_back(prefetch{u.what.what, u.what.part});
      }
    }
  }

  // Whoever fetches what is missing discards what is dead when room is needed, and gives outputs theirs.
  bool room_is_made() const {
    return std::ranges::any_of(s_.rules, [](const hint_rule& r) {
      const auto* f = std::get_if<prefetch_rule>(&r.what);
      const auto* e = std::get_if<evict_rule>(&r.what);
      return (f != nullptr && f->unit == look_ahead::room) || (e != nullptr && e->by == evict_means::twin);
    });
  }

  const hint_strategy& s_;
  const problem& p_;
  const graph& g_;
  tensor_chooser choose_;
  const std::vector<compute>& order_;
  std::vector<cell_grid> cells_;
  std::vector<residence> home_;
  std::vector<std::vector<use_of_piece>> used_;     // per compute
  std::map<piece, std::vector<std::size_t>> uses_;  // the computes that touch each
  std::vector<action> at_start_;
  std::vector<std::vector<action>> before_, behind_;  // per compute
};

}  // namespace

tensor_chooser::tensor_chooser(const graph& g)
    : g_(g), written_(g.tensors.size(), false), again_(g.tensors.size(), false) {
  std::vector<std::int64_t> last(g.tensors.size(), -1);
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (const tensor_id t : g.ops[o].out) written_[t] = true;
    for (const tensor_id t : operands_of(g.ops[o])) {
      if (last[t] >= 0 && o - last[t] > 1) again_[t] = true;
      last[t] = o;
    }
  }
}

bool tensor_chooser::is_for(const tensor_choice& which, tensor_id t) const {
  if (!which.roles.empty() && std::ranges::find(which.roles, g_.tensors[t].use) == which.roles.end())
    return false;
  switch (which.use) {
    case tensor_use::any:
      return true;
    case tensor_use::read_only:
      return !written_[t];
    case tensor_use::written:
      return written_[t];
    case tensor_use::needed_again:
      return again_[t];
    case tensor_use::passing:
      return written_[t] && !again_[t];
  }
  return false;
}

memory_plan draft_of(const hint_strategy& s, const problem& p, const std::vector<compute>& order) {
  return drafter(s, p, order).plan();
}

}  // namespace um
