#include "schedule/event_list.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace um {
namespace {

constexpr std::int64_t no_bytes =
    std::numeric_limits<std::int64_t>::min() / 4;  // stands for the maximum of an empty range

void merge_summary(live_summary& into, const live_summary& other) {
  into.peak = std::max(into.peak, other.peak);
  into.excess += other.excess;
}

}  // namespace

live_summary summarize_live(const live_tree::relative_live_bytes& relative_live, std::int64_t live_before,
                            std::int64_t budget) {
  live_summary found{no_bytes, 0};
  for (const std::int64_t bytes : relative_live) {
    found.peak = std::max(found.peak, live_before + bytes);
    if (live_before + bytes > budget)
      found.excess += static_cast<std::uint64_t>(live_before + bytes - budget);
  }
  return found;
}

live_tree::live_tree(std::size_t positions) : relative_live_bytes_(positions) {
  while (leaf_count_ < positions) leaf_count_ *= 2;
  nodes_.assign(2 * leaf_count_, {no_bytes, -no_bytes, 0, 0, 0});
}

void live_tree::assign(std::vector<relative_live_bytes> live, std::span<const std::int64_t> before) {
  relative_live_bytes_ = std::move(live);
  nodes_.assign(2 * leaf_count_, {no_bytes, -no_bytes, 0, 0, 0});
  for (std::size_t i = 0; i < relative_live_bytes_.size(); ++i) {
    nodes_[leaf_count_ + i].added = before[i];
    summarize_leaf(leaf_count_ + i);
  }
  for (std::size_t k = leaf_count_; k-- > 1;) update_node(k);
}

void live_tree::exchange(position at, relative_live_bytes& live, std::int64_t before) {
  const std::size_t leaf = leaf_count_ + static_cast<std::size_t>(at);
  std::swap(relative_live_bytes_[static_cast<std::size_t>(at)], live);
  nodes_[leaf].added += before - this->live_before(at);
  summarize_leaf(leaf);
  for (std::size_t k = leaf / 2; k > 0; k /= 2) update_node(k);
}

void live_tree::summarize_leaf(std::size_t leaf) {
  node& n = nodes_[leaf];
  n = {no_bytes, -no_bytes, 0, n.added, 0};
  for (const std::int64_t bytes : relative_live_bytes_[leaf - leaf_count_]) {
    n.max_live = std::max(n.max_live, bytes + n.added);
    n.min_live = std::min(n.min_live, bytes + n.added);
    n.sum_live += bytes + n.added;
    ++n.event_count;
  }
}

void live_tree::update_node(std::size_t k) {
  node& n = nodes_[k];
  const node &a = nodes_[2 * k], &b = nodes_[2 * k + 1];
  n.event_count = a.event_count + b.event_count;
  n.max_live = std::max(a.max_live, b.max_live) + n.added;
  n.min_live = std::min(a.min_live, b.min_live) + n.added;
  n.sum_live = a.sum_live + b.sum_live + n.event_count * n.added;
}

void live_tree::add_to_subtree(std::size_t k, std::int64_t bytes) {
  node& n = nodes_[k];
  n.added += bytes;
  n.max_live += bytes;
  n.min_live += bytes;
  n.sum_live += n.event_count * bytes;
}

void live_tree::add(position begin, position end, std::int64_t bytes) {
  if (begin < end)
    add(1, 0, leaf_count_, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), bytes);
}

void live_tree::add(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
                    std::int64_t bytes) {
  if (begin <= from && to <= end) return add_to_subtree(k, bytes);
  const std::size_t middle = (from + to) / 2;
  if (begin < middle) add(2 * k, from, middle, begin, end, bytes);
  if (end > middle) add(2 * k + 1, middle, to, begin, end, bytes);
  update_node(k);
}

std::span<const std::int64_t> live_tree::live_before_each() {
  added_above_.assign(nodes_.size(), 0);
  for (std::size_t k = 1; k < nodes_.size(); ++k) added_above_[k] = added_above_[k / 2] + nodes_[k].added;
  return std::span(added_above_).subspan(leaf_count_);
}

std::int64_t live_tree::live_before(position at) const {
  std::int64_t bytes = 0;
  for (std::size_t k = leaf_count_ + static_cast<std::size_t>(at); k > 0; k /= 2) bytes += nodes_[k].added;
  return bytes;
}

live_summary live_tree::summarize(position begin, position end, std::int64_t added,
                                  std::int64_t budget) const {
  live_summary found{no_bytes, 0};
  if (begin < end)
    summarize(1, 0, leaf_count_, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), added,
              budget, found);
  return found;
}

// `added`: bytes that the nodes above node k add.
void live_tree::summarize(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
                          std::int64_t added, std::int64_t budget, live_summary& found) const {
  const node& n = nodes_[k];
  if (n.event_count == 0) return;
  if (begin <= from && to <= end) {
    if (n.max_live + added <= budget) return merge_summary(found, {n.max_live + added, 0});
    if (n.min_live + added >= budget) {
      const std::int64_t beyond = n.sum_live + n.event_count * (added - budget);
      return merge_summary(found, {n.max_live + added, static_cast<std::uint64_t>(beyond)});
    }
    if (k >= leaf_count_)
      return merge_summary(
          found, um::summarize_live(relative_live_bytes_[k - leaf_count_], n.added + added, budget));
  }
  const std::size_t middle = (from + to) / 2;
  if (begin < middle) summarize(2 * k, from, middle, begin, end, added + n.added, budget, found);
  if (end > middle) summarize(2 * k + 1, middle, to, begin, end, added + n.added, budget, found);
}

position live_tree::first_reaching(std::int64_t bytes) const {
  std::size_t k = 1;
  if (nodes_[1].max_live < bytes) return static_cast<position>(relative_live_bytes_.size());
  std::int64_t added = 0;
  while (k < leaf_count_) {
    added += nodes_[k].added;
    k = nodes_[2 * k].max_live + added >= bytes ? 2 * k : 2 * k + 1;
  }
  return static_cast<position>(k - leaf_count_);
}

void add_to_totals(list_totals& all, const list_totals& one) {
  all.compute_time += one.compute_time;
  all.recompute_time += one.recompute_time;
  all.fetched_bytes += one.fetched_bytes;
  all.fetch_count += one.fetch_count;
  all.transfer_count += one.transfer_count;
  all.event_count += one.event_count;
}
void subtract_from_totals(list_totals& all, const list_totals& one) {
  all.compute_time -= one.compute_time;
  all.recompute_time -= one.recompute_time;
  all.fetched_bytes -= one.fetched_bytes;
  all.fetch_count -= one.fetch_count;
  all.transfer_count -= one.transfer_count;
  all.event_count -= one.event_count;
}

event_list::event_list(const use_table& uses, event_builder& events, forecaster& costs)
    : uses_(uses),
      builder_(events),
      forecaster_(costs),
      blocks_(uses.order.size()),
      recomputed_before_(uses.order.size()),
      live_bytes_(uses.order.size()) {}

void event_list::rebuild(std::span<const decision> decisions, const std::vector<bool>& staged_tensors,
                         byte_count budget, std::int64_t max_events) {
  part_states& states = builder_.states();
  builder_.set_decisions(decisions, staged_tensors);
  for (auto& all : recomputed_before_) all.clear();
  std::int64_t alive = 0;
  for (part_id p = 0; p < uses_.parts.size(); ++p) {
    const part_state s = builder_.initial_state(p, staged_tensors[uses_.parts[p].tensor]);
    states.reset_history(p, s);
    if ((s & occupies_memory) != 0) alive += static_cast<std::int64_t>(uses_.parts[p].bytes);
  }
  alive -= static_cast<std::int64_t>(forecaster_.joined_bytes(staged_tensors));
  totals_ = {};
  std::vector<live_tree::relative_live_bytes> live(uses_.order.size());
  std::vector<std::int64_t> before(uses_.order.size());
  for (position at = 0; at < uses_.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    states.begin_step(at);
    before[i] = alive;
    const std::span<const event> made = builder_.build_position(at);
    fill_block(blocks_[i], made, staged_tensors);
    add_to_totals(totals_, blocks_[i].totals);
    if (totals_.event_count > max_events) return;
    replace_recomputes({}, blocks_[i].events, at);
    live[i] = std::move(blocks_[i].live_bytes);
    for (const auto& [p, was, listed] : states.queried_parts()) {
      const part_state is = states.state_of(p);
      if (is == was) continue;
      states.record_change(p, at, was, is);
      const int here = ((is & occupies_memory) != 0 ? 1 : 0) - ((was & occupies_memory) != 0 ? 1 : 0);
      alive += here * static_cast<std::int64_t>(uses_.parts[p].bytes);
    }
  }
  live_bytes_.assign(std::move(live), before);
  recount_excess(budget);
}

void event_list::recount_excess(byte_count budget) {
  budget_ = budget;
  const live_summary all = live_bytes_.summarize(0, uses_.end(), 0, static_cast<std::int64_t>(budget));
  totals_.peak = static_cast<byte_count>(all.peak);
  totals_.excess = all.excess;
}

void event_list::fill_block(position_block& b, std::span<const event> made,
                            const std::vector<bool>& staged_tensors) {
  b.events.assign(made.begin(), made.end());
  const std::span<const byte_count> relative_live =
      forecaster_.live_bytes_within(b.events, staged_tensors, builder_.states().queried_parts());
  b.live_bytes.assign(relative_live.begin(), relative_live.end());
  b.totals = {};
  b.totals.event_count = static_cast<std::int64_t>(made.size());
  std::int64_t reserved = 0;
  for (const event& e : b.events) {
    if (e.kind == event_kind::compute) {
      const nanoseconds time = forecaster_.compute_time(e);
      b.totals.compute_time += time;
      if (e.is_recompute) {
        b.totals.recompute_time += time;
      } else {
        reserved = static_cast<std::int64_t>(forecaster_.reserved(static_cast<position>(e.subject)));
      }
    } else if (e.kind != event_kind::discard) {
      ++b.totals.transfer_count;
      if (e.kind == event_kind::evict) continue;
      ++b.totals.fetch_count;
      b.totals.fetched_bytes += uses_.parts[e.subject].bytes;
    }
  }
  for (std::int64_t& bytes : b.live_bytes) bytes += reserved;
}

void event_list::exchange_block(position at, position_block& other, std::int64_t before) {
  position_block& mine = blocks_[static_cast<std::size_t>(at)];
  replace_recomputes(mine.events, other.events, at);
  std::swap(mine.events, other.events);
  std::swap(mine.totals, other.totals);
  live_bytes_.exchange(at, other.live_bytes, before);
}

// Updates recomputed_before_ for the exchanged events of a position. Recomputations there are in order, and
// most of them stay.
void event_list::replace_recomputes(std::span<const event> old, std::span<const event> now, position at) {
  const auto find_next = [](std::span<const event>& all) {
    while (!all.empty() && (all.front().kind != event_kind::compute || !all.front().is_recompute))
      all = all.subspan(1);
    return all.empty() ? std::numeric_limits<std::uint32_t>::max() : all.front().subject;
  };
  for (;;) {
    const std::uint32_t was = find_next(old), is = find_next(now);
    if (old.empty() && now.empty()) return;
    std::vector<position>& all = recomputed_before_[std::min(was, is)];
    if (was < is) all.erase(std::ranges::lower_bound(all, at));
    if (is < was) all.insert(std::ranges::lower_bound(all, at), at);
    if (was <= is) old = old.subspan(1);
    if (is <= was) now = now.subspan(1);
  }
}

position event_list::peak_position() const {
  const position at = live_bytes_.first_reaching(static_cast<std::int64_t>(totals_.peak));
  if (at >= uses_.end()) return uses_.end() - 1;
  const position_block& b = blocks_[static_cast<std::size_t>(at)];
  const std::int64_t before = live_bytes_.live_before(at);
  const live_tree::relative_live_bytes& relative_live = live_bytes_.live_at(at);
  for (std::size_t i = 0; i < b.events.size(); ++i) {
    if (before + relative_live[i] >= static_cast<std::int64_t>(totals_.peak)) return at;
    if (b.events[i].kind == event_kind::compute && !b.events[i].is_recompute) break;
  }
  return std::min(at + 1, uses_.end() - 1);
}

}  // namespace um
