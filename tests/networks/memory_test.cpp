// How much memory the networks of the catalogue take, once packed, against the most that is alive at
// once.
#include <gtest/gtest.h>

#include "core/lower.hpp"
#include "networks/catalogue.hpp"
#include "networks/recompute.hpp"

namespace um {
namespace {

profile without_workspaces(const graph& g) {
  return profile(g.ops.size(), op_cost{1000, 0, "test"});
}

class Footprint : public testing::TestWithParam<std::string> {};

TEST_P(Footprint, IsCloseToTheLowerBound) {
  for (const pass mode : {pass::train, pass::inference}) {
    for (const fusion joined : {fusion::none, fusion::fused, fusion::lean}) {
      for (const precision arithmetic : {precision::fp32, precision::bf16}) {
        for (const packer how : {packer::best_fit, packer::first_fit}) {
          network_spec spec;
          spec.name = GetParam();
          spec.batch = 64;
          spec.mode = mode;
          spec.joined = joined;
          spec.arithmetic = arithmetic;
          const graph g = build(spec);
          const footprint_terms terms = footprint_of(g, without_workspaces(g), how);
          const byte_count peak = peak_live_bytes(g);
          EXPECT_EQ(terms.total - terms.fragmentation, peak);
          EXPECT_LE(static_cast<double>(terms.total), 1.02 * static_cast<double>(peak))
              << to_text(joined) << " " << to_text(arithmetic) << " " << to_text(how)
              << (mode == pass::train ? " train" : " inference");
        }
      }
    }
  }
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const network_family& family : networks()) names.push_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Footprint, testing::ValuesIn(all_names()),
                         [](const auto& which) { return which.param; });

}  // namespace
}  // namespace um
