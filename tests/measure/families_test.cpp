#include "measure/families.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace um::measure {
namespace {

const device_facts made_up{"made up", 132, false};

std::vector<measurement> all_cases() {
  std::vector<measurement> all;
  for (const family& f : families()) {
    for (measurement& m : f.cases(made_up)) all.push_back(std::move(m));
  }
  return all;
}

TEST(families, name_every_case_once) {
  std::set<std::string> names;
  for (const measurement& m : all_cases()) EXPECT_TRUE(names.insert(m.name).second) << m.name;
  EXPECT_GT(names.size(), 300U);
}

TEST(families, begin_the_names_of_their_cases) {
  for (const family& f : families()) {
    for (const measurement& m : f.cases(made_up)) {
      EXPECT_TRUE(m.name.starts_with(std::string(f.name) + '/')) << m.name;
    }
  }
}

TEST(families, say_how_residency_is_put_back) {
  for (const measurement& m : all_cases()) {
    EXPECT_FALSE(m.reset.empty()) << m.name;
    EXPECT_GE(m.repetitions, 1) << m.name;
    EXPECT_TRUE(m.prepare) << m.name;
  }
}

TEST(families, know_the_bytes_of_what_goes_over_the_link) {
  for (const measurement& m : all_cases()) {
    EXPECT_TRUE(m.link_direction == copy_direction::none || m.bytes > 0) << m.name;
  }
}

// Counts are held to these, so a case that is counted and moves everything must say so.
TEST(families, are_sure_of_what_moves_only_where_it_is_counted) {
  int in = 0, out = 0;
  for (const measurement& m : all_cases()) {
    EXPECT_TRUE(m.migrates || (m.expected_in_bytes == 0 && m.expected_out_bytes == 0)) << m.name;
    EXPECT_LE(std::max(m.expected_in_bytes, m.expected_out_bytes), m.bytes) << m.name;
    in += m.expected_in_bytes > 0 ? 1 : 0;
    out += m.expected_out_bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(in, 20);
  EXPECT_GT(out, 15);
}

// The driver faults page by page there: seconds a gigabyte.
TEST(families, write_to_discarded_data_in_small) {
  for (const measurement& m : discard_cases(made_up)) {
    EXPECT_TRUE(!m.name.starts_with("discard/write/") || m.bytes <= 16 * MiB) << m.name;
  }
}

TEST(families, follow_the_size_of_the_gpu) {
  const auto has = [](const device_facts& on, const std::string& part) {
    const auto cases = fault_cases(on);
    return std::any_of(cases.begin(), cases.end(),
                       [&](const measurement& m) { return m.name.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(has(made_up, "/blocks:132/"));
  EXPECT_TRUE(has({"other", 56, false}, "/blocks:56/"));
}

TEST(in_name, is_short) {
  EXPECT_EQ(bytes_text(64 * KiB), "64KiB");
  EXPECT_EQ(bytes_text(8 * GiB), "8GiB");
  EXPECT_EQ(bytes_text(1000), "1000B");
}

TEST(median_of, is_the_middle) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 9}), 3);
  EXPECT_EQ(median_of({7}), 7);
}

}  // namespace
}  // namespace um::measure
