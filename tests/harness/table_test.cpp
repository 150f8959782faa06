#include "harness/table.hpp"

#include <gtest/gtest.h>

#include "harness/digests.hpp"
#include "harness/summary.hpp"
#include "samples.hpp"

namespace um {
namespace {

record cell_record(const std::string& strategy, double ratio, std::vector<nanoseconds> samples) {
  experiment e;
  e.network = {"conv", 2, pass::train, false, {}};
  e.strategy = strategy;
  e.ratio = ratio;
  e.backend = "sim:h200";
  record r = blank_record(completed(e));
  r.device = "h200";
  r.calibrated = false;
  r.samples = std::move(samples);
  return r;
}

record infeasible_record(const std::string& strategy, double ratio) {
  record r = cell_record(strategy, ratio, {});
  r.result = outcome::infeasible;
  r.reason = "made up";
  return r;
}

TEST(Steady, LeavesTheFirstIterationOut) {
  EXPECT_EQ(steady_ns(cell_record("device", 1, {900, 100, 300, 200})), 200);
  EXPECT_EQ(steady_ns(cell_record("device", 1, {900, 100, 200})), 150);
  EXPECT_EQ(steady_ns(cell_record("device", 1, {900})), 900);
  EXPECT_EQ(steady_ns(cell_record("device", 1, {})), std::nullopt);
  EXPECT_EQ(steady_ns(infeasible_record("device", 2)), std::nullopt);
}

TEST(Table, ShowsSlowdownsAgainstDeviceAtAnyRatio) {
  const std::vector<record> records{
      cell_record("device", 0.5, {9, 2'000'000}), infeasible_record("device", 1.5),
      cell_record("managed", 0.5, {9, 2'100'000}), cell_record("managed", 1.5, {9, 25'000'000})};
  const std::string expected =
      "conv/b2/train/none/fp32 on sim:h200, mode simulated: simulated on machine file h200, figures not "
      "calibrated\n"
      "  time of an iteration / 2.00 ms (device, everything resident)\n"
      "  strategy   x0.50   x1.50\n"
      "  device      1.00       -\n"
      "  managed     1.05    12.5\n"
      "\n"
      "- the strategy cannot work within that budget\n";
  EXPECT_EQ(table_of(records), expected);
}

TEST(Table, WithoutABaselineItShowsTimes) {
  const std::string text = table_of(std::vector<record>{cell_record("managed", 1.5, {9, 25'000'000})});
  EXPECT_NE(text.find("no `device` record"), std::string::npos);
  EXPECT_NE(text.find("25.0 ms"), std::string::npos);
}

TEST(Table, NamesFailures) {
  record r = cell_record("managed", 1.5, {});
  r.result = outcome::timeout;
  EXPECT_NE(table_of(std::vector<record>{r}).find("timeout"), std::string::npos);
}

TEST(Text, TimesHaveThreeDigits) {
  EXPECT_EQ(time_text(45'123), "45.1 us");
  EXPECT_EQ(time_text(342'000), "0.342 ms");
  EXPECT_EQ(time_text(1'234'000), "1.23 ms");
  EXPECT_EQ(time_text(123'400'000), "123 ms");
  EXPECT_EQ(time_text(1.5e9), "1.50 s");
}

TEST(Text, MeasuredAndSimulatedAreToldApart) {
  record r = cell_record("device", 1, {1});
  EXPECT_EQ(provenance(r), "simulated on machine file h200, figures not calibrated");
  r.calibrated = true;
  EXPECT_EQ(provenance(r), "simulated on machine file h200, figures calibrated");
  r.simulated = false;
  r.backend = "cuda:0";
  r.device = "NVIDIA H200";
  EXPECT_EQ(provenance(r), "measured on NVIDIA H200");
}

TEST(Digests, AnotherResultThanDeviceHadIsWrong) {
  digest_book book;
  record device = cell_record("device", 0.5, {1}), same = cell_record("managed", 1.5, {1}), other = same;
  device.digest = same.digest = 1;
  other.digest = 2;
  book.check(device);
  book.check(same);
  book.check(other);
  EXPECT_EQ(same.result, outcome::ok);
  EXPECT_EQ(other.result, outcome::wrong_result);
  EXPECT_NE(other.reason->find("0000000000000002"), std::string::npos);
}

TEST(Digests, OnlyTheSameWorkIsCompared) {
  digest_book book;
  record device = cell_record("device", 0.5, {1}), other = cell_record("managed", 1.5, {1});
  device.digest = 1;
  other.digest = 2;
  other.network.batch = 4;
  book.check(device);
  book.check(other);
  EXPECT_EQ(other.result, outcome::ok);
  other.network.batch = 2;
  other.iterations = 3;
  book.check(other);
  EXPECT_EQ(other.result, outcome::ok);
}

}  // namespace
}  // namespace um
