#include "hints/driver_order.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/lifetimes.hpp"
#include "core/lower.hpp"

namespace um {
namespace {

constexpr byte_count victim_bytes = 64 * MiB;
constexpr int most_rounds = 8;

// Into how many parts along its first extent a tensor is cut for eviction.
std::uint32_t parts_for(const tensor& t) {
  const byte_count wanted = (bytes_of(t) + victim_bytes - 1) / victim_bytes;
  return static_cast<std::uint32_t>(std::clamp<byte_count>(wanted, 1, static_cast<byte_count>(t.shape.n)));
}

struct block_state {
  tensor_id owner = no_lifetime;  // none: nobody yet, or small tensors that share the block
  std::uint32_t part = 0;
  std::uint64_t came_in = 0;  // stamp of the last migration or population
  bool resident = false;
};

struct run_of_blocks {
  std::size_t begin = 0, end = 0;
};

class evictor {
 public:
  evictor(const problem& p, const memory_plan& plan, packer how)
      : p_(p), g_(p.network), plan_(plan), where_(managed_layout(p, plan, how)) {
    problem unlimited = p;
    unlimited.budget = std::numeric_limits<byte_count>::max();
    unlimited.under = pressure::driver;
    const execution_plan whole = lower(unlimited, plan, how);
    if (whole.device_arena_bytes > p.budget) {
      throw infeasible("workspaces need " + to_text(whole.device_arena_bytes) + ", the budget is " +
                       to_text(p.budget));
    }
    capacity_ = (p.budget - whole.device_arena_bytes) / managed_block;
    blocks_.resize(whole.managed_arena_bytes / managed_block);
    protected_.assign(blocks_.size(), false);
    find_targets();
  }

  // Repeats the iteration until its evictions repeat, that is, until it is in its steady state.
  memory_plan run() {
    std::vector<action> before;
    for (int round = 0; round < most_rounds; ++round) {
      const std::vector<block_state> start = blocks_;
      std::vector<action> now = run_iteration();
      if (now == before) return {plan_.home, now};
      if (round + 1 == most_rounds) {
        give_back_beyond(start, now);
        return {plan_.home, now};
      }
      before = std::move(now);
    }
    return plan_;
  }

 private:
  // The operator each prefetch is for: the next one that touches the tensor.
  void find_targets() {
    target_.assign(plan_.actions.size(), no_lifetime);
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      const auto* f = std::get_if<prefetch>(&plan_.actions[i]);
      for (std::size_t k = i; f != nullptr && k < plan_.actions.size(); ++k) {
        const auto* c = std::get_if<compute>(&plan_.actions[k]);
        if (c == nullptr || !touches(g_.ops[c->what], f->what)) continue;
        target_[i] = static_cast<std::uint32_t>(k);
        break;
      }
    }
  }

  static bool touches(const op& o, tensor_id t) {
    return std::find(o.in.begin(), o.in.end(), t) != o.in.end() ||
           std::find(o.out.begin(), o.out.end(), t) != o.out.end();
  }

  std::vector<action> run_iteration() {
    std::vector<action> done;
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      const action& a = plan_.actions[i];
      if (const auto* c = std::get_if<compute>(&a)) {
        const std::vector<tensor_id> operands = operands_of(g_.ops[c->what]);
        protect(i, i);
        for (const tensor_id t : called_) spare(t);
        if (!make_room(operands, done)) {
          protect(i, i);
          if (!make_room(operands, done)) refuse(g_.ops[c->what], operands);
        }
        std::erase_if(called_, [&](tensor_id t) { return touches(g_.ops[c->what], t); });
        for (const tensor_id t : operands) bring_in(t, false);
        for (const tensor_id t : g_.ops[c->what].out) take_over(t);
      } else if (const auto* f = std::get_if<prefetch>(&a)) {
        if (target_[i] == no_lifetime) continue;
        // Data that cannot stay until its use would be moved in vain.
        if (protect(i, target_[i]) > capacity_ || !make_room({f->what}, done)) continue;
        bring_in(f->what, true);
        called_.push_back(f->what);
      }
      done.push_back(a);
    }
    return done;
  }

  static std::vector<tensor_id> operands_of(const op& o) {
    std::vector<tensor_id> all = o.in;
    all.insert(all.end(), o.out.begin(), o.out.end());
    return all;
  }

  run_of_blocks blocks_of(tensor_id t) const {
    return {
        static_cast<std::size_t>(where_[t].offset / managed_block),
        static_cast<std::size_t>((where_[t].offset + where_[t].bytes + managed_block - 1) / managed_block)};
  }

  // Spares what the operators from action `first` to action `last` touch; how many blocks that is.
  std::uint64_t protect(std::size_t first, std::size_t last) {
    std::fill(protected_.begin(), protected_.end(), false);
    for (std::size_t i = first; i <= last; ++i) {
      const auto* c = std::get_if<compute>(&plan_.actions[i]);
      if (c == nullptr) continue;
      for (const tensor_id t : operands_of(g_.ops[c->what])) spare(t);
    }
    return static_cast<std::uint64_t>(std::count(protected_.begin(), protected_.end(), true));
  }

  void spare(tensor_id t) {
    const run_of_blocks run = blocks_of(t);
    for (std::size_t b = run.begin; b < run.end; ++b) protected_[b] = true;
  }

  bool make_room(const std::vector<tensor_id>& wanted, std::vector<action>& done) {
    std::vector<action> given_up;
    const std::vector<block_state> undo = blocks_;
    const std::uint64_t undo_count = resident_;
    while (resident_ + missing(wanted) > capacity_) {
      const std::size_t victim = oldest();
      if (victim == blocks_.size()) {
        blocks_ = undo;
        resident_ = undo_count;
        return false;
      }
      given_up.push_back(give_up(blocks_[victim].owner, blocks_[victim].part));
    }
    done.insert(done.end(), given_up.begin(), given_up.end());
    return true;
  }

  std::uint64_t missing(const std::vector<tensor_id>& wanted) const {
    std::vector<std::size_t> absent;
    for (const tensor_id t : wanted) {
      const run_of_blocks run = blocks_of(t);
      for (std::size_t b = run.begin; b < run.end; ++b) {
        if (!blocks_[b].resident) absent.push_back(b);
      }
    }
    std::sort(absent.begin(), absent.end());
    return static_cast<std::uint64_t>(std::unique(absent.begin(), absent.end()) - absent.begin());
  }

  std::size_t oldest() const {
    std::size_t best = blocks_.size();
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const block_state& s = blocks_[b];
      if (!s.resident || s.owner == no_lifetime || protected_[b]) continue;
      if (best == blocks_.size() || s.came_in < blocks_[best].came_in) best = b;
    }
    return best;
  }

  // A part that shares a victim's range with protected blocks keeps none of them: parts are whole
  // blocks of one owner, and an owner's operands are protected together.
  action give_up(tensor_id t, std::uint32_t part) {
    for (block_state& s : blocks_) {
      if (s.owner == t && s.part == part && s.resident) {
        s.resident = false;
        --resident_;
      }
    }
    return evict{t, {axis::batch, part, parts_for(g_.tensors[t])}};
  }

  void bring_in(tensor_id t, bool refresh) {
    ++clock_;
    const run_of_blocks run = blocks_of(t);
    for (std::size_t b = run.begin; b < run.end; ++b) {
      block_state& s = blocks_[b];
      if (s.resident && !refresh) continue;
      if (!s.resident) ++resident_;
      s.resident = true;
      s.came_in = clock_;
      if (s.owner == no_lifetime) own(t, b);
    }
  }

  // A tensor that is written owns its addresses from then on.
  void take_over(tensor_id t) {
    const run_of_blocks run = blocks_of(t);
    for (std::size_t b = run.begin; b < run.end; ++b) own(t, b);
  }

  void own(tensor_id t, std::size_t b) {
    if (where_[t].bytes < managed_block) {
      blocks_[b].owner = no_lifetime;
      return;
    }
    const std::uint32_t of = parts_for(g_.tensors[t]);
    const byte_count start = b * managed_block - where_[t].offset;
    std::uint32_t part = of - 1;
    while (part > 0 &&
           round_down(first_byte_of(g_.tensors[t], {axis::batch, of}, part), managed_block) > start)
      --part;
    blocks_[b].owner = t;
    blocks_[b].part = part;
  }

  [[noreturn]] void refuse(const op& o, const std::vector<tensor_id>& operands) const {
    byte_count need = 0;
    for (const tensor_id t : operands) need += where_[t].bytes;
    throw infeasible("operator " + o.name + " touches " + to_text(need) +
                     " of managed memory at once, the budget leaves " + to_text(capacity_ * managed_block) +
                     "; in mode capped an operator cannot be evicted from within");
  }

  // Evicts what the iteration leaves resident beyond what it was planned to start with.
  void give_back_beyond(const std::vector<block_state>& start, std::vector<action>& done) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].resident && !start[b].resident && blocks_[b].owner != no_lifetime) {
        done.push_back(give_up(blocks_[b].owner, blocks_[b].part));
      }
    }
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  std::vector<range> where_;
  std::vector<block_state> blocks_;
  std::vector<bool> protected_;
  std::vector<std::uint32_t> target_;  // per action: the action a prefetch is for
  std::vector<tensor_id> called_;      // prefetched, and not used yet
  std::uint64_t capacity_ = 0, resident_ = 0, clock_ = 0;
};

}  // namespace

memory_plan evict_in_driver_order(const problem& p, const memory_plan& plan, packer how) {
  return evictor(p, plan, how).run();
}

}  // namespace um
