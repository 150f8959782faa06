#include "planners/torch_checkpoints.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace um {
namespace {

// Cuts of the forward graph after some of its nodes. Positions count computed forward nodes.
class graph_cuts {
 public:
  explicit graph_cuts(const torch_dataflow& dataflow);
  // Positions of the cuts that make this many parts. Each cut is the position that the fewest bytes cross,
  // among those at which parts have about equal sizes; of equal ones the nearest to the middle.
  std::vector<std::size_t> cuts_into_parts(std::size_t parts) const;
  const std::vector<std::int64_t>& crossing_bytes() const { return crossing_bytes_; }
  // All positions.
  std::vector<std::size_t> all_positions() const {
    std::vector<std::size_t> found(order_.size());
    std::iota(found.begin(), found.end(), 0);
    return found;
  }
  // The tensors to save: those that cross a cut, and those produced after the last cut.
  std::vector<torch_id> tensors_to_save(const std::vector<std::size_t>& ends) const;

 private:
  struct lifetime {
    torch_id tensor = no_node;
    std::size_t produced = 0, last_read = 0;
  };
  void find_lifetimes();

  const torch_dataflow& flow_;
  std::vector<torch_id> order_;
  std::vector<lifetime> lifetimes_;
  std::vector<std::int64_t> crossing_bytes_;  // per position: bytes produced up to it and read after it
  std::vector<std::int64_t> written_bytes_;   // per position: bytes that library calls have written up to it
};

graph_cuts::graph_cuts(const torch_dataflow& dataflow) : flow_(dataflow) {
  torch_orders orders(dataflow);  // leaves out nodes that only the backward graph needs
  orders.set_fates(std::vector<torch_fate>(dataflow.memory_owner.size(), torch_fate::recomputed));
  std::int64_t written = 0;
  for (const torch_id v : order_ = orders.forward) {
    if (dataflow.at(dataflow.producer(v)).kind == torch_kind::kernel) written += dataflow.at(v).bytes;
    written_bytes_.push_back(written);
  }
  find_lifetimes();
}

void graph_cuts::find_lifetimes() {
  std::vector<std::size_t> span_of(flow_.memory_owner.size(), SIZE_MAX);
  for (std::size_t p = 0; p < order_.size(); ++p) {
    const torch_id v = order_[p];
    for (const torch_id b : flow_.sources[v]) {
      if (span_of[b] != SIZE_MAX) lifetimes_[span_of[b]].last_read = p;
    }
    if (flow_.at(v).bytes == 0) continue;
    span_of[v] = lifetimes_.size();
    lifetimes_.push_back({v, p, p});
  }
  crossing_bytes_.assign(order_.size() + 1, 0);
  for (const lifetime& each : lifetimes_) {
    crossing_bytes_[each.produced] += flow_.at(each.tensor).bytes;
    crossing_bytes_[each.last_read] -= flow_.at(each.tensor).bytes;
  }
  for (std::size_t p = 1; p < crossing_bytes_.size(); ++p) crossing_bytes_[p] += crossing_bytes_[p - 1];
}

std::vector<std::size_t> graph_cuts::cuts_into_parts(std::size_t parts) const {
  std::vector<std::size_t> found;
  if (order_.empty()) return found;
  const auto position = [&](std::size_t halves) {
    const auto bytes =
        written_bytes_.back() * static_cast<std::int64_t>(halves) / static_cast<std::int64_t>(2 * parts);
    return std::ranges::lower_bound(written_bytes_, bytes) - written_bytes_.begin();
  };
  for (std::size_t part = 1; part < parts; ++part) {
    const auto middle = position(2 * part), end = position(2 * part + 1);
    auto best = middle;
    for (auto p = position(2 * part - 1); p < end; ++p) {
      const auto bytes = crossing_bytes_[static_cast<std::size_t>(p)],
                 least = crossing_bytes_[static_cast<std::size_t>(best)];
      if (bytes < least || (bytes == least && std::abs(p - middle) < std::abs(best - middle))) best = p;
    }
    found.push_back(static_cast<std::size_t>(best));
  }
  return found;
}

std::vector<torch_id> graph_cuts::tensors_to_save(const std::vector<std::size_t>& ends) const {
  std::vector<torch_id> saved;
  for (const lifetime& each : lifetimes_) {
    const auto next = std::ranges::lower_bound(ends, each.produced);
    if (next == ends.end() || *next < each.last_read) saved.push_back(each.tensor);
  }
  return saved;
}

}  // namespace

std::vector<std::size_t> find_valleys(const std::vector<std::int64_t>& heights,
                                      const std::vector<std::size_t>& positions) {
  constexpr std::int64_t tenths = 12;  // in tenths: a valley's sides are a fifth higher than its bottom
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

std::vector<std::vector<torch_id>> torch_checkpoints(const torch_dataflow& dataflow) {
  const graph_cuts all(dataflow);
  std::vector<std::vector<std::size_t>> choices;
  for (const std::size_t parts : {2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48})
    choices.push_back(all.cuts_into_parts(parts));
  std::vector<std::size_t> valleys = all.all_positions();
  for (int level = 0; level < 3; ++level) {
    valleys = find_valleys(all.crossing_bytes(), valleys);
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
      if (!ends.empty()) found.push_back(all.tensors_to_save(ends));
    }
  }
  return found;
}

}  // namespace um
