#include <cstring>

#include "tests/cuda/gpu.hpp"
#include "tests/refusal.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/managed_range.hpp"

namespace um::gpu_tests {
namespace {

TEST(check, tells_where_and_what) {
  const std::string text = refusal<cuda_error>([] { check(cudaErrorInvalidValue); });
  EXPECT_TRUE(text.starts_with("allocators_test.cpp:")) << text;
  expect_words(text, {"cudaErrorInvalidValue"});
}

TEST(check, tells_failed_allocations_apart) {
  EXPECT_THROW(check(cudaErrorMemoryAllocation), out_of_memory);
  EXPECT_NO_THROW(check(cudaSuccess));
}

TEST(guarded_share, is_four_fifths) {
  EXPECT_EQ(guarded_share(10 * GiB), 8 * GiB);
  EXPECT_EQ(guarded_share(0), 0U);
}

class arenas : public on_gpu {
 protected:
  static byte_count free_bytes() {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    return free;
  }
};

TEST_F(arenas, hold_what_is_written) {
  constexpr byte_count bytes = 3 * MiB;
  for (const arena& memory : {device_arena(bytes), pinned_arena(bytes), managed_arena(bytes)}) {
    EXPECT_EQ(memory.bytes(), bytes);
    std::vector<std::byte> in(bytes, std::byte{0x5a}), out(bytes);
    check(cudaMemcpy(memory.data(), in.data(), bytes, cudaMemcpyDefault));
    check(cudaMemcpy(out.data(), memory.data(), bytes, cudaMemcpyDefault));
    EXPECT_EQ(in, out);
  }
}

TEST_F(arenas, of_no_bytes_are_empty) {
  EXPECT_EQ(device_arena(0).data(), nullptr);
  EXPECT_EQ(pinned_arena(0).data(), nullptr);
  EXPECT_EQ(managed_arena(0).data(), nullptr);
}

TEST_F(arenas, give_memory_back) {
  const byte_count before = free_bytes();
  {
    const arena held = device_arena(256 * MiB);
    EXPECT_LT(free_bytes(), before);
  }
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(arenas, refuse_with_figures) {
  const byte_count free = free_bytes();
  EXPECT_THROW(device_arena(free + 64 * GiB), out_of_memory);
  try {
    managed_arena(guarded_share(free) + GiB);  // refused before anything is allocated
    FAIL() << "the guard let it through";
  } catch (const out_of_memory& refusal) {
    const std::string text = refusal.what();
    EXPECT_NE(text.find(to_text(guarded_share(free) + GiB)), std::string::npos) << text;
    EXPECT_NE(text.find("80 %"), std::string::npos) << text;
    const bool names_free = text.find(to_text(guarded_share(free))) != std::string::npos ||
                            text.find(to_text(guarded_share(free_bytes()))) != std::string::npos;
    EXPECT_TRUE(names_free) << text;  // of what was free then: others use the GPU too
  }
}

TEST_F(arenas, managed_ranges_keep_their_values_when_moved) {
  constexpr byte_count bytes = 8 * MiB;
  require_demand_paging(gpu().device());
  const arena memory = managed_arena(bytes);
  std::memset(memory.data(), 0x3c, bytes);
  const managed_range all{memory.data(), bytes};
  const cuda_stream on = make_stream();
  for (const advice hint :
       {advice::preferred_device, advice::preferred_host, advice::accessed_by_device, advice::read_mostly}) {
    advise_range(all, hint, gpu().device());
    prefetch_to_device(all, gpu().device(), on.get());
    prefetch_to_host(all, on.get());
  }
  check(cudaStreamSynchronize(on.get()));
  for (byte_count i = 0; i < bytes; i += 4096) ASSERT_EQ(memory.data()[i], std::byte{0x3c});
}

TEST_F(arenas, discarded_ranges_can_be_used_again) {
  constexpr byte_count bytes = 8 * MiB;
  const arena memory = managed_arena(bytes);
  const managed_range all{memory.data(), bytes};
  const cuda_stream on = make_stream();
  prefetch_to_device(all, gpu().device(), on.get());
  try {
    discard_range(all, on.get());
  } catch (const unsupported& reason) {
    GTEST_SKIP() << reason.what();
  }
  prefetch_to_device(all, gpu().device(), on.get());
  check(cudaMemsetAsync(memory.data(), 0x77, bytes, on.get()));
  check(cudaStreamSynchronize(on.get()));
  EXPECT_EQ(memory.data()[bytes - 1], std::byte{0x77});
}

}  // namespace
}  // namespace um::gpu_tests
