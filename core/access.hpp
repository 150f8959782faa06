// What an operator touches: for a whole operator or a slice of it, which region of which operand
// it reads, writes or adds to, how many floating-point operations and how many bytes that takes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/graph.hpp"

namespace um {

// An axis along which operators and tensors are cut: the first, second and third extent.
enum class axis : std::uint8_t { batch, channel, row };

// Part `part` of `of` equal parts along an axis; 0 of 1 is the whole. Part p covers the elements
// [extent * p / of, extent * (p + 1) / of), so parts of a multiple of `of` nest.
struct slice {
  axis along = axis::batch;
  std::uint32_t part = 0, of = 1;
  friend bool operator==(const slice&, const slice&) = default;
};
constexpr bool is_whole(const slice& s) {
  return s.of == 1;
}

// Part `part` of `of` along a batch of `extent` images; the whole where `of` is 1.
constexpr slice batch_part([[maybe_unused]] std::int64_t extent, std::uint32_t part, std::uint32_t of) {
  return {axis::batch, part, of};
}

std::int64_t extent_of(const dims& shape, axis along);
std::string_view to_text(axis along);

// Elements [begin, end) along an axis, everything along the others.
struct region {
  axis along = axis::batch;
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const region&, const region&) = default;
};
region region_of(const dims& shape, const slice& s);
bool is_whole(const dims& shape, const region& r);
byte_count bytes_of(const tensor& t, const region& r);

// Bytes [offset, offset + bytes) of a tensor or an arena.
struct range {
  byte_count offset = 0, bytes = 0;
  friend bool operator==(const range&, const range&) = default;
};
// The contiguous runs of bytes that make up a region, relative to the tensor's first byte.
std::vector<range> runs_of(const tensor& t, const region& r);

enum class access_mode : std::uint8_t { read, write, accumulate };
struct access {
  tensor_id what = 0;
  region where;
  access_mode mode = access_mode::read;
};

// The operands of slice `s` of `o`: inputs in order, then outputs in order. A slice is of the
// operator's first output (for filter and bias gradients, `batch` and `row` cut the summed
// operands and add to the output: part 0 writes it, later parts accumulate).
// No region is empty: rows that lie under padding alone are stood for by the nearest row.
// Throws std::invalid_argument, naming the operator, where it cannot be cut that way.
std::vector<access> accesses_of(const graph& g, const op& o, const slice& s = {});

// Whether an operator can go over the batch in so many slices: there is such a cut, the operator's first
// axis is the batch (on parameters it is not), and it writes no output of the network.
bool can_be_cut(const graph& g, const op& o, std::uint32_t parts);

struct work {
  std::uint64_t flops = 0;
  byte_count read = 0, written = 0;
};
// Multiply and add count as two operations; each operand byte is counted once.
work work_of(const graph& g, const op& o, const slice& s = {});

}  // namespace um
