#include "hints/room.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/lifetimes.hpp"
#include "core/lower.hpp"

namespace um {
namespace {

constexpr int most_rounds = 8;

struct block_state {
  tensor_id owner = no_lifetime;  // none: nobody yet, or small tensors that share the block
  std::uint32_t part = 0;
  std::uint64_t came_in = 0;  // stamp of the last migration or population
  bool resident = false;
  bool filled = false;  // not just where small tensors lie in it
};

struct run_of_blocks {
  std::size_t begin = 0, end = 0;
};

// Parts [begin, end) of a batch.
struct part_run {
  std::uint32_t begin = 0, end = 0;
};

// Which of `of` parts of a batch a range of it meets.
part_run parts_in(std::int64_t images, std::uint32_t of, const interval& range) {
  part_run run{0, of};
  while (run.begin + 1 < of && part_of(images, run.begin, of).end <= range.begin) ++run.begin;
  while (run.end > run.begin + 1 && part_of(images, run.end - 1, of).begin >= range.end) --run.end;
  return run;
}

// An operand of a compute as runs of parts and blocks.
struct touched {
  tensor_id what = 0;
  part_run parts;
  run_of_blocks blocks;
  bool writes = false;
};

class room_maker {
 public:
  room_maker(const problem& p, const memory_plan& plan, packer how, const room_rules& rules)
      : p_(p), g_(p.network), plan_(plan), rules_(rules), where_(managed_layout(p, plan, how)) {
    problem unlimited = p;
    unlimited.budget = std::numeric_limits<byte_count>::max();
    unlimited.under = pressure::driver;
    // Twinned tensors are not fetched yet, and lie where they would if they were managed.
    memory_plan on_demand = plan;
    std::ranges::replace(on_demand.home, residence::twinned, residence::managed);
    const execution_plan whole = lower(unlimited, on_demand, how);
    if (whole.device_arena_bytes > p.budget) {
      throw infeasible("workspaces need " + to_text(whole.device_arena_bytes) + ", the budget is " +
                       to_text(p.budget));
    }
    const byte_count left = p.budget - whole.device_arena_bytes;
    all_blocks_ = left / managed_block;
    capacity_ = (left - std::min(left, rules.reserve_bytes)) / managed_block;
    blocks_.resize(whole.managed_arena_bytes / managed_block);
    protected_.assign(blocks_.size(), false);
    find_cuts();
    find_operands();
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
  // --- what is known before the walk ---

  void find_cuts() {
    const std::vector<cell_grid> made = cells_of(g_, plan_);
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      cuts_.push_back(parts_to_leave(g_.tensors[t], plan_.home[t], made[t].count(), rules_.part_bytes));
    }
  }

  void find_operands() {
    operands_.resize(plan_.actions.size());
    uses_.resize(g_.tensors.size());
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) uses_[t].resize(cuts_[t]);
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      const auto* c = std::get_if<compute>(&plan_.actions[i]);
      if (c == nullptr) continue;
      for (const access& a : accesses_of(g_, g_.ops[c->what], c->part)) add_operand(i, a);
    }
  }

  void add_operand(std::size_t action, const access& a) {
    if (!is_managed(plan_.home[a.what])) return;
    const tensor& t = g_.tensors[a.what];
    const bool whole = a.where.batch == interval{0, t.shape.n};
    touched o{a.what, {0, cuts_[a.what]}, blocks_of(a.what), a.mode != access_mode::read};
    if (!whole) {
      o.parts = parts_in(t.shape.n, cuts_[a.what], a.where.batch);
      const range only = runs_of(t, a.where).front();
      const byte_count end = where_[a.what].offset + only.offset + only.bytes;
      o.blocks = {blocks_of(a.what, o.parts.begin).begin,
                  std::max<std::size_t>((end + managed_block - 1) / managed_block,
                                        blocks_of(a.what, o.parts.end - 1).end)};
    }
    for (std::uint32_t part = o.parts.begin; part < o.parts.end; ++part)
      uses_[a.what][part].push_back(action);
    operands_[action].push_back(o);
  }

  // The compute each prefetch is for: the next one that touches the tensor.
  void find_targets() {
    target_.assign(plan_.actions.size(), no_lifetime);
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      const auto* f = std::get_if<prefetch>(&plan_.actions[i]);
      for (std::size_t k = i; f != nullptr && k < plan_.actions.size(); ++k) {
        if (!touches(k, f->what)) continue;
        target_[i] = static_cast<std::uint32_t>(k);
        break;
      }
    }
  }

  bool touches(std::size_t action, tensor_id t) const {
    return std::ranges::any_of(operands_[action], [&](const touched& o) { return o.what == t; });
  }

  // --- the walk ---

  std::vector<action> run_iteration() {
    std::vector<action> done;
    for (now_ = 0; now_ < plan_.actions.size(); ++now_) {
      const action& a = plan_.actions[now_];
      if (std::holds_alternative<compute>(a)) {
        prepare(done);
        for (const touched& o : operands_[now_]) {
          bring_in(o.what, o.blocks, false);
          if (o.writes) take_over(o);
        }
      } else if (const auto* f = std::get_if<prefetch>(&a)) {
        if (!call(*f, done)) continue;
      } else if (const auto* e = std::get_if<evict>(&a)) {
        leave(e->what, e->part);
      } else if (const auto* d = std::get_if<discard>(&a)) {
        leave(d->what, d->part);
      }
      done.push_back(a);
    }
    send_home(done);
    return done;
  }

  void prepare(std::vector<action>& done) {
    const std::vector<touched>& operands = operands_[now_];
    std::vector<run_of_blocks> wanted;
    for (const touched& o : operands) wanted.push_back(o.blocks);
    protect(now_, now_);
    for (const run_of_blocks& b : called_blocks()) spare(b);
    if (!make_room(wanted, done)) {
      protect(now_, now_);
      if (!make_room(wanted, done)) refuse(operands);
    }
    std::erase_if(called_, [&](tensor_id t) { return touches(now_, t); });
    for (const touched& o : operands) fetch(o, done);
  }

  // What lies off the device is fetched, and what is written first gets its room.
  void fetch(const touched& o, std::vector<action>& done) {
    if (where_[o.what].bytes < managed_block) return;
    for (std::uint32_t part = o.parts.begin; part < o.parts.end; ++part) {
      const bool first = !persists(g_.tensors[o.what].use) && uses_[o.what][part].front() == now_;
      const bool fetches = rules_.fetch || plan_.home[o.what] == residence::twinned;
      if (first ? !rules_.populate : !fetches) continue;
      if (first && heir(o.what)) continue;
      if (!all_resident(blocks_of(o.what, part))) done.emplace_back(prefetch{o.what, box_of(o.what, part)});
    }
  }

  // Takes the place of an operand: its room is there.
  bool heir(tensor_id t) const {
    const op& o = g_.ops[std::get<compute>(plan_.actions[now_]).what];
    return o.alias && o.out[o.alias->output] == t && where_[o.in[o.alias->input]].offset == where_[t].offset;
  }

  bool call(const prefetch& f, std::vector<action>& done) {
    if (target_[now_] == no_lifetime) return false;
    const run_of_blocks blocks = blocks_of(f.what, f.part);
    // Data that cannot stay until its use would be moved in vain.
    if (protect(now_, target_[now_]) > capacity_ || !make_room({blocks}, done)) return false;
    bring_in(f.what, blocks, true);
    called_.push_back(f.what);
    return true;
  }

  // Twinned tensors that persist end an iteration where they begin it.
  void send_home(std::vector<action>& done) {
    for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
      if (plan_.home[t] != residence::twinned || !survives(g_.tensors[t].use)) continue;
      for (std::uint32_t part = 0; part < cuts_[t]; ++part) {
        if (any_owned(t, part)) done.push_back(give_up(t, part));
      }
    }
  }

  // --- blocks ---

  run_of_blocks blocks_of(tensor_id t) const {
    return {
        static_cast<std::size_t>(where_[t].offset / managed_block),
        static_cast<std::size_t>((where_[t].offset + where_[t].bytes + managed_block - 1) / managed_block)};
  }
  run_of_blocks blocks_of(tensor_id t, const box& part) const {
    const run_of_blocks all = blocks_of(t);
    if (is_whole(part)) return all;
    const range only = batch_range(g_.tensors[t], part);
    const bool is_last = only.offset + only.bytes == bytes_of(g_.tensors[t]);
    const auto border = [&](byte_count at) {
      return all.begin + static_cast<std::size_t>(at / managed_block);
    };
    return {border(only.offset), is_last ? all.end : border(only.offset + only.bytes)};
  }
  run_of_blocks blocks_of(tensor_id t, std::uint32_t part) const { return blocks_of(t, box_of(t, part)); }

  box box_of(tensor_id t, std::uint32_t part) const {
    return batch_part(g_.tensors[t].shape.n, part, cuts_[t]);
  }

  bool all_resident(const run_of_blocks& run) const {
    for (std::size_t b = run.begin; b < run.end; ++b) {
      if (!blocks_[b].resident || !blocks_[b].filled) return false;
    }
    return true;
  }
  bool any_owned(tensor_id t, std::uint32_t part) const {
    const run_of_blocks run = blocks_of(t, part);
    return std::any_of(blocks_.begin() + static_cast<std::ptrdiff_t>(run.begin),
                       blocks_.begin() + static_cast<std::ptrdiff_t>(run.end),
                       [&](const block_state& s) { return s.resident && s.owner == t && s.part == part; });
  }

  // Spares what the computes from action `first` to action `last` touch; how many blocks that is.
  std::uint64_t protect(std::size_t first, std::size_t last) {
    std::fill(protected_.begin(), protected_.end(), false);
    for (std::size_t i = first; i <= last; ++i) {
      for (const touched& o : operands_[i]) spare(o.blocks);
    }
    return static_cast<std::uint64_t>(std::count(protected_.begin(), protected_.end(), true));
  }

  void spare(const run_of_blocks& run) {
    for (std::size_t b = run.begin; b < run.end; ++b) protected_[b] = true;
  }

  std::vector<run_of_blocks> called_blocks() const {
    std::vector<run_of_blocks> all;
    for (const tensor_id t : called_) all.push_back(blocks_of(t));
    return all;
  }

  bool make_room(const std::vector<run_of_blocks>& wanted, std::vector<action>& done) {
    std::vector<action> given_up;
    const std::vector<block_state> undo = blocks_;
    const std::uint64_t undo_count = resident_;
    while (resident_ + missing(wanted) > capacity_) {
      const std::size_t victim = next_victim();
      if (victim == blocks_.size()) {
        // The reserve is for what comes early; a compute's own operands may use it.
        if (resident_ + missing(wanted) <= all_blocks_) break;
        blocks_ = undo;
        resident_ = undo_count;
        return false;
      }
      given_up.push_back(give_up(blocks_[victim].owner, blocks_[victim].part));
    }
    done.insert(done.end(), given_up.begin(), given_up.end());
    return true;
  }

  std::uint64_t missing(const std::vector<run_of_blocks>& wanted) const {
    std::vector<std::size_t> absent;
    for (const run_of_blocks& run : wanted) {
      for (std::size_t b = run.begin; b < run.end; ++b) {
        if (!blocks_[b].resident) absent.push_back(b);
      }
    }
    std::sort(absent.begin(), absent.end());
    return static_cast<std::uint64_t>(std::unique(absent.begin(), absent.end()) - absent.begin());
  }

  // --- victims ---

  // Less goes first.
  struct urgency {
    int kind = 0;  // 0: dead, 1: may leave, 2: only if nothing else is left
    std::uint64_t order = 0;
    friend auto operator<=>(const urgency&, const urgency&) = default;
  };

  std::size_t next_victim() const {
    std::size_t best = blocks_.size();
    urgency least;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const block_state& s = blocks_[b];
      if (!s.resident || s.owner == no_lifetime || protected_[b]) continue;
      const urgency u = urgency_of(s);
      if (best != blocks_.size() && !(u < least)) continue;
      best = b;
      least = u;
    }
    return best;
  }

  urgency urgency_of(const block_state& s) const {
    if (rules_.order == evict_order::driver && rules_.discards.empty()) return {1, s.came_in};
    const std::size_t next = next_use(s.owner, s.part);
    if (next == never && discarded(s.owner)) {
      // What is written again last need not be populated soon.
      const std::vector<std::size_t>& all = uses_[s.owner][s.part];
      return {0, all.empty() ? 0 : never - all.front()};
    }
    if (next == never) return {rules_.order == evict_order::furthest_use ? 0 : 1, s.came_in};
    const int kind = rules_.leaves.empty() || rules_.leaves[s.owner] ? 1 : 2;
    if (rules_.order == evict_order::furthest_use) return {kind, never - next};
    const bool soon = rules_.order == evict_order::not_soon && computes_until(next) <= rules_.gap;
    return {soon ? 2 : kind, s.came_in};
  }

  bool discarded(tensor_id t) const { return !rules_.discards.empty() && rules_.discards[t]; }

  // In actions from the start of this iteration; those of the next one come behind.
  static constexpr std::size_t never = std::size_t{1} << 40;
  std::size_t next_use(tensor_id t, std::uint32_t part) const {
    const std::vector<std::size_t>& all = uses_[t][part];
    const auto at = std::lower_bound(all.begin(), all.end(), now_);
    const bool lasts = persists(g_.tensors[t].use);
    if (at != all.end() && (at != all.begin() || lasts)) return *at;
    // What a user reads when an iteration has ended is dead once the next one has begun.
    if (!survives(g_.tensors[t].use) || all.empty() || (at == all.begin() && !lasts)) return never;
    return plan_.actions.size() + all.front();
  }

  std::int64_t computes_until(std::size_t action) const {
    std::int64_t computes = 0;
    for (std::size_t i = now_; i < std::min(action, plan_.actions.size()); ++i) {
      computes += std::holds_alternative<compute>(plan_.actions[i]) ? 1 : 0;
    }
    return computes;
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
    if (next_use(t, part) == never && discarded(t) && stands_alone(t)) return discard{t, box_of(t, part)};
    return evict{t, box_of(t, part)};
  }

  // Its parts share no blocks: to discard one leaves the others whole.
  bool stands_alone(tensor_id t) const {
    return bytes_of(g_.tensors[t]) % (cuts_[t] * managed_block) == 0 || cuts_[t] == 1;
  }

  void leave(tensor_id t, const box& part) {
    const run_of_blocks run = blocks_of(t, part);
    for (std::size_t b = run.begin; b < run.end; ++b) {
      if (blocks_[b].owner != t || !blocks_[b].resident) continue;
      blocks_[b].resident = false;
      --resident_;
    }
  }

  void bring_in(tensor_id t, const run_of_blocks& run, bool refresh) {
    ++clock_;
    for (std::size_t b = run.begin; b < run.end; ++b) {
      block_state& s = blocks_[b];
      if (!s.resident) s.filled = false;
      s.filled = s.filled || where_[t].bytes >= managed_block;
      if (s.resident && !refresh) continue;
      if (!s.resident) ++resident_;
      s.resident = true;
      s.came_in = clock_;
      if (s.owner == no_lifetime) own(t, b);
    }
  }

  // A tensor that is written owns its addresses from then on, all of them with its first part.
  void take_over(const touched& o) {
    const bool begins =
        std::ranges::any_of(uses_[o.what], [&](const auto& at) { return at.front() == now_; });
    const run_of_blocks run = begins ? blocks_of(o.what) : o.blocks;
    for (std::size_t b = run.begin; b < run.end; ++b) own(o.what, b);
  }

  void own(tensor_id t, std::size_t b) {
    if (where_[t].bytes < managed_block) {
      blocks_[b].owner = no_lifetime;
      return;
    }
    const std::uint32_t of = cuts_[t];
    const byte_count start = b * managed_block - where_[t].offset;
    std::uint32_t part = of - 1;
    while (part > 0 && round_down(batch_range(g_.tensors[t], box_of(t, part)).offset, managed_block) > start)
      --part;
    blocks_[b].owner = t;
    blocks_[b].part = part;
  }

  [[noreturn]] void refuse(const std::vector<touched>& operands) const {
    std::set<std::size_t> blocks;
    for (const touched& o : operands) {
      for (std::size_t b = o.blocks.begin; b < o.blocks.end; ++b) blocks.insert(b);
    }
    throw infeasible("operator " + g_.ops[std::get<compute>(plan_.actions[now_]).what].name + " touches " +
                     to_text(blocks.size() * managed_block) +
                     " of managed memory at once, the budget leaves " + to_text(all_blocks_ * managed_block) +
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
  const room_rules& rules_;
  std::vector<range> where_;
  std::vector<std::uint32_t> cuts_;                          // per tensor: parts
  std::vector<std::vector<touched>> operands_;               // per action
  std::vector<std::vector<std::vector<std::size_t>>> uses_;  // per tensor and part: computes that touch it
  std::vector<block_state> blocks_;
  std::vector<bool> protected_;
  std::vector<std::uint32_t> target_;  // per action: the action a prefetch is for
  std::vector<tensor_id> called_;      // prefetched, and not used yet
  std::size_t now_ = 0;                // the action
  std::uint64_t capacity_ = 0, all_blocks_ = 0, resident_ = 0, clock_ = 0;
};

}  // namespace

std::uint32_t parts_to_leave(const tensor& t, residence home, std::uint32_t slices, byte_count part_bytes) {
  const auto images = static_cast<byte_count>(t.shape.n);
  const byte_count wanted = (bytes_of(t) + part_bytes - 1) / part_bytes;
  for (byte_count of = std::min(std::max<byte_count>(wanted, slices), images); of > 1; --of) {
    const bool with_slices = of % slices == 0 || slices % of == 0;
    if (with_slices && images % of == 0 && bytes_of(t) / of % managed_block == 0)
      return static_cast<std::uint32_t>(of);
  }
  if (home == residence::twinned) return 1;
  const byte_count each = std::max<byte_count>((wanted + slices - 1) / slices, 1);
  return static_cast<std::uint32_t>(
      std::min(slices * each, std::max<byte_count>(images / slices, 1) * slices));
}

memory_plan make_room(const problem& p, const memory_plan& plan, packer how, const room_rules& rules) {
  return room_maker(p, plan, how, rules).run();
}

}  // namespace um
