#include "core/figures.hpp"

#include <gtest/gtest.h>

#include <set>

using namespace um;

TEST(Figures, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const figure& f : figures()) EXPECT_TRUE(names.insert(f.name).second) << f.name;
  EXPECT_GT(names.size(), 40U);
}

TEST(Figures, AreSetOneByOne) {
  for (const figure& f : figures()) {
    machine m;
    const std::int64_t before = value_of(m, f);
    set_value(m, f, before + 7);
    EXPECT_EQ(value_of(m, f), before + 7) << f.name;
    for (const figure& other : figures()) {
      if (other.name == f.name) continue;
      EXPECT_EQ(value_of(m, other), value_of(machine{}, other)) << other.name << f.name;
    }
  }
}

TEST(Figures, ThoseOfTheDriverAreNamedAfterIt) {
  for (const figure& f : figures()) {
    const bool of_driver = f.member.index() >= 2;
    EXPECT_EQ(f.name.starts_with("uvm."), of_driver) << f.name;
  }
}

// What a file may leave out must be of use as it is.
TEST(Figures, OfADefaultMachineAreWithinTheirLimitsWhereAFileMayLackThem) {
  for (const figure& f : figures()) {
    if (!f.is_optional) continue;
    EXPECT_GE(value_of(machine{}, f), f.min_value) << f.name;
    EXPECT_LE(value_of(machine{}, f), f.max_value) << f.name;
  }
}
