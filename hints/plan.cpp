// From rules to a memory plan.
#include <algorithm>
#include <vector>

#include "core/lower.hpp"
#include "hints/driver_order.hpp"
#include "hints/hints.hpp"

namespace um {
namespace {

constexpr packer placed_by = packer::best_fit;

// Tensors below a block share their blocks with others and come in with them.
bool fills_blocks(const tensor& t) {
  return bytes_of(t) >= managed_block;
}

std::vector<tensor_id> operands_of(const op& o) {
  std::vector<tensor_id> all = o.in;
  all.insert(all.end(), o.out.begin(), o.out.end());
  return all;
}

// The operators that touch each tensor, in order.
std::vector<std::vector<op_id>> uses_of(const graph& g) {
  std::vector<std::vector<op_id>> uses(g.tensors.size());
  for (op_id o = 0; o < g.ops.size(); ++o) {
    for (const tensor_id t : operands_of(g.ops[o])) {
      if (uses[t].empty() || uses[t].back() != o) uses[t].push_back(o);
    }
  }
  return uses;
}

// A plan under construction: what goes before and behind each operator.
struct draft {
  std::vector<action> at_start;
  std::vector<std::vector<action>> before, behind;

  memory_plan plan(std::vector<residence> home) const {
    memory_plan made{std::move(home), at_start};
    for (op_id o = 0; o < before.size(); ++o) {
      made.actions.insert(made.actions.end(), before[o].begin(), before[o].end());
      made.actions.emplace_back(compute{o, {}});
      made.actions.insert(made.actions.end(), behind[o].begin(), behind[o].end());
    }
    return made;
  }
};

class rule_reader {
 public:
  rule_reader(const hint_strategy& s, const problem& p)
      : s_(s), p_(p), g_(p.network), uses_(uses_of(p.network)), written_(g_.tensors.size(), false) {
    for (const op& o : g_.ops) {
      for (const tensor_id t : o.out) written_[t] = true;
    }
    drafted_.before.resize(g_.ops.size());
    drafted_.behind.resize(g_.ops.size());
  }

  memory_plan plan() {
    advise_all();
    for (const hint_rule& r : s_.rules) {
      if (const auto* x = std::get_if<prefetch_rule>(&r.what)) call(r.which, *x);
      if (const auto* x = std::get_if<evict_rule>(&r.what)) leave(r.which, *x);
      if (const auto* x = std::get_if<discard_rule>(&r.what)) forget(r.which, *x);
    }
    return drafted_.plan(homes());
  }

 private:
  bool is_for(const tensor_choice& which, tensor_id t) const {
    if (!which.roles.empty() && std::ranges::find(which.roles, g_.tensors[t].use) == which.roles.end()) {
      return false;
    }
    switch (which.use) {
      case tensor_use::any:
        return true;
      case tensor_use::read_only:
        return !written_[t];
      case tensor_use::written:
        return written_[t];
      case tensor_use::needed_again:
        for (std::size_t i = 0; i + 1 < uses_[t].size(); ++i) {
          if (uses_[t][i + 1] - uses_[t][i] > 1) return true;
        }
        return false;
    }
    return false;
  }

  std::vector<residence> homes() const {
    std::vector<residence> home(g_.tensors.size(), residence::managed);
    for (tensor_id t = 0; t < home.size(); ++t) {
      for (const hint_rule& r : s_.rules) {
        const auto* x = std::get_if<residence_rule>(&r.what);
        if (x == nullptr || !is_for(r.which, t)) continue;
        home[t] = x->where;
        break;
      }
    }
    return home;
  }

  void advise_all() {
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (!fills_blocks(g_.tensors[t])) continue;  // advice on part of a block would split it
      for (const hint_rule& r : s_.rules) {
        const auto* x = std::get_if<advice_rule>(&r.what);
        if (x != nullptr && is_for(r.which, t)) drafted_.at_start.emplace_back(advise{t, x->hint});
      }
    }
  }

  void call(const tensor_choice& which, const prefetch_rule& rule) {
    const op_id ahead = static_cast<op_id>(rule.ahead);
    // The operator for which each tensor was last called, or the last that touched it: it need not
    // be called again while that lies within the look-ahead.
    std::vector<std::int64_t> called(g_.tensors.size(), -2 - rule.ahead);
    for (op_id target = 0; target < g_.ops.size(); ++target) {
      const op& o = g_.ops[target];
      for (const tensor_id t : operands_of(o)) {
        const bool recent = target - called[t] <= rule.ahead + 1;
        called[t] = target;
        if (recent || !fills_blocks(g_.tensors[t]) || !is_for(which, t) || !on_side(o, t, rule.of)) continue;
        drafted_.before[target > ahead ? target - ahead : 0].emplace_back(prefetch{t, {}});
      }
    }
  }

  static bool on_side(const op& o, tensor_id t, operand_side side) {
    if (side == operand_side::both) return true;
    const auto& list = side == operand_side::inputs ? o.in : o.out;
    return std::ranges::find(list, t) != list.end();
  }

  // Behind every use that is not followed by one within the gap; values that die are none.
  void leave(const tensor_choice& which, const evict_rule& rule) {
    if (rule.when != evict_when::after_use) return;
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (!fills_blocks(g_.tensors[t]) || !is_for(which, t)) continue;
      for (std::size_t i = 0; i < uses_[t].size(); ++i) {
        const bool last = i + 1 == uses_[t].size();
        if (last && !persists(g_.tensors[t].use)) continue;
        const op_id end = static_cast<op_id>(g_.ops.size());
        const op_id next = last ? end + uses_[t].front() : uses_[t][i + 1];
        if (next - uses_[t][i] > rule.gap) drafted_.behind[uses_[t][i]].emplace_back(evict{t, {}});
      }
    }
  }

  void forget(const tensor_choice& which, const discard_rule& rule) {
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (!fills_blocks(g_.tensors[t]) || survives(g_.tensors[t].use) || uses_[t].empty()) continue;
      if (is_for(which, t)) drafted_.behind[uses_[t].back()].emplace_back(discard{t, {}});
    }
    if (!rule.prefetch) return;
    for (op_id o = 0; o < g_.ops.size(); ++o) {
      for (const tensor_id t : g_.ops[o].out) {
        if (!fills_blocks(g_.tensors[t]) || uses_[t].front() != o) continue;
        drafted_.before[o].emplace_back(prefetch{t, {}});
      }
    }
  }

  const hint_strategy& s_;
  const problem& p_;
  const graph& g_;
  std::vector<std::vector<op_id>> uses_;
  std::vector<bool> written_;
  draft drafted_;
};

}  // namespace

memory_plan plan_hints(const hint_strategy& s, const problem& p) {
  const hint_strategy set = with_knobs(s, p.knobs);
  memory_plan plan = rule_reader(set, p).plan();
  return p.under == pressure::plan ? evict_in_driver_order(p, plan, placed_by) : plan;
}

}  // namespace um
