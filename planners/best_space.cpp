#include "planners/best_space.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>

namespace um {
namespace {

// A copy may be late by several times its copy_price().
copy_slack copy_slack_of(const problem& p) {
  constexpr std::int64_t times = 3;
  return {times * p.knobs.at("copies"), times * p.knobs.at("copy_us") * 1000};
}

swap_timing timing_of(treatment how) {
  if (!swaps(how)) return swap_timing::none;
  return how == treatment::swap_just_in_time ? swap_timing::just_in_time
         : how == treatment::swap_back_late  ? swap_timing::back_late
                                             : swap_timing::early;
}
// Seen: 44 events for each compute in exported VGG-16 at ratio 4, which is slower without them, and 300 to
// 2,000 in a GRU that recomputes everything.
std::int64_t max_events(const use_table& uses) {
  constexpr std::int64_t of_each_compute = 64;
  return of_each_compute * uses.end();
}
// The evaluation of a longer list.
constexpr evaluation too_long = [] {
  evaluation e;
  e.peak_excess = std::numeric_limits<byte_count>::max();
  e.excess = std::numeric_limits<double>::infinity();
  return e;
}();

// Calls `differs` with each index at which `a` and `b` differ, in order. Compares eight entries at once,
// since most are equal.
void for_each_difference(const std::vector<treatment>& a, const std::vector<treatment>& b,
                         const auto& differs) {
  static_assert(sizeof(treatment) == 1);
  constexpr std::size_t at_once = sizeof(std::uint64_t);
  for (std::size_t first = 0; first < a.size(); first += at_once) {
    const std::size_t end = std::min(first + at_once, a.size());
    if (end == first + at_once && std::memcmp(&a[first], &b[first], at_once) == 0) continue;
    for (std::size_t i = first; i < end; ++i) {
      if (a[i] != b[i]) differs(i);
    }
  }
}
// With fewer gaps than this, swaps are fitted to recomputations and the budget. With more, that takes too
// much of the work.
constexpr std::size_t few_gaps = 500;
// Networks of up to `tiny_network` operators are mostly searched with both waits. One search fits swaps:
// packing often takes more than the budget for decisions that need all of it.
bool fits_swaps(const graph& g, memory_waits waits) {
  return g.ops.size() <= tiny_network ? waits == memory_waits::until_enough : g.ops.size() <= few_operators;
}

bool recomputes(treatment how) {
  return how == treatment::recompute || how == treatment::recompute_and_keep;
}

std::vector<gap_class> find_gap_classes(const use_table& uses, const std::vector<gap>& gaps,
                                        const forecaster& costs) {
  std::vector<gap_class> classes;
  std::map<std::tuple<tensor_id, std::int64_t, std::int64_t>, std::size_t> index;
  const auto op_at = [&](position at) {
    return at < 0 || at >= uses.end() ? -1 : std::int64_t{uses.order[static_cast<std::size_t>(at)].op};
  };
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    const gap& e = gaps[x];
    const auto [at, fresh] =
        index.try_emplace({uses.parts[e.part].tensor, op_at(e.last_use), op_at(e.next_use)}, classes.size());
    if (fresh) classes.push_back({{}, 0, true});
    gap_class& c = classes[at->second];
    const byte_count bytes = uses.parts[e.part].bytes;
    c.gaps.push_back(x);
    c.bytes = std::max(c.bytes, bytes);
    c.is_recomputable = c.is_recomputable && e.is_recomputable;
    if (e.is_recomputable) c.recompute_time += costs.recompute_time(e.producer);
    if (e.next_use < uses.end()) c.copy_time += costs.copy_time(bytes, lane::to_device);
    if (!e.has_host_copy) c.copy_time += costs.copy_time(bytes, lane::to_host);
  }
  return classes;
}

// Returns a memory's number for each tensor. Tensors that take one memory if none of them is staged have the
// same number, that of the first.
std::vector<tensor_id> memory_of_tensors(const graph& g, const forecaster& costs) {
  std::vector<tensor_id> memory(g.tensors.size());
  std::iota(memory.begin(), memory.end(), tensor_id{0});
  for (const joined_tensors& x : costs.joined()) memory[x.output] = memory[x.input];  // earlier ones first
  return memory;
}

// As search_space::min_memory(). Of tensors with the same memory it counts only the largest of those that
// cannot leave.
byte_count min_memory_of(const graph& g, const use_table& uses, const std::vector<gap>& gaps,
                         const forecaster& costs, bool may_swap) {
  std::vector<bool> may_leave(g.tensors.size(), false);
  for (const gap& e : gaps) may_leave[uses.parts[e.part].tensor] = may_swap;
  const auto stays = [&](tensor_id t) { return !may_leave[t] && keeps_memory(g, t); };
  const std::vector<tensor_id> memory = memory_of_tensors(g, costs);
  std::vector<byte_count> bytes(g.tensors.size());  // per tensor
  std::vector<byte_count> kept(g.tensors.size());   // per number of a memory
  for (const tensor_part& x : uses.parts) bytes[x.tensor] += stays(x.tensor) ? x.bytes : 0;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) kept[memory[t]] = std::max(kept[memory[t]], bytes[t]);
  const byte_count staying = std::accumulate(kept.begin(), kept.end(), byte_count{0});
  byte_count most = 0;
  for (position at = 0; at < uses.end(); ++at) {
    const op& o = g.ops[uses.order[static_cast<std::size_t>(at)].op];
    const auto counts = [&](part_id x) {
      const tensor_id t = uses.parts[x].tensor;
      return kept[memory[t]] == 0 && !(o.alias && t == o.in[o.alias->input] && stays(o.out[o.alias->output]));
    };
    most = std::max(most, touched_bytes(g, uses, at, counts));
  }
  return staying + most;
}

}  // namespace

nanoseconds copy_price(const problem& p, byte_count to_device, byte_count to_host, std::int64_t copies) {
  const auto time_of = [&](byte_count bytes, std::uint64_t rate) {
    return bytes == 0 || rate == 0 ? 0 : p.target.copy_ns + time_at(bytes, rate);
  };
  const nanoseconds copying = time_of(to_device, p.target.link_to_device_bytes_per_s) +
                              time_of(to_host, p.target.link_to_host_bytes_per_s);
  return copying / 100 * p.knobs.at("copies") + copies * p.knobs.at("copy_us") * 1000;
}

search_space::search_space(const problem& p, std::vector<compute> order, bool may_swap, memory_waits waits)
    : p_(p),
      uses_(make_use_table(p.network, std::move(order))),
      gaps_(find_gaps(p.network, uses_)),
      builder_(p.network, uses_, gaps_),
      forecast_(p, uses_),
      evaluator_(uses_, gaps_, builder_, forecast_),
      transfer_placer_(forecast_, uses_, gaps_, copy_slack_of(p)),
      may_swap_(may_swap && p.target.link_to_device_bytes_per_s > 0 && p.target.link_to_host_bytes_per_s > 0),
      decisions_(gaps_.size()),
      timing_(gaps_.size(), swap_timing::none),
      swap_counts_(p.network.tensors.size(), 0),
      staged_tensors_(p.network.tensors.size(), false) {
  forecast_.set_waits(waits);
  classes_ = find_gap_classes(uses_, gaps_, forecast_);
  min_memory_ = min_memory_of(p.network, uses_, gaps_, forecast_, may_swap_);
  if (fits_swaps(p.network, waits) && gaps_.size() < few_gaps) swap_fitter_.emplace(uses_, gaps_);
  for (position at = 0; at < uses_.end(); ++at) compute_time_ += forecast_.compute_time(at);
}

bool search_space::allows(std::size_t c, treatment how) const {
  if (recomputes(how)) return classes_[c].is_recomputable;
  return how == treatment::keep || may_swap_;
}

decision search_space::decision_for(treatment how, std::uint32_t gap_index) const {
  const gap& e = gaps_[gap_index];
  if (swaps(how)) return {gap_choice::swap, e.last_use, e.next_use};
  if (!recomputes(how)) return {};
  return {gap_choice::recompute, e.last_use, how == treatment::recompute ? e.next_use : e.last_use};
}

std::vector<decision> search_space::decisions_for(const std::vector<treatment>& treatments,
                                                  byte_count budget) {
  if (swap_fitter_) {
    memory_of(treatments, budget);
    return decisions_;
  }
  std::vector<decision> all(gaps_.size());
  std::vector<swap_timing> timing(gaps_.size(), swap_timing::none);
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    for (const std::uint32_t x : classes_[c].gaps) {
      all[x] = decision_for(treatments[c], x);
      timing[x] = timing_of(treatments[c]);
    }
  }
  transfer_placer_.place(timing, all);
  return all;
}

// --- evaluation ---

evaluation search_space::memory_of(const std::vector<treatment>& treatments, byte_count budget) {
  // Work in units of one event: visiting a position takes as long as reading about `of_visit` events.
  constexpr std::uint64_t of_visit = 8, of_evaluation = 32;
  const std::uint64_t visited = evaluator_.visited_count();
  if (differs_widely(treatments)) {
    restart_from(treatments);
    if (!evaluator_.rebuild(decisions_, staged_tensors_, budget, max_events(uses_))) {
      work_ += of_visit * (evaluator_.visited_count() - visited);
      current_.clear();
      totals_ = {};
      return too_long;
    }
  }
  undo_evaluated();
  apply_treatments(treatments);
  totals_ = evaluator_.evaluate(decisions_, staged_tensors_, changed_gaps_, budget);
  if (swap_fitter_) work_ += gaps_.size() / 8 + 4 * transfer_placer_.swapped_gaps().size();
  if (swap_fitter_ && totals_.excess > 0 &&
      swap_fitter_->fit(transfer_placer_.swapped_gaps(), timing_, evaluator_.new_live_at_positions(), budget,
                        decisions_)) {
    record_changed_swaps();
    totals_ = evaluator_.evaluate(decisions_, staged_tensors_, changed_gaps_, budget);
    work_ += of_evaluation + uses_.order.size() / 2;
  }
  work_ += of_evaluation + of_visit * (evaluator_.visited_count() - visited);
  if (totals_.event_count > max_events(uses_)) return too_long;
  evaluation e;
  e.forecast.peak = totals_.peak;
  e.peak_excess = totals_.peak - std::min(totals_.peak, budget);
  e.excess = static_cast<double>(totals_.excess);
  e.min_time = totals_.compute_time + copy_price(p_, totals_.fetched_bytes, 0, totals_.fetch_count);
  return e;
}

// Whether a rebuild is faster, since many treatments differ from the current ones.
bool search_space::differs_widely(const std::vector<treatment>& treatments) const {
  constexpr std::size_t share = 8;
  if (current_.empty()) return true;
  std::size_t differ = 0;
  for_each_difference(treatments, current_, [&](std::size_t) { ++differ; });
  return differ > 16 + treatments.size() / share;
}

// Makes these treatments both the current and the evaluated ones.
void search_space::restart_from(const std::vector<treatment>& treatments) {
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    update_swap_timing(c, treatments[c]);
    for (const std::uint32_t x : classes_[c].gaps) decisions_[x] = decision_for(treatments[c], x);
  }
  current_ = evaluated_ = treatments;
  place_swaps();
  changed_gaps_.clear();
}

void search_space::update_swap_timing(std::size_t c, treatment how) {
  const tensor_id t = uses_.parts[gaps_[classes_[c].gaps.front()].part].tensor;
  const swap_timing now = timing_of(how);
  for (const std::uint32_t x : classes_[c].gaps) {
    if (timing_[x] != swap_timing::none) --swap_counts_[t];
    if (now != swap_timing::none) ++swap_counts_[t];
    timing_[x] = now;
  }
  staged_tensors_[t] = swap_counts_[t] > 0;
}

void search_space::undo_evaluated() {
  for (const std::uint32_t x : changed_gaps_) decisions_[x] = evaluator_.decisions()[x];
  changed_gaps_.clear();
  for_each_difference(evaluated_, current_, [&](std::size_t c) {
    if (swaps(evaluated_[c]) || swaps(current_[c])) update_swap_timing(c, current_[c]);
    evaluated_[c] = current_[c];
  });
}

void search_space::apply_treatments(const std::vector<treatment>& treatments) {
  bool moves_change = swap_fitter_.has_value();
  for_each_difference(treatments, evaluated_, [&](std::size_t c) {
    const bool swapped = swaps(treatments[c]) || swaps(evaluated_[c]);
    moves_change = moves_change || swapped;
    if (swapped) update_swap_timing(c, treatments[c]);
    evaluated_[c] = treatments[c];
    for (const std::uint32_t x : classes_[c].gaps) {
      decisions_[x] = decision_for(treatments[c], x);
      changed_gaps_.push_back(x);
    }
  });
  if (moves_change) place_swaps();
}

void search_space::place_swaps() {
  transfer_placer_.place(
      timing_, decisions_,
      swap_fitter_ ? swap_fitter_->find_first_readers(decisions_) : std::span<const position>{});
  record_changed_swaps();
}

void search_space::record_changed_swaps() {
  std::erase_if(changed_gaps_, [&](std::uint32_t x) { return timing_[x] != swap_timing::none; });
  for (const std::uint32_t x : transfer_placer_.swapped_gaps()) {
    if (decisions_[x] != evaluator_.decisions()[x]) changed_gaps_.push_back(x);
  }
}

void search_space::add_time(evaluation& e, nanoseconds max_time) {
  e.has_time = true;
  if (totals_.transfer_count == 0) {  // no copies, so no waits
    e.forecast.time = totals_.compute_time;
    e.forecast.recompute_time = totals_.recompute_time;
    return;
  }
  const std::span<const event> events = evaluator_.new_events();
  const memory_profile memory{
      forecast_.reads_live_bytes() ? evaluator_.new_live_bytes() : std::span<const byte_count>{},
      totals_.peak};
  const nanoseconds least_price = e.min_time - totals_.compute_time;
  static_cast<lane_totals&>(e.forecast) =
      forecast_.forecast_time(events, staged_tensors_, memory, max_time - least_price);
  work_ += 2 * events.size();
  e.forecast.time +=
      copy_price(p_, e.forecast.bytes_to_device, e.forecast.bytes_to_host, e.forecast.copy_count);
}

void search_space::make_current(const std::vector<treatment>& treatments, byte_count budget) {
  if (treatments != evaluated_) memory_of(treatments, budget);
  if (current_.empty()) return;  // their list is too long
  evaluator_.accept();
  changed_gaps_.clear();
  current_ = evaluated_;
}

bool search_space::spans_position(std::size_t c, position at) const {
  return std::ranges::any_of(
      classes_[c].gaps, [&](std::uint32_t x) { return gaps_[x].last_use < at && at < gaps_[x].next_use; });
}

memory_plan search_space::plan(const std::vector<decision>& decisions) const {
  return make_plan(p_.network, uses_, gaps_, decisions);
}

std::optional<nanoseconds> forecast_time(const search_space& of, const std::vector<decision>& decisions,
                                         byte_count budget) {
  const std::vector<bool> staged_tensors = find_staged_tensors(of.uses(), of.gaps(), decisions);
  event_builder builder(of.of_problem().network, of.uses(), of.gaps());
  forecaster costs(of.of_problem(), of.uses());
  const prediction found = costs.forecast(builder.build(decisions, staged_tensors), staged_tensors);
  if (found.peak > budget) return std::nullopt;
  return found.time +
         copy_price(of.of_problem(), found.bytes_to_device, found.bytes_to_host, found.copy_count);
}

std::uint64_t computes_if_all_recomputed(const use_table& uses, const std::vector<gap>& gaps) {
  std::vector<position> producer(uses.parts.size(), -1);  // per part: position that recomputes it; -1: none
  for (const gap& e : gaps) {
    if (e.is_recomputable) producer[e.part] = e.producer;
  }
  std::vector<std::uint64_t> chain(
      uses.order.size(),
      1);  // per position: length of the chain of recomputations that ends with it
  for (position at = 0; at < uses.end(); ++at) {
    for (const touched_part& x : uses.touched_by_recompute(at)) {
      const position by = producer[x.part];
      if (x.mode != access_mode::read || by < 0 || by >= at) continue;
      chain[static_cast<std::size_t>(at)] =
          std::max(chain[static_cast<std::size_t>(at)], chain[static_cast<std::size_t>(by)] + 1);
    }
  }
  std::uint64_t all = uses.order.size();
  for (const gap& e : gaps) all += e.is_recomputable ? chain[static_cast<std::size_t>(e.producer)] : 0;
  return all;
}

}  // namespace um
