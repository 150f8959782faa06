#include "backends/npy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "backends/bf16.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

template <class Value>
std::span<const std::byte> bytes_of_values(const std::vector<Value>& values) {
  return std::as_bytes(std::span(values));
}

template <class Value>
std::vector<Value> values_from(std::span<const std::byte> bytes) {
  std::vector<Value> values(bytes.size() / sizeof(Value));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
  return values;
}

std::string python_with_numpy() {
  for (const std::string python : {"/usr/bin/python3", "python3"}) {
    if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) == 0) return python;
  }
  return {};
}

class npy_files : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("umbench_npy_" + std::to_string(getpid()));
};

TEST(npy, header_is_format_1_0_and_a_multiple_of_64_long) {
  const std::string header = npy_header({"x", {2, 3, 4, 5}, dtype::f32, role::input});
  ASSERT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const auto low = static_cast<unsigned char>(header[8]), high = static_cast<unsigned char>(header[9]);
  EXPECT_EQ(std::size_t{low} + 256U * high, header.size() - 10);
  EXPECT_EQ(header.substr(10, 62), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4, 5)");
  EXPECT_EQ(header.back(), '\n');
}

TEST(npy, header_names_the_type_on_disk) {
  const auto code = [](dtype type) {
    return npy_header({"x", {1, 1, 1, 1}, type, role::input}).substr(20, 5);
  };
  EXPECT_EQ(code(dtype::f32), "'<f4'");
  EXPECT_EQ(code(dtype::bf16), "'<f4'");
  EXPECT_EQ(code(dtype::i32), "'<i4'");
  EXPECT_EQ(code(dtype::u8), "'|u1'");
  EXPECT_EQ(code(dtype::u16), "'<u2'");
}

TEST(npy, elements_come_in_logical_order_from_every_memory_order) {
  for (const memory_order order : {memory_order::nchw, memory_order::nhwc}) {
    const tensor t{"x", {2, 3, 4, 5}, dtype::i32, role::input, order};
    std::vector<std::int32_t> memory(120);
    for (std::size_t at = 0; at < memory.size(); ++at) {
      memory[at] = static_cast<std::int32_t>(logical_index(t, static_cast<std::int64_t>(at)));
    }
    const auto out = values_from<std::int32_t>(npy_elements(t, bytes_of_values(memory)));
    std::vector<std::int32_t> expected(120);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(out, expected) << to_text(order);
  }
}

TEST(npy, bf16_is_widened_and_small_types_stay) {
  const tensor halves{"x", {1, 3, 1, 1}, dtype::bf16, role::input, memory_order::nhwc};
  const std::vector<std::uint16_t> memory{to_bf16(1.5F), to_bf16(-2.0F), to_bf16(0.0F)};
  EXPECT_EQ(values_from<float>(npy_elements(halves, bytes_of_values(memory))),
            (std::vector<float>{1.5F, -2.0F, 0.0F}));
  const tensor index{"i", {1, 1, 1, 3}, dtype::u8, role::output};
  const std::vector<std::uint8_t> positions{3, 250, 0};
  EXPECT_EQ(values_from<std::uint8_t>(npy_elements(index, bytes_of_values(positions))), positions);
}

TEST(npy, refuses_bytes_that_are_not_the_tensors) {
  const std::vector<std::byte> few(8);
  EXPECT_THROW(npy_elements({"x", {1, 3, 1, 1}, dtype::f32, role::input}, few), std::invalid_argument);
}

TEST_F(npy_files, hold_header_and_elements) {
  const tensor t{"x", {1, 2, 1, 2}, dtype::f32, role::input};
  const std::vector<float> values{1, 2, 3, 4};
  write_npy(folder / "x.npy", t, bytes_of_values(values));
  std::ifstream in(folder / "x.npy", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string header = npy_header(t);
  ASSERT_EQ(text.size(), header.size() + 16);
  EXPECT_EQ(text.substr(0, header.size()), header);
  EXPECT_EQ(std::memcmp(text.data() + header.size(), values.data(), 16), 0);
}

TEST_F(npy_files, that_cannot_be_written_are_named) {
  const std::vector<float> one{1};
  const auto write = [&] {
    write_npy(folder / "absent" / "x.npy", {"x", {}, dtype::f32}, bytes_of_values(one));
  };
  expect_words(refusal<std::runtime_error>(write), {"absent/x.npy"});
}

TEST_F(npy_files, are_what_numpy_reads) {
  const std::string python = python_with_numpy();
  if (python.empty()) GTEST_SKIP() << "no Python with NumPy is installed";
  const tensor t{"x", {2, 3, 2, 2}, dtype::f32, role::input, memory_order::nhwc};
  std::vector<float> memory(24);
  for (std::size_t at = 0; at < memory.size(); ++at) {
    memory[at] = static_cast<float>(logical_index(t, static_cast<std::int64_t>(at)));
  }
  write_npy(folder / "x.npy", t, bytes_of_values(memory));
  const std::string check = "import numpy; x = numpy.load(\"" + (folder / "x.npy").string() +
                            "\"); assert x.dtype == numpy.float32 and x.shape == (2, 3, 2, 2); "
                            "assert (x.ravel() == numpy.arange(24)).all()";
  EXPECT_EQ(std::system((python + " -c '" + check + "'").c_str()), 0);
}

}  // namespace
}  // namespace um
