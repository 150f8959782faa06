#include "planners/torch_checkpoints.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace um {
namespace {

// The forward graph cut behind some of its nodes. Positions count computed forward nodes.
class borders {
 public:
  explicit borders(const torch_wiring& wiring);
  // The border behind each part but the last: where tensors of the fewest bytes cross, among the places at
  // which parts are about equally large; of equal ones the nearest to the middle.
  std::vector<std::size_t> between(std::size_t parts) const;
  const std::vector<std::int64_t>& crossing() const { return crossing_; }
  // All positions.
  std::vector<std::size_t> everywhere() const {
    std::vector<std::size_t> found(order_.size());
    std::iota(found.begin(), found.end(), 0);
    return found;
  }
  // The tensors to save: those that are read behind a border after they were made before it, and those made
  // behind the last border.
  std::vector<torch_id> saved_at(const std::vector<std::size_t>& ends) const;

 private:
  struct span {
    torch_id tensor = no_node;
    std::size_t made = 0, last_read = 0;
  };
  void find_spans();

  const torch_wiring& wiring_;
  std::vector<torch_id> order_;
  std::vector<span> spans_;
  std::vector<std::int64_t> crossing_;  // bytes, behind each position
  std::vector<std::int64_t> written_;   // bytes that library calls have written until then
};

borders::borders(const torch_wiring& wiring) : wiring_(wiring) {
  torch_orders orders(wiring);  // without nodes that the backward graph alone needs
  orders.choose(std::vector<torch_fate>(wiring.root.size(), torch_fate::again));
  std::int64_t written = 0;
  for (const torch_id v : order_ = orders.forward) {
    if (wiring.at(wiring.maker(v)).kind == torch_kind::kernel) written += wiring.at(v).bytes;
    written_.push_back(written);
  }
  find_spans();
}

void borders::find_spans() {
  std::vector<std::size_t> span_of(wiring_.root.size(), SIZE_MAX);
  for (std::size_t p = 0; p < order_.size(); ++p) {
    const torch_id v = order_[p];
    for (const torch_id b : wiring_.sources[v]) {
      if (span_of[b] != SIZE_MAX) spans_[span_of[b]].last_read = p;
    }
    if (wiring_.at(v).bytes == 0) continue;
    span_of[v] = spans_.size();
    spans_.push_back({v, p, p});
  }
  crossing_.assign(order_.size() + 1, 0);
  for (const span& each : spans_) {
    crossing_[each.made] += wiring_.at(each.tensor).bytes;
    crossing_[each.last_read] -= wiring_.at(each.tensor).bytes;
  }
  for (std::size_t p = 1; p < crossing_.size(); ++p) crossing_[p] += crossing_[p - 1];
}

std::vector<std::size_t> borders::between(std::size_t parts) const {
  std::vector<std::size_t> found;
  if (order_.empty()) return found;
  const auto position = [&](std::size_t halves) {
    const auto bytes =
        written_.back() * static_cast<std::int64_t>(halves) / static_cast<std::int64_t>(2 * parts);
    return std::ranges::lower_bound(written_, bytes) - written_.begin();
  };
  for (std::size_t part = 1; part < parts; ++part) {
    const auto middle = position(2 * part), last = position(2 * part + 1);
    auto best = middle;
    for (auto p = position(2 * part - 1); p < last; ++p) {
      const auto bytes = crossing_[static_cast<std::size_t>(p)],
                 least = crossing_[static_cast<std::size_t>(best)];
      if (bytes < least || (bytes == least && std::abs(p - middle) < std::abs(best - middle))) best = p;
    }
    found.push_back(static_cast<std::size_t>(best));
  }
  return found;
}

std::vector<torch_id> borders::saved_at(const std::vector<std::size_t>& ends) const {
  std::vector<torch_id> saved;
  for (const span& each : spans_) {
    const auto next = std::ranges::lower_bound(ends, each.made);
    if (next == ends.end() || *next < each.last_read) saved.push_back(each.tensor);
  }
  return saved;
}

}  // namespace

std::vector<std::size_t> torch_valleys(const std::vector<std::int64_t>& heights,
                                       const std::vector<std::size_t>& positions) {
  constexpr std::int64_t tenths = 12;  // a valley is by a fifth lower than its sides
  std::vector<std::size_t> found;
  std::int64_t low = 0, high = 0;
  std::size_t lowest = 0;
  bool falls = false;
  for (const std::size_t p : positions) {
    const std::int64_t height = heights[p];
    if (falls && 10 * height > tenths * low) {
      found.push_back(lowest);
      falls = false;
      high = height;
    } else if (!falls && tenths * height < 10 * high) {
      falls = true;
      low = height;
      lowest = p;
    }
    if (falls && height < low) {
      low = height;
      lowest = p;
    }
    high = std::max(high, height);
  }
  return found;
}

std::vector<std::vector<torch_id>> torch_checkpoints(const torch_wiring& wiring) {
  const borders all(wiring);
  std::vector<std::vector<std::size_t>> choices;
  for (const std::size_t parts : {2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48})
    choices.push_back(all.between(parts));
  std::vector<std::size_t> valleys = all.everywhere();
  for (int level = 0; level < 3; ++level) {
    valleys = torch_valleys(all.crossing(), valleys);
    for (const std::size_t stride : {1, 2, 3}) {
      choices.emplace_back();
      for (std::size_t i = stride - 1; i < valleys.size(); i += stride) choices.back().push_back(valleys[i]);
    }
  }
  std::vector<std::vector<torch_id>> found;
  for (std::vector<std::size_t>& ends : choices) {
    const std::size_t count = ends.size();
    for (const std::size_t quarters : {4, 3, 2}) {
      ends.resize((count * quarters + 3) / 4);
      if (!ends.empty()) found.push_back(all.saved_at(ends));
    }
  }
  return found;
}

}  // namespace um
