#include "harness/json/record_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/json/json.hpp"
#include "harness/process/collect.hpp"
#include "tests/harness/samples.hpp"

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

TEST_F(RecordFile, HoldsWhatWasAppended) {
  begin();
  record_file file(path_, open_mode::resume);
  ASSERT_EQ(file.earlier().size(), 1U);
  EXPECT_EQ(to_json(file.earlier()[0]), to_json(sample_record()));
  EXPECT_EQ(file.environments().size(), 1U);
  EXPECT_FALSE(file.was_torn());
}

TEST_F(RecordFile, IsNotOverwrittenUnasked) {
  begin();
  EXPECT_THROW(record_file(path_, open_mode::create), input_error);
  EXPECT_NO_THROW(record_file(path_, open_mode::resume));
}

TEST_F(RecordFile, ATornLastLineIsCutOff) {
  begin();
  const std::string whole = text();
  for (const std::size_t kept : {std::size_t{1}, std::size_t{20}, to_json(sample_record()).size() - 1}) {
    write(whole + to_json(sample_record()).substr(0, kept));
    record_file file(path_, open_mode::resume);
    EXPECT_TRUE(file.was_torn());
    EXPECT_EQ(file.earlier().size(), 1U);
    EXPECT_EQ(text(), whole);
  }
}

TEST_F(RecordFile, ALastLineThatLacksOnlyItsEndIsARecord) {
  begin();
  const std::string whole = text(), line = to_json(sample_record());
  write(whole + line);
  record_file file(path_, open_mode::resume);
  EXPECT_FALSE(file.was_torn());
  EXPECT_EQ(file.earlier().size(), 2U);
  file.append(sample_record());
  EXPECT_EQ(text(), whole + line + "\n" + line + "\n");
}

TEST_F(RecordFile, ATornFirstLineIsCutOff) {
  write(R"({"kind":"envir)");
  record_file file(path_, open_mode::resume);
  EXPECT_TRUE(file.was_torn());
  EXPECT_EQ(text(), "");
}

TEST_F(RecordFile, OtherFilesAreLeftAlone) {
  for (const char* foreign : {"dear diary", "dear diary\n", "{\"kind\":\"note\"}\n", "\n", "{}\n"}) {
    write(foreign);
    EXPECT_THROW(record_file(path_, open_mode::resume), input_error) << foreign;
    EXPECT_EQ(text(), foreign);
  }
}

TEST_F(RecordFile, OneIsAtWorkOnItAndOthersAddToIt) {
  begin();
  record_file work(path_, open_mode::resume);
  record_file other(path_, open_mode::add);
  EXPECT_FALSE(record_file::write_lock(work).others_added());
  other.append(sample_record());
  {
    const record_file::write_lock lock(work);
    EXPECT_TRUE(lock.others_added());
    EXPECT_EQ(work.earlier().size(), 2U);
    work.append(sample_record());
    EXPECT_FALSE(record_file::write_lock(work).others_added());
  }
  EXPECT_TRUE(record_file::write_lock(other).others_added());
  EXPECT_EQ(other.earlier().size(), 2U);  // that of the beginning and that of `work`
  EXPECT_EQ(record_file(path_, open_mode::read).earlier().size(), 3U);
}

TEST_F(RecordFile, WhatOthersTearIsCutOff) {
  begin();
  const std::string whole = text();
  write(whole.substr(0, whole.size() - 1));  // the line break is missing
  record_file file(path_, open_mode::resume);
  write(whole + R"({"kind":"rec)");
  EXPECT_TRUE(record_file::write_lock(file).others_added());
  EXPECT_EQ(file.earlier().size(), 1U);
  file.append(sample_record());
  EXPECT_EQ(text(), whole + to_json(sample_record()) + "\n");
}

TEST_F(RecordFile, IsHeldByOneAtATime) {
  begin();
  record_file file(path_, open_mode::resume);
  try {
    record_file second(path_, open_mode::resume);
    FAIL();
  } catch (const input_error& error) {
    EXPECT_NE(std::string(error.what()).find("another umbench"), std::string::npos);
  }
}

TEST_F(RecordFile, AFailedAppendLeavesWholeLines) {
  begin();
  const std::string before = text();
  record_file file(path_, open_mode::resume);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit tight{before.size() + 100, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tight);
  EXPECT_THROW(file.append(sample_record()), append_error);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(text(), before);
  file.append(sample_record());
  EXPECT_EQ(text(), before + to_json(sample_record()) + "\n");
}

TEST_F(RecordFile, CannotBeWhereThereIsNoFolder) {
  EXPECT_THROW(record_file("/nonexistent/folder/x.jsonl", open_mode::create), input_error);
  EXPECT_THROW(record_file(testing::TempDir(), open_mode::create), input_error);
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

}  // namespace
}  // namespace um
