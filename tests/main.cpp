// The main() of all GoogleTest executables.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  const auto& done = *testing::UnitTest::GetInstance();
  constexpr int all_skipped = 77;  // CTest then says "Skipped"
  return code == 0 && done.skipped_test_count() > 0 && done.successful_test_count() == 0 ? all_skipped : code;
}
