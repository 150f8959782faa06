#include "core/pack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <tuple>

#include "core/pack_place.hpp"

namespace {

using namespace um;

block held(byte_count bytes, std::uint32_t begin, std::uint32_t end, byte_count alignment = arena_alignment) {
  return {{{0, bytes, begin, end}}, alignment};
}

bool meet(const piece& a, byte_count a_at, const piece& b, byte_count b_at) {
  const bool same_time = a.begin < b.end && b.begin < a.end;
  const byte_count low = a_at + a.offset, other_low = b_at + b.offset;
  return same_time && low < other_low + b.bytes && other_low < low + a.bytes;
}

bool meet(const block& a, byte_count a_at, const block& b, byte_count b_at) {
  for (const piece& p : a.pieces) {
    for (const piece& q : b.pieces) {
      if (meet(p, a_at, q, b_at)) return true;
    }
  }
  return false;
}

byte_count extent_of(const block& b) {
  byte_count most = 0;
  for (const piece& p : b.pieces) most = std::max(most, p.offset + p.bytes);
  return most;
}

void expect_disjoint(const std::vector<block>& blocks, const packing& p) {
  ASSERT_EQ(p.offsets.size(), blocks.size());
  byte_count top = 0;
  for (std::size_t a = 0; a < blocks.size(); ++a) {
    EXPECT_EQ(p.offsets[a] % blocks[a].alignment, 0U);
    top = std::max(top, p.offsets[a] + extent_of(blocks[a]));
    for (std::size_t b = a + 1; b < blocks.size(); ++b) {
      EXPECT_FALSE(meet(blocks[a], p.offsets[a], blocks[b], p.offsets[b])) << a << " and " << b;
    }
  }
  EXPECT_EQ(p.bytes, top);
}

class every_packer : public ::testing::TestWithParam<packer> {};
INSTANTIATE_TEST_SUITE_P(pack, every_packer, ::testing::ValuesIn(all_packers().begin(), all_packers().end()),
                         [](const auto& which) { return std::string(which.param.name); });

TEST_P(every_packer, is_found_by_its_name) {
  const packer* found = find_packer(GetParam().name);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->pack, GetParam().pack);
}

TEST_P(every_packer, needs_nothing_for_nothing) {
  const packing p = GetParam().pack({});
  EXPECT_EQ(p.bytes, 0U);
  EXPECT_EQ(p.peak_live_bytes, 0U);
}

TEST_P(every_packer, puts_blocks_of_disjoint_lifetimes_at_one_address) {
  const std::vector<block> blocks{held(1024, 0, 2), held(1024, 2, 4)};
  const packing p = GetParam().pack(blocks);
  EXPECT_EQ(p.bytes, 1024U);
  EXPECT_EQ(p.offsets[0], p.offsets[1]);
}

TEST_P(every_packer, respects_alignment) {
  const std::vector<block> blocks{held(256, 0, 4), held(2 * managed_block, 0, 4, managed_block),
                                  held(512, 0, 3), held(managed_block, 1, 3, managed_block)};
  expect_disjoint(blocks, GetParam().pack(blocks));
}

TEST_P(every_packer, puts_what_lives_all_the_time_at_the_bottom) {
  const std::vector<block> blocks{held(4096, 0, 3), held(256, 0, 9), held(1024, 2, 7)};
  EXPECT_EQ(GetParam().pack(blocks).offsets[1], 0U);
}

TEST_P(every_packer, counts_each_step_alone_for_the_peak) {
  const std::vector<block> blocks{held(100, 0, 2), held(200, 1, 3), held(400, 2, 4)};
  EXPECT_EQ(GetParam().pack(blocks).peak_live_bytes, 600U);
}

TEST_P(every_packer, counts_pieces_for_the_peak_while_they_live) {
  const std::vector<block> blocks{{{{0, 100, 0, 2}, {100, 200, 1, 4}, {300, 50, 3, 4}}}, held(400, 2, 3)};
  EXPECT_EQ(GetParam().pack(blocks).peak_live_bytes, 600U);
}

TEST_P(every_packer, gives_the_room_of_a_piece_away_when_it_ends) {
  const std::vector<block> blocks{{{{0, 1024, 0, 2}, {1024, 1024, 0, 5}}}, held(1024, 2, 5)};
  const packing p = GetParam().pack(blocks);
  expect_disjoint(blocks, p);
  EXPECT_EQ(p.bytes, 2048U);
}

TEST_P(every_packer, leaves_empty_pieces_out) {
  const std::vector<block> blocks{
      {{{0, 1024, 0, 4}, {1 * MiB, 0, 0, 4}, {2 * MiB, 512, 3, 3}}}, held(0, 0, 4), held(MiB, 2, 2)};
  const packing p = GetParam().pack(blocks);
  EXPECT_EQ(p.bytes, 1024U);
  EXPECT_EQ(p.peak_live_bytes, 1024U);
  EXPECT_EQ(p.offsets, std::vector<byte_count>(3, 0));
}

TEST(pack, finds_no_packer_of_another_name) {
  EXPECT_EQ(find_packer("worst_fit"), nullptr);
}

// At step 6 two gaps are free below the top: 2048 bytes at 1024 and 512 bytes at 4096.
std::vector<block> two_gaps() {
  return {held(1024, 0, 9), held(2048, 0, 5), held(1024, 0, 8),
          held(512, 0, 5),  held(1024, 0, 8), held(512, 6, 8)};
}

TEST(pack, first_fit_takes_the_lowest_gap) {
  EXPECT_EQ(pack_first_fit(two_gaps()).offsets, (std::vector<byte_count>{0, 1024, 3072, 4096, 4608, 1024}));
}

TEST(pack, best_fit_takes_the_tightest_gap) {
  EXPECT_EQ(pack_best_fit(two_gaps()).offsets, (std::vector<byte_count>{0, 1024, 3072, 4096, 4608, 4096}));
}

TEST(pack, best_fit_places_in_the_order_of_beginning) {
  const std::vector<block> blocks{held(1024, 3, 6), held(1024, 1, 5), held(256, 0, 3)};
  EXPECT_EQ(pack_best_fit(blocks).offsets, (std::vector<byte_count>{1280, 256, 0}));
}

TEST(pack, smartpool_places_the_largest_first_and_among_equals_the_earlier) {
  const std::vector<block> blocks{held(1024, 3, 6), held(1024, 1, 5), held(256, 0, 3)};
  EXPECT_EQ(pack_smartpool(blocks).offsets, (std::vector<byte_count>{1024, 0, 1024}));
}

// --- against every address tried ---

// Few bytes, so that each address can be tried; composites of up to five pieces, with holes.
std::vector<block> small_composites(std::mt19937& random, int count) {
  std::vector<block> blocks;
  for (int i = 0; i < count; ++i) {
    block b;
    b.alignment = 1U << random() % 3;
    byte_count at = 0;
    const std::size_t pieces = random() % 3 == 0 ? 1 + random() % 5 : 1;
    for (std::size_t k = 0; k < pieces; ++k) {
      if (pieces > 1) at += random() % 3;
      const auto begin = static_cast<std::uint32_t>(random() % 12);
      b.pieces.push_back({at, 1 + random() % 9, begin, begin + 1 + static_cast<std::uint32_t>(random() % 7)});
      at += b.pieces.back().bytes;
    }
    std::ranges::shuffle(b.pieces, random);
    blocks.push_back(std::move(b));
  }
  return blocks;
}

std::uint32_t begin_of(const block& b) {
  return std::ranges::min(b.pieces, {}, &piece::begin).begin;
}
std::uint32_t end_of(const block& b) {
  return std::ranges::max(b.pieces, {}, &piece::end).end;
}
byte_count bytes_of(const block& b) {
  byte_count all = 0;
  for (const piece& p : b.pieces) all += p.bytes;
  return all;
}

// Of one block beside those that have an address: the first run of free addresses, or the shortest.
byte_count address_tried(const std::vector<block>& blocks,
                         const std::vector<std::optional<byte_count>>& offset, std::size_t i,
                         byte_count floor, bool tightest) {
  constexpr byte_count top = 4000;
  std::optional<byte_count> best;
  byte_count shortest = 0;
  for (byte_count begin = floor; begin < top;) {
    const auto is_free = [&](byte_count at) {
      for (std::size_t k = 0; k < blocks.size(); ++k) {
        if (offset[k] && meet(blocks[i], at, blocks[k], *offset[k])) return false;
      }
      return true;
    };
    if (!is_free(begin)) {
      ++begin;
      continue;
    }
    byte_count end = begin;
    while (end < top && is_free(end)) ++end;
    const byte_count at = round_up(begin, blocks[i].alignment);
    if (at < end && (!best || (tightest && end < top && end - begin < shortest))) {
      if (!tightest || end < top || !best) best = at;
      shortest = end - begin;
      if (!tightest) break;
    }
    begin = end;
  }
  return best.value();
}

std::vector<byte_count> tried(const std::vector<block>& blocks, std::vector<std::size_t> order,
                              bool tightest) {
  std::uint32_t begin = begin_of(blocks[0]), end = 0;
  for (const block& b : blocks) {
    begin = std::min(begin, begin_of(b));
    end = std::max(end, end_of(b));
  }
  const auto lives_all_the_time = [&](std::size_t i) {
    return std::ranges::all_of(blocks[i].pieces,
                               [&](const piece& p) { return p.begin == begin && p.end == end; });
  };
  std::vector<std::optional<byte_count>> offset(blocks.size());
  byte_count floor = 0;
  for (const byte_count alignment : {4U, 2U, 1U}) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!lives_all_the_time(i) || blocks[i].alignment != alignment) continue;
      offset[i] = round_up(floor, alignment);
      floor = *offset[i] + extent_of(blocks[i]);
    }
  }
  for (const std::size_t i : order) {
    if (!offset[i]) offset[i] = address_tried(blocks, offset, i, floor, tightest);
  }
  std::vector<byte_count> all;
  for (const auto& at : offset) all.push_back(at.value());
  return all;
}

std::vector<std::size_t> ordered(const std::vector<block>& blocks, const auto& key) {
  std::vector<std::size_t> order(blocks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return key(blocks[i]); });
  return order;
}

TEST(pack, agrees_with_trying_every_address) {
  std::mt19937 random(3);
  const auto most_first = [](byte_count x) { return -static_cast<std::int64_t>(x); };
  const auto by_begin = [&](const block& b) { return std::pair(begin_of(b), most_first(b.alignment)); };
  const auto by_size = [&](const block& b) {
    return std::tuple(most_first(bytes_of(b)), begin_of(b), most_first(b.alignment));
  };
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<block> blocks = small_composites(random, 4 + trial % 24);
    EXPECT_EQ(pack_first_fit(blocks).offsets, tried(blocks, ordered(blocks, by_begin), false)) << trial;
    EXPECT_EQ(pack_best_fit(blocks).offsets, tried(blocks, ordered(blocks, by_begin), true)) << trial;
    EXPECT_EQ(pack_smartpool(blocks).offsets, tried(blocks, ordered(blocks, by_size), true)) << trial;
  }
}

TEST_P(every_packer, never_lets_random_blocks_collide_nor_beats_the_lower_bound) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 12; ++trial) {
    const std::vector<block> blocks = small_composites(random, 10 + 4 * trial);
    const packing p = GetParam().pack(blocks);
    expect_disjoint(blocks, p);
    EXPECT_GE(p.bytes, p.peak_live_bytes);
    EXPECT_EQ(GetParam().pack(blocks).offsets, p.offsets);
  }
}

// Of long plans, too, where steps are compared roughly at first.
TEST(pack, a_block_placed_earlier_leads_to_the_packing_of_that_order) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 60; ++trial) {
    const std::uint32_t steps_each = trial % 3 == 0 ? 5000 : 1;
    placing::placement_request t{{}, 512, 512, placing::gap_rule{}, trial % 2 == 0};
    for (block b : small_composites(random, 24)) {
      if (t.has_only_single_blocks) b.pieces = {{0, b.pieces[0].bytes, b.pieces[0].begin, b.pieces[0].end}};
      for (piece& p : b.pieces) p.begin *= steps_each, p.end *= steps_each;
      if (placing::block_shape s = placing::shape_of(b); !s.pieces.empty()) t.blocks.push_back(std::move(s));
    }
    t.rule = trial % 4 < 2 ? placing::gap_rule::lowest_gap : placing::gap_rule::tightest_gap;
    placing::block_placer by(t);
    placing::placing_order order;
    for (std::uint32_t i = 0; i < t.blocks.size(); ++i) order.push_back(i);
    placing::partial_packing now = by.place(order), next;
    for (int change = 0; change < 30; ++change) {
      const std::size_t old_place = 1 + random() % (order.size() - 1), new_place = random() % old_place;
      ASSERT_TRUE(by.place_earlier(now, old_place, new_place, ~byte_count{0}, next));
      const placing::partial_packing anew = by.place(next.order);
      EXPECT_EQ(next.address_of, anew.address_of) << trial;
      EXPECT_EQ(next.bytes, anew.bytes);
      EXPECT_EQ(next.bytes_above_goal, anew.bytes_above_goal);
      std::swap(now, next);
    }
  }
}

std::vector<block> random_lifetimes(std::mt19937& random) {
  std::vector<block> blocks;
  for (int i = 0; i < 60; ++i) {
    const auto begin = static_cast<std::uint32_t>(random() % 40);
    blocks.push_back(held(round_up(1 + random() % 100000, arena_alignment), begin,
                          begin + 1 + static_cast<std::uint32_t>(random() % 12)));
  }
  return blocks;
}

TEST(pack, a_search_beats_every_single_order_and_often_reaches_the_lower_bound) {
  std::mt19937 random(7);
  int reached = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const std::vector<block> blocks = random_lifetimes(random);
    const packing p = pack_searched(blocks);
    expect_disjoint(blocks, p);
    for (const packer& single : {packers::first_fit, packers::best_fit, packers::smartpool}) {
      EXPECT_LE(p.bytes, single.pack(blocks).bytes) << trial << " " << single.name;
    }
    reached += p.bytes <= p.peak_live_bytes + p.peak_live_bytes / 500 ? 1 : 0;
  }
  EXPECT_GE(reached, 32);
}

// Blocks of which each takes less than a thousandth of the arena, alone and beside large ones.
TEST(pack, a_search_places_small_blocks_as_well) {
  std::mt19937 random(5);
  std::vector<block> blocks;
  for (int i = 0; i < 3000; ++i) {
    const auto begin = static_cast<std::uint32_t>(random() % 30);
    blocks.push_back(
        held(1024 + 256 * (random() % 5), begin, begin + 20 + static_cast<std::uint32_t>(random() % 9)));
  }
  const packing alone = pack_searched(blocks);
  expect_disjoint(blocks, alone);
  for (const packer& single : {packers::first_fit, packers::best_fit, packers::smartpool}) {
    EXPECT_LE(alone.bytes, single.pack(blocks).bytes) << single.name;
  }
  blocks.resize(200);
  for (block& b : random_lifetimes(random)) {
    b.pieces.push_back({b.pieces[0].bytes * 400, 4096, b.pieces[0].begin, b.pieces[0].begin + 1});
    b.pieces[0].bytes *= 400;
    blocks.push_back(b);
  }
  const packing beside = pack_searched(blocks);
  expect_disjoint(blocks, beside);
  EXPECT_LE(beside.bytes, beside.peak_live_bytes + beside.peak_live_bytes / 50);
}

}  // namespace
