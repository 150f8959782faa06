#include "schedule/live_tree.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace um {
namespace {

constexpr std::int64_t no_bytes =
    std::numeric_limits<std::int64_t>::min() / 4;  // less than any number of bytes alive

void merge_summary(live_summary& into, const live_summary& other) {
  into.peak = std::max(into.peak, other.peak);
  into.excess += other.excess;
}

}  // namespace

live_summary summarize_live(const live_tree::live_at_events& live, std::int64_t before, std::int64_t budget) {
  live_summary found{no_bytes, 0};
  for (const std::int64_t bytes : live) {
    found.peak = std::max(found.peak, before + bytes);
    if (before + bytes > budget) found.excess += static_cast<std::uint64_t>(before + bytes - budget);
  }
  return found;
}

live_tree::live_tree(std::size_t positions) : live_at_events_(positions) {
  while (leaf_count_ < positions) leaf_count_ *= 2;
  nodes_.assign(2 * leaf_count_, {no_bytes, -no_bytes, 0, 0, 0});
}

void live_tree::assign(std::vector<live_at_events> live, std::span<const std::int64_t> before) {
  live_at_events_ = std::move(live);
  nodes_.assign(2 * leaf_count_, {no_bytes, -no_bytes, 0, 0, 0});
  for (std::size_t i = 0; i < live_at_events_.size(); ++i) {
    nodes_[leaf_count_ + i].added = before[i];
    summarize_leaf(leaf_count_ + i);
  }
  for (std::size_t k = leaf_count_; k-- > 1;) update_node(k);
}

void live_tree::replace(position at, live_at_events live, std::int64_t before) {
  const std::size_t leaf = leaf_count_ + static_cast<std::size_t>(at);
  live_at_events_[static_cast<std::size_t>(at)] = std::move(live);
  nodes_[leaf].added += before - this->live_before(at);
  summarize_leaf(leaf);
  for (std::size_t k = leaf / 2; k > 0; k /= 2) update_node(k);
}

void live_tree::summarize_leaf(std::size_t leaf) {
  node& n = nodes_[leaf];
  n = {no_bytes, -no_bytes, 0, n.added, 0};
  for (const std::int64_t bytes : live_at_events_[leaf - leaf_count_]) {
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

std::int64_t live_tree::live_before(position at) const {
  std::int64_t bytes = 0;
  for (std::size_t k = leaf_count_ + static_cast<std::size_t>(at); k > 0; k /= 2) bytes += nodes_[k].added;
  return bytes;
}

live_summary live_tree::summarize(position begin, position end, std::int64_t more,
                                  std::int64_t budget) const {
  live_summary found{no_bytes, 0};
  if (begin < end)
    summarize(1, 0, leaf_count_, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), more, budget,
              found);
  return found;
}

// `more`: bytes that the nodes above add.
void live_tree::summarize(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
                          std::int64_t more, std::int64_t budget, live_summary& found) const {
  const node& n = nodes_[k];
  if (n.event_count == 0) return;
  if (begin <= from && to <= end) {
    if (n.max_live + more <= budget) return merge_summary(found, {n.max_live + more, 0});
    if (n.min_live + more >= budget) {
      const std::int64_t beyond = n.sum_live + n.event_count * (more - budget);
      return merge_summary(found, {n.max_live + more, static_cast<std::uint64_t>(beyond)});
    }
    if (k >= leaf_count_)
      return merge_summary(found,
                           um::summarize_live(live_at_events_[k - leaf_count_], n.added + more, budget));
  }
  const std::size_t middle = (from + to) / 2;
  if (begin < middle) summarize(2 * k, from, middle, begin, end, more + n.added, budget, found);
  if (end > middle) summarize(2 * k + 1, middle, to, begin, end, more + n.added, budget, found);
}

position live_tree::first_reaching(std::int64_t bytes) const {
  std::size_t k = 1;
  if (nodes_[1].max_live < bytes) return static_cast<position>(live_at_events_.size());
  std::int64_t more = 0;
  while (k < leaf_count_) {
    more += nodes_[k].added;
    k = nodes_[2 * k].max_live + more >= bytes ? 2 * k : 2 * k + 1;
  }
  return static_cast<position>(k - leaf_count_);
}

}  // namespace um
