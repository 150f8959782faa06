#include "harness/json/record_file.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/json/json.hpp"
#include "harness/json/merge.hpp"
#include "harness/process/collect.hpp"
#include "tests/harness/samples.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

class RecordFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("umbench-") + std::to_string(getpid()) + test->name() + ".jsonl");
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string text() const { return read_file(path_); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  void begin() const {
    record_file file(path_, open_mode::create);
    file.append(collect_environment(std::nullopt));
    file.append(sample_record());
  }

  std::filesystem::path path_;
};

TEST_F(RecordFile, ALastLineThatLacksOnlyItsEndIsARecord) {
  begin();
  const std::string whole = text(), line = to_json(sample_record());
  write(whole + line);
  record_file file(path_, open_mode::resume);
  EXPECT_EQ(file.earlier().size(), 2U);
  file.append(sample_record());
  EXPECT_EQ(text(), whole + line + "\n" + line + "\n");
}

TEST_F(RecordFile, ATornFirstLineIsCutOff) {
  write(R"({"kind":"envir)");
  const record_file file(path_, open_mode::resume);
  EXPECT_EQ(text(), "");
}

TEST_F(RecordFile, OtherFilesAreLeftAlone) {
  for (const char* foreign : {"dear diary", "dear diary\n", "{\"kind\":\"note\"}\n", "\n", "{}\n"}) {
    write(foreign);
    EXPECT_THROW(record_file(path_, open_mode::resume), input_error) << foreign;
    EXPECT_EQ(text(), foreign);
  }
}

TEST_F(RecordFile, IsHeldByOneAtATime) {
  begin();
  record_file file(path_, open_mode::resume);
  expect_words(refusal<input_error>([&] { record_file second(path_, open_mode::resume); }),
               {"another umbench"});
}

TEST_F(RecordFile, TheSameEnvironmentIsNotedOnce) {
  environment here = collect_environment(std::nullopt);
  {
    record_file file(path_, open_mode::create);
    append_environment_if_new(file, here);
  }
  here.created = "2001-01-01T00:00:00Z";
  {
    record_file file(path_, open_mode::resume);
    append_environment_if_new(file, here);
  }
  here.umbench = "another";
  {
    record_file file(path_, open_mode::resume);
    append_environment_if_new(file, here);
  }
  EXPECT_EQ(record_file(path_, open_mode::resume).environments().size(), 2U);
}

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

TEST(Merge, ResultsAreHeldAgainstDeviceOfAnotherPart) {
  const environment here = place("a");
  const auto all = merge_parts({{{here, cell_at(1, "managed", 2)}}, {{here, cell_at(2, "device", 1)}}});
  EXPECT_EQ(nth(all, 1).result, outcome::wrong_result);
  EXPECT_EQ(nth(all, 2).result, outcome::ok);
}

}  // namespace
}  // namespace um
