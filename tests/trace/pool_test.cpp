// The pool of PyTorch's managed memory, on a stand-in for CUDA's runtime.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

extern "C" {
int um_pool_configure(const char* policy, std::size_t most);
std::size_t um_pool_used();
std::size_t um_pool_peak();
void* um_pool_alloc(std::size_t bytes, int device, cudaStream_t stream);
void um_pool_free(void* at, std::size_t bytes, int device, cudaStream_t stream);
}

namespace {
std::vector<std::string> calls;
bool refuses = false;

class pool : public ::testing::Test {
 protected:
  void SetUp() override {
    calls.clear();
    refuses = false;
  }
};
}  // namespace

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaMallocManaged(void** at, std::size_t bytes, unsigned) {
  calls.emplace_back("malloc");
  *at = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* at) {
  calls.emplace_back("free");
  std::free(at);
  return cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, cudaMemLocation, unsigned, cudaStream_t) {
  calls.emplace_back("prefetch");
  return refuses ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise advice, cudaMemLocation) {
  calls.push_back("advise " + std::to_string(static_cast<int>(advice)));
  return refuses ? cudaErrorInvalidValue : cudaSuccess;
}
}

namespace {

TEST_F(pool, keeps_below_its_cap) {
  ASSERT_EQ(um_pool_configure("none", 100), 0);
  void* const first = um_pool_alloc(60, 0, nullptr);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(um_pool_alloc(60, 0, nullptr), nullptr);
  EXPECT_EQ(um_pool_used(), 60U);
  um_pool_free(first, 60, 0, nullptr);
  EXPECT_EQ(um_pool_used(), 0U);
  EXPECT_EQ(um_pool_peak(), 60U);
  EXPECT_EQ(calls, (std::vector<std::string>{"malloc", "free"}));
}

TEST_F(pool, follows_its_policy) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> expected{
      {"prefetch", {"malloc", "prefetch"}},
      {"advise_host", {"malloc", "advise 3", "advise 5"}},
      {"advise_device", {"malloc", "advise 3"}},
      {"read_mostly", {"malloc", "advise 1"}}};
  for (const auto& [policy, wanted] : expected) {
    calls.clear();
    ASSERT_EQ(um_pool_configure(policy, 100), 0);
    void* const at = um_pool_alloc(60, 0, nullptr);
    EXPECT_EQ(calls, wanted) << policy;
    um_pool_free(at, 60, 0, nullptr);
  }
}

TEST_F(pool, gives_back_what_cuda_refuses) {
  ASSERT_EQ(um_pool_configure("prefetch", 100), 0);
  refuses = true;
  EXPECT_EQ(um_pool_alloc(60, 0, nullptr), nullptr);
  EXPECT_EQ(um_pool_used(), 0U);
  EXPECT_EQ(calls.back(), "free");
}

TEST_F(pool, knows_no_other_policy) {
  EXPECT_EQ(um_pool_configure("fast", 100), 1);
}

}  // namespace
