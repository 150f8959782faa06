// How much memory the networks of the catalogue take, once packed, against the most that is alive at
// once.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/liveness.hpp"
#include "core/lower.hpp"
#include "networks/catalogue.hpp"

namespace um {
namespace {

byte_count peak_live_bytes(const graph& g) {
  return std::ranges::max(live_bytes(g, sizes_in_arena(g)));
}

profile without_workspaces(const graph& g) {
  return profile(g.ops.size(), op_cost{1000, 0, "test"});
}

class Footprint : public testing::TestWithParam<std::string> {};

TEST_P(Footprint, IsCloseToTheLowerBound) {
  for (const pass mode : {pass::train, pass::inference}) {
    for (const fusion joined : {fusion::none, fusion::fused, fusion::lean}) {
      for (const precision arithmetic : {precision::fp32, precision::bf16}) {
        const graph g = build_network(
            {.name = GetParam(), .batch = 64, .mode = mode, .fusion_mode = joined, .arithmetic = arithmetic});
        const byte_count peak = peak_live_bytes(g);
        SCOPED_TRACE(testing::Message() << to_text(joined) << " " << to_text(arithmetic)
                                        << (mode == pass::train ? " train" : " inference"));
        const profile costs = without_workspaces(g);
        const footprint_terms terms = footprint_of(g, costs, packers::searched);
        EXPECT_EQ(terms.total - terms.fragmentation, peak);
        EXPECT_LE(static_cast<double>(terms.total), 1.02 * static_cast<double>(peak));
        const byte_count by_size = footprint_of(g, costs, packers::smartpool).total;
        EXPECT_LE(terms.total, by_size);
        EXPECT_LE(static_cast<double>(by_size), 1.1 * static_cast<double>(peak));
      }
    }
  }
}

// What level lean computes again reads and writes at most 2.2 bytes for each byte of the peak saved.
TEST_P(Footprint, IsNotSavedAtAnyPrice) {
  for (const precision arithmetic : {precision::fp32, precision::bf16}) {
    network_spec spec{
        .name = GetParam(), .batch = 64, .fusion_mode = fusion::fused, .arithmetic = arithmetic};
    const byte_count before = peak_live_bytes(build_network(spec));
    spec.fusion_mode = fusion::lean;
    const graph g = build_network(spec);
    const byte_count after = peak_live_bytes(g);
    ASSERT_LE(after, before);
    byte_count traffic = 0;
    for (const op& o : g.ops) {
      if (o.name.find(".again") == std::string::npos) continue;
      for (const auto* operands : {&o.in, &o.out}) {
        for (const tensor_id t : *operands) traffic += round_up(bytes_of(g.tensors[t]), arena_alignment);
      }
    }
    EXPECT_LE(static_cast<double>(traffic), 2.2 * static_cast<double>(before - after)) << to_text(arithmetic);
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const network_family& family : network_families()) names.push_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Footprint, testing::ValuesIn(all_names()),
                         [](const auto& which) { return which.param; });

}  // namespace
}  // namespace um
