#include "schedule/live_tree.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace um {
namespace {

constexpr std::int64_t no_bytes = std::numeric_limits<std::int64_t>::min() / 4;  // below all that is alive

void join(excess_of& into, const excess_of& other) {
  into.peak = std::max(into.peak, other.peak);
  into.over += other.over;
}

}  // namespace

excess_of over(const live_tree::events_live& live, std::int64_t before, std::int64_t budget) {
  excess_of found{no_bytes, 0};
  for (const std::int64_t bytes : live) {
    found.peak = std::max(found.peak, before + bytes);
    if (before + bytes > budget) found.over += static_cast<std::uint64_t>(before + bytes - budget);
  }
  return found;
}

live_tree::live_tree(std::size_t positions) : live_(positions) {
  while (leaves_ < positions) leaves_ *= 2;
  nodes_.assign(2 * leaves_, {no_bytes, -no_bytes, 0, 0, 0});
}

void live_tree::assign(std::vector<events_live> live, std::span<const std::int64_t> before) {
  live_ = std::move(live);
  nodes_.assign(2 * leaves_, {no_bytes, -no_bytes, 0, 0, 0});
  for (std::size_t i = 0; i < live_.size(); ++i) {
    nodes_[leaves_ + i].more = before[i];
    summarize(leaves_ + i);
  }
  for (std::size_t k = leaves_; k-- > 1;) pull(k);
}

void live_tree::replace(position at, events_live live, std::int64_t before) {
  const std::size_t leaf = leaves_ + static_cast<std::size_t>(at);
  live_[static_cast<std::size_t>(at)] = std::move(live);
  nodes_[leaf].more += before - this->before(at);
  summarize(leaf);
  for (std::size_t k = leaf / 2; k > 0; k /= 2) pull(k);
}

void live_tree::summarize(std::size_t leaf) {
  node& n = nodes_[leaf];
  n = {no_bytes, -no_bytes, 0, n.more, 0};
  for (const std::int64_t bytes : live_[leaf - leaves_]) {
    n.most = std::max(n.most, bytes + n.more);
    n.least = std::min(n.least, bytes + n.more);
    n.sum += bytes + n.more;
    ++n.events;
  }
}

void live_tree::pull(std::size_t k) {
  node& n = nodes_[k];
  const node &a = nodes_[2 * k], &b = nodes_[2 * k + 1];
  n.events = a.events + b.events;
  n.most = std::max(a.most, b.most) + n.more;
  n.least = std::min(a.least, b.least) + n.more;
  n.sum = a.sum + b.sum + n.events * n.more;
}

void live_tree::lift(std::size_t k, std::int64_t bytes) {
  node& n = nodes_[k];
  n.more += bytes;
  n.most += bytes;
  n.least += bytes;
  n.sum += n.events * bytes;
}

void live_tree::add(position begin, position end, std::int64_t bytes) {
  if (begin < end) add(1, 0, leaves_, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), bytes);
}

void live_tree::add(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
                    std::int64_t bytes) {
  if (begin <= from && to <= end) return lift(k, bytes);
  const std::size_t middle = (from + to) / 2;
  if (begin < middle) add(2 * k, from, middle, begin, end, bytes);
  if (end > middle) add(2 * k + 1, middle, to, begin, end, bytes);
  pull(k);
}

std::int64_t live_tree::before(position at) const {
  std::int64_t bytes = 0;
  for (std::size_t k = leaves_ + static_cast<std::size_t>(at); k > 0; k /= 2) bytes += nodes_[k].more;
  return bytes;
}

excess_of live_tree::over(position begin, position end, std::int64_t more, std::int64_t budget) const {
  excess_of found{no_bytes, 0};
  if (begin < end)
    over(1, 0, leaves_, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), more, budget, found);
  return found;
}

// `more`: what the nodes above add, too.
void live_tree::over(std::size_t k, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
                     std::int64_t more, std::int64_t budget, excess_of& found) const {
  const node& n = nodes_[k];
  if (n.events == 0) return;
  if (begin <= from && to <= end) {
    if (n.most + more <= budget) return join(found, {n.most + more, 0});
    if (n.least + more >= budget) {
      const std::int64_t beyond = n.sum + n.events * (more - budget);
      return join(found, {n.most + more, static_cast<std::uint64_t>(beyond)});
    }
    if (k >= leaves_) return join(found, um::over(live_[k - leaves_], n.more + more, budget));
  }
  const std::size_t middle = (from + to) / 2;
  if (begin < middle) over(2 * k, from, middle, begin, end, more + n.more, budget, found);
  if (end > middle) over(2 * k + 1, middle, to, begin, end, more + n.more, budget, found);
}

position live_tree::first_with(std::int64_t bytes) const {
  std::size_t k = 1;
  if (nodes_[1].most < bytes) return static_cast<position>(live_.size());
  std::int64_t more = 0;
  while (k < leaves_) {
    more += nodes_[k].more;
    k = nodes_[2 * k].most + more >= bytes ? 2 * k : 2 * k + 1;
  }
  return static_cast<position>(k - leaves_);
}

}  // namespace um
