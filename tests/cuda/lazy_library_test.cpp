#include "backends/cuda/lazy_library.hpp"

#include <cublasLt.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include "core/errors.hpp"

namespace um {
namespace {

// Neither needs a GPU.
TEST(LazyLibrary, OpensWhatThisWasCompiledFor) {
  EXPECT_EQ(cudnnGetVersion() / 10000, std::size_t{CUDNN_MAJOR});
  EXPECT_GE(cublasLtGetVersion(), std::size_t{10000});
  EXPECT_STREQ(cudnnGetErrorString(CUDNN_STATUS_SUCCESS), "CUDNN_STATUS_SUCCESS");
}

TEST(LazyLibrary, SaysWhatIsNotThere) {
  constexpr library_names none{"libnone.so.1", "/none/libnone.so"};
  EXPECT_THROW(symbol_of(none, "f"), unsupported);
}

}  // namespace
}  // namespace um
