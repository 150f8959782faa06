#include "harness/study/sweep.hpp"

#include <gtest/gtest.h>

#include "harness/io/errors.hpp"
#include "harness/json/json.hpp"
#include "harness/process/sweep_runner.hpp"
#include "tests/harness/samples.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

std::vector<cell> cells_of(const std::string& body, const std::string& common = "{}") {
  const std::string text =
      R"({"schema": 1, "name": "t", "common": )" + common + R"(, "grids": [)" + body + "]}";
  return expand(sweep_from_json(text, "t.json"), "t.json");
}

std::string refusal_of_sweep(const std::string& body) {
  return refusal<input_error>([&] { cells_of(body); });
}

const char* const some_grid = R"({"network": "conv", "strategy": "device", "backend": "sim:h200"})";

TEST(Expand, IsTheProductOfItsLists) {
  const auto cells =
      cells_of(R"({"network": ["alexnet", "conv"], "batch": [1, 2, 4], "strategy": ["device", "managed"],
                                  "ratio": [0.5, 1, 1.5, 2], "backend": "sim:h200"})");
  EXPECT_EQ(cells.size(), 2U * 3 * 2 * 4);
  EXPECT_EQ(cells[0].key, "alexnet/b1/train/fused/fp32/device/x0.50/simulated/sim:h200");
  EXPECT_EQ(cells[1].key, "alexnet/b1/train/fused/fp32/device/x1.00/simulated/sim:h200");
  EXPECT_EQ(cells.back().key, "conv/b4/train/fused/fp32/managed/x2.00/simulated/sim:h200");
}

TEST(Expand, FusionPrecisionAndOrderAreAxes) {
  const auto cells = cells_of(
      R"({"network": "conv", "strategy": "device", "backend": "sim:h200", "fusion": ["none", "fused", "lean"],
          "precision": ["fp32", "tf32", "bf16"], "memory_order": ["nchw", "nhwc"]})");
  ASSERT_EQ(cells.size(), 3U * 3 * 2);
  EXPECT_EQ(cells[0].key, "conv/b1/train/none/fp32/device/whole/simulated/sim:h200");
  EXPECT_EQ(cells[1].key, "conv/b1/train/none/fp32,nhwc/device/whole/simulated/sim:h200");
  EXPECT_EQ(cells.back().key, "conv/b1/train/lean/bf16/device/whole/simulated/sim:h200");
}

TEST(Expand, EachPrecisionHasItsOwnStandardOrder) {
  const auto cells = cells_of(
      R"({"network": "conv", "strategy": "device", "backend": "sim:h200", "precision": ["fp32", "bf16"]})");
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[0].settings.network.order, memory_order::nchw);
  EXPECT_EQ(cells[1].settings.network.order, memory_order::nhwc);
  EXPECT_EQ(cells[0].settings.network.fusion_mode, fusion::fused);
}

TEST(Expand, PutsDeviceFirst) {
  const auto cells = cells_of(
      R"({"network": "conv", "strategy": ["managed", "device", "swap_all"], "backend": "sim:h200"})");
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0].settings.strategy, "device");
  EXPECT_EQ(cells[1].settings.strategy, "managed");
}

TEST(Expand, GridsReplaceWhatIsCommon) {
  const auto cells =
      cells_of(R"({"network": "conv"}, {"network": "conv", "budget": "1MiB", "iterations": 7})",
               R"({"strategy": "managed", "backend": "sim:h200", "ratio": [1, 2], "iterations": 3})");
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0].settings.iterations, 3U);
  EXPECT_EQ(cells[2].settings.iterations, 7U);
  EXPECT_EQ(cells[2].settings.budget, MiB);
  EXPECT_FALSE(cells[2].settings.ratio);
}

TEST(Expand, KnobsGoToTheStrategiesThatHaveThem) {
  const auto cells =
      cells_of(R"({"network": "conv", "network_knobs": {"k": [32, 64]}, "strategy": ["device", "swap_all"],
                                  "strategy_knobs": {"ahead": [1, 2, 3]}, "backend": "sim:h200"})");
  EXPECT_EQ(cells.size(), 2U * (1 + 3));
}

TEST(Expand, TheSameCellRunsOnceAndKeepsItsTimeline) {
  const std::string with_timeline =
      R"({"network": "conv", "strategy": "device", "backend": "sim:h200", "timeline": true})";
  const auto cells = cells_of(std::string(some_grid) + "," + with_timeline);
  ASSERT_EQ(cells.size(), 1U);
  EXPECT_TRUE(cells[0].settings.timeline);
  const std::string longer =
      R"({"network": "conv", "strategy": "device", "backend": "sim:h200", "iterations": 9})";
  expect_words(refusal_of_sweep(std::string(some_grid) + "," + longer), {"asked for twice"});
}

// Values and types of single fields: tests/harness/interface_schemas.py.
TEST(Expand, NamesTheGridAndTheField) {
  const auto grid_with = [](const char* field) {
    return std::string(some_grid) + R"(, {"network": "conv", "strategy": "device", "backend": "sim:h200", )" +
           field + "}";
  };
  expect_words(refusal_of_sweep(grid_with(R"("batch": -1)")), {"t.json", "grids[1].batch", "-1"});
  expect_words(refusal_of_sweep(grid_with(R"("batch": [1, 9223372036854775808])")),
               {"grids[1].batch[1]", "9223372036854775808"});
  expect_words(refusal_of_sweep(grid_with(R"("batch": 9223372036854775807)")), {"grids[1]", "2^63"});
  expect_words(refusal_of_sweep(grid_with(R"("ratio": 1, "budget": "1GiB")")), {"grids[1]", "both"});
  expect_words(refusal_of_sweep(grid_with(R"("budget": "-1GiB")")), {"grids[1].budget", "-1GiB"});
  expect_words(refusal_of_sweep(grid_with(R"("budget": "8388608TiB")")), {"grids[1].budget", "2^63"});
  expect_words(refusal_of_sweep(grid_with(R"("batchs": 1)")),
               {"grids[1]", "unknown field \"batchs\"", "did you mean batch?"});
  expect_words(refusal_of_sweep(grid_with(R"("strategy_knobs": {"ahed": 1})")), {"grids[1]", "ahed"});
  expect_words(refusal_of_sweep(grid_with(R"("network_knobs": {"q": 1})")), {"grids[1]", "\"q\""});
  expect_words(refusal_of_sweep(grid_with(R"("precision": ["fp32", "bf61"])")),
               {"grids[1].precision[1]", "did you mean"});
  expect_words(refusal_of_sweep(R"({"network": "conv", "strategy": "device"})"),
               {"grids[0]", "\"backend\" is missing"});
  expect_words(refusal_of_sweep(""), {"t.json: grids: the list is empty"});
}

TEST(Expand, RefusesMoreCellsThanAnyoneWaitsFor) {
  std::string numbers = "1";
  for (int i = 2; i <= 1000; ++i) numbers += "," + std::to_string(i);
  const std::string message =
      refusal_of_sweep(R"({"network": "conv", "strategy": "device", "backend": "sim:h200", "batch": [)" +
                       numbers + R"(], "network_knobs": {"k": [)" + numbers + "]}}");
  expect_words(message, {"more than 100000 cells"});
}

TEST(Expand, CountsEveryAxisBeforeItBuildsAnything) {
  std::string numbers = "1";
  for (int i = 2; i <= 20'000; ++i) numbers += "," + std::to_string(i);
  const std::string message = refusal_of_sweep(
      R"({"network": "conv", "strategy": "device", "backend": "sim:h200", "fusion": ["none", "fused", "lean"],
          "precision": ["fp32", "tf32"], "batch": [)" +
      numbers + "]}");
  expect_words(message, {"more than 100000 cells"});
}

TEST(Resume, SkipsWhatIsOkOrInfeasible) {
  const cell c = sample_cell();
  record r = make_record(c);
  EXPECT_EQ(finished_record({}, c), nullptr);
  EXPECT_NE(finished_record({r}, c), nullptr);
  r.result = outcome::infeasible;
  EXPECT_NE(finished_record({r}, c), nullptr);
  for (const outcome failed : {outcome::crashed, outcome::timeout, outcome::wrong_result,
                               outcome::out_of_memory, outcome::unsupported}) {
    r.result = failed;
    EXPECT_EQ(finished_record({r}, c), nullptr) << to_text(failed);
  }
}

TEST(Resume, TheLastRecordOfAKeyCounts) {
  const cell c = sample_cell();
  record good = make_record(c), bad = good;
  bad.result = outcome::crashed;
  EXPECT_EQ(finished_record({good, bad}, c), nullptr);
  EXPECT_NE(finished_record({bad, good}, c), nullptr);
}

TEST(Resume, RunsAgainForMoreIterationsOrATimeline) {
  cell c = sample_cell();
  const record r = make_record(c);
  c.settings.iterations = 9;
  EXPECT_EQ(finished_record({r}, c), nullptr);
  c = sample_cell();
  c.settings.timeline = true;
  EXPECT_EQ(finished_record({r}, c), nullptr);
}

}  // namespace
}  // namespace um
