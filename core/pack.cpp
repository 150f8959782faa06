#include "core/pack.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

namespace um {
namespace {

struct placed_range {
  byte_count begin = 0, end = 0;
};

// Address ranges already taken by blocks that live at the same time, lowest first.
std::vector<placed_range> neighbours(std::span<const block> blocks, const std::vector<std::size_t>& placed,
                                     const std::vector<byte_count>& offset, const block& b) {
  std::vector<placed_range> taken;
  for (const std::size_t i : placed) {
    if (blocks[i].begin < b.end && b.begin < blocks[i].end) {
      taken.push_back({offset[i], offset[i] + blocks[i].bytes});
    }
  }
  std::sort(taken.begin(), taken.end(), [](const auto& a, const auto& z) { return a.begin < z.begin; });
  return taken;
}

byte_count place(const std::vector<placed_range>& taken, const block& b, packer how) {
  byte_count cursor = 0, best = 0, best_gap = 0;
  bool found = false;
  for (const placed_range& t : taken) {
    const byte_count at = round_up(cursor, b.alignment);
    if (at + b.bytes <= t.begin) {
      const byte_count gap = t.begin - cursor;
      if (how == packer::first_fit) return at;
      if (!found || gap < best_gap) {
        best = at;
        best_gap = gap;
        found = true;
      }
    }
    cursor = std::max(cursor, t.end);
  }
  return found ? best : round_up(cursor, b.alignment);
}

packing pack_in_order(std::span<const block> blocks, const std::vector<std::size_t>& order, packer how) {
  packing result;
  result.offset.assign(blocks.size(), 0);
  std::vector<std::size_t> placed;
  placed.reserve(blocks.size());
  for (const std::size_t i : order) {
    const block& b = blocks[i];
    if (b.bytes == 0 || b.begin >= b.end) continue;
    result.offset[i] = place(neighbours(blocks, placed, result.offset, b), b, how);
    result.bytes = std::max(result.bytes, result.offset[i] + b.bytes);
    placed.push_back(i);
  }
  return result;
}

byte_count peak_live(std::span<const block> blocks) {
  struct change {
    std::uint32_t at;
    bool opens;
    byte_count bytes;
  };
  std::vector<change> changes;
  for (const block& b : blocks) {
    if (b.begin >= b.end) continue;
    changes.push_back({b.begin, true, b.bytes});
    changes.push_back({b.end, false, b.bytes});
  }
  std::sort(changes.begin(), changes.end(),
            [](const change& a, const change& z) { return a.at != z.at ? a.at < z.at : a.opens < z.opens; });
  byte_count live = 0, peak = 0;
  for (const change& c : changes) {
    live = c.opens ? live + c.bytes : live - c.bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace

packing pack(std::span<const block> blocks, packer how) {
  const auto steps = [](const block& b) {
    return static_cast<byte_count>(b.end > b.begin ? b.end - b.begin : 0);
  };
  const std::function<byte_count(const block&)> weights[] = {
      [](const block& b) { return b.bytes; },
      [&](const block& b) { return b.bytes / arena_alignment * steps(b); },
      [&](const block& b) { return steps(b); },
  };
  packing best;
  bool first = true;
  for (const auto& weight : weights) {
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t z) { return weight(blocks[a]) > weight(blocks[z]); });
    packing candidate = pack_in_order(blocks, order, how);
    if (first || candidate.bytes < best.bytes) best = std::move(candidate);
    first = false;
  }
  best.peak_live = peak_live(blocks);
  return best;
}

std::string_view to_text(packer how) {
  return how == packer::first_fit ? "first_fit" : "best_fit";
}

}  // namespace um
