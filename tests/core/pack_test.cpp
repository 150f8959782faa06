#include "core/pack.hpp"

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace um;

void expect_disjoint(const std::vector<block>& blocks, const packing& p) {
  for (std::size_t a = 0; a < blocks.size(); ++a) {
    EXPECT_EQ(p.offset[a] % blocks[a].alignment, 0U);
    EXPECT_LE(p.offset[a] + blocks[a].bytes, p.bytes);
    for (std::size_t b = a + 1; b < blocks.size(); ++b) {
      const bool same_time = blocks[a].begin < blocks[b].end && blocks[b].begin < blocks[a].end;
      const bool same_place =
          p.offset[a] < p.offset[b] + blocks[b].bytes && p.offset[b] < p.offset[a] + blocks[a].bytes;
      EXPECT_FALSE(same_time && same_place) << a << " and " << b;
    }
  }
}

TEST(pack, nothing_needs_nothing) {
  const packing p = pack({}, packer::best_fit);
  EXPECT_EQ(p.bytes, 0U);
  EXPECT_EQ(p.peak_live, 0U);
}

TEST(pack, blocks_of_disjoint_lifetimes_share_an_address) {
  const std::vector<block> blocks{{1024, 0, 2}, {1024, 2, 4}};
  const packing p = pack(blocks, packer::first_fit);
  EXPECT_EQ(p.bytes, 1024U);
  EXPECT_EQ(p.offset[0], p.offset[1]);
}

TEST(pack, best_fit_takes_the_tightest_gap_and_first_fit_the_lowest) {
  // At steps 5 to 6 two gaps are free: 2048 bytes at the bottom, 1024 between two long-lived blocks.
  const std::vector<block> blocks{{2048, 0, 5}, {4096, 0, 9}, {1024, 0, 5}, {8192, 0, 9}, {1024, 6, 8}};
  for (const packer how : {packer::first_fit, packer::best_fit}) {
    const packing p = pack(blocks, how);
    expect_disjoint(blocks, p);
    EXPECT_EQ(p.bytes, p.peak_live);
  }
}

TEST(pack, respects_alignment) {
  const std::vector<block> blocks{{256, 0, 4}, {2 * managed_block, 0, 4, managed_block}, {512, 0, 4}};
  const packing p = pack(blocks, packer::best_fit);
  expect_disjoint(blocks, p);
}

TEST(pack, random_lifetimes_never_collide_and_never_beat_the_lower_bound) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<block> blocks;
    for (int i = 0; i < 60; ++i) {
      const auto begin = static_cast<std::uint32_t>(random() % 40);
      blocks.push_back({round_up(1 + random() % 100000, arena_alignment), begin,
                        begin + 1 + static_cast<std::uint32_t>(random() % 12)});
    }
    for (const packer how : {packer::first_fit, packer::best_fit}) {
      const packing p = pack(blocks, how);
      expect_disjoint(blocks, p);
      EXPECT_GE(p.bytes, p.peak_live);
    }
  }
}

TEST(pack, peak_live_counts_each_step_alone) {
  const std::vector<block> blocks{{100, 0, 2}, {200, 1, 3}, {400, 2, 4}};
  EXPECT_EQ(pack(blocks, packer::first_fit).peak_live, 600U);
}

}  // namespace
