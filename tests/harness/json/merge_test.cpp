#include "harness/json/merge.hpp"

#include <gtest/gtest.h>

#include "harness/io/errors.hpp"
#include "tests/harness/samples.hpp"

namespace um {
namespace {

environment place(std::string compiler, std::string created = "2026-01-01T00:00:00Z") {
  environment e;
  e.umbench = "0.1.0+unknown";
  e.compiler = std::move(compiler);
  e.created = std::move(created);
  return e;
}

record cell_at(double ratio, const char* strategy = "managed", std::uint64_t digest = 1) {
  experiment e = sample_experiment();
  e.ratio = ratio;
  e.strategy = strategy;
  e.strategy_knobs.clear();
  record r = make_record(complete_cell(e));
  r.samples = {3, 2, 1};
  r.device = "h200";
  r.digest = digest;
  return r;
}

record failed(record r) {
  r.result = outcome::crashed;
  r.reason = "made up";
  r.samples.clear();
  return r;
}

// "E" for an environment, the ratio for a record.
std::string outline(const std::vector<file_entry>& entries) {
  std::string text;
  for (const file_entry& e : entries) {
    const auto* r = std::get_if<record>(&e);
    text += r ? std::to_string(static_cast<int>(r->ratio.value())) : "E";
  }
  return text;
}

const record& nth(const std::vector<file_entry>& entries, std::size_t i) {
  return std::get<record>(entries.at(i));
}

TEST(Merge, ShardsOfOnePlaceAreDealtBackInTurn) {
  const environment here = place("a"), later = place("a", "2026-01-02T00:00:00Z");
  const auto all =
      merge_parts({{{here, cell_at(1)}, {here, cell_at(4)}}, {{later, cell_at(2)}}, {{later, cell_at(3)}}});
  EXPECT_EQ(outline(all), "E1234");
}

TEST(Merge, PartsOfUnlikePlacesFollowOneAnother) {
  const environment here = place("a"), there = place("b");
  const auto all =
      merge_parts({{{here, cell_at(1)}, {here, cell_at(3)}}, {{there, cell_at(2)}, {here, cell_at(4)}}});
  EXPECT_EQ(outline(all), "E13E2E4");
}

TEST(Merge, AResultOutweighsAFailure) {
  const environment here = place("a");
  for (const bool first : {true, false}) {
    part good{{here, cell_at(1)}}, bad{{here, failed(cell_at(1))}};
    const auto all = merge_parts(first ? std::vector<part>{good, bad} : std::vector<part>{bad, good});
    ASSERT_EQ(outline(all), "E1");
    EXPECT_EQ(nth(all, 1).result, outcome::ok);
  }
}

TEST(Merge, TwoResultsOfOneCellAreRefusedUnlessEqual) {
  const environment here = place("a");
  record other = cell_at(1);
  other.samples.back() = 7;
  EXPECT_EQ(outline(merge_parts({{{here, cell_at(1)}}, {{here, cell_at(1)}}})), "E1");
  EXPECT_THROW(merge_parts({{{here, cell_at(1)}}, {{here, other}}}), input_error);
}

TEST(Merge, ResultsAreHeldAgainstDeviceOfAnotherPart) {
  const environment here = place("a");
  const auto all = merge_parts({{{here, cell_at(1, "managed", 2)}}, {{here, cell_at(2, "device", 1)}}});
  EXPECT_EQ(nth(all, 1).result, outcome::wrong_result);
  EXPECT_EQ(nth(all, 2).result, outcome::ok);
}

TEST(Merge, NothingGivesNothing) {
  EXPECT_TRUE(merge_parts({}).empty());
  EXPECT_TRUE(merge_parts({{}, {}}).empty());
}

}  // namespace
}  // namespace um
