#include "backends/npy.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "backends/bf16.hpp"

namespace um {
namespace {

std::string_view type_code(dtype type) {
  switch (type) {
    case dtype::f32:
    case dtype::bf16:
      return "<f4";
    case dtype::i32:
      return "<i4";
    case dtype::u8:
      return "|u1";
    case dtype::u16:
      return "<u2";
  }
  throw std::invalid_argument("an unknown element type");
}

// Converts every element, in logical order.
template <class From, class Convert>
std::vector<std::byte> to_nchw(const tensor& t, std::span<const std::byte> memory, Convert convert) {
  using to = decltype(convert(From{}));
  std::vector<std::byte> all(static_cast<std::size_t>(element_count(t.shape)) * sizeof(to));
  const dims apart = strides_of(t);
  std::byte* out = all.data();
  for (std::int64_t n = 0; n < t.shape.n; ++n) {
    for (std::int64_t c = 0; c < t.shape.c; ++c) {
      for (std::int64_t h = 0; h < t.shape.h; ++h) {
        const std::int64_t row = n * apart.n + c * apart.c + h * apart.h;
        for (std::int64_t w = 0; w < t.shape.w; ++w, out += sizeof(to)) {
          From element{};
          std::memcpy(&element, memory.data() + (row + w * apart.w) * std::int64_t{sizeof element},
                      sizeof element);
          const to value = convert(element);
          std::memcpy(out, &value, sizeof value);
        }
      }
    }
  }
  return all;
}

template <class Element>
std::vector<std::byte> to_nchw(const tensor& t, std::span<const std::byte> memory) {
  return to_nchw<Element>(t, memory, [](Element e) { return e; });
}

}  // namespace

std::string npy_header(const tensor& t) {
  constexpr std::size_t before_text = 10, multiple = 64;
  const dims& s = t.shape;
  std::string text = "{'descr': '" + std::string(type_code(t.type)) + "', 'fortran_order': False, 'shape': (";
  text += std::to_string(s.n) + ", " + std::to_string(s.c) + ", " + std::to_string(s.h) + ", " +
          std::to_string(s.w) + "), }";
  const std::size_t whole = round_up(before_text + text.size() + 1, multiple);
  text.append(whole - before_text - text.size() - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xffU);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

std::vector<std::byte> npy_elements(const tensor& t, std::span<const std::byte> memory) {
  if (memory.size() != bytes_of(t)) {
    throw std::invalid_argument("tensor " + t.name + " has " + std::to_string(bytes_of(t)) + " bytes, not " +
                                std::to_string(memory.size()));
  }
  if (t.type == dtype::bf16) return to_nchw<std::uint16_t>(t, memory, &from_bf16);
  switch (element_bytes(t.type)) {
    case 1:
      return to_nchw<std::uint8_t>(t, memory);
    case 2:
      return to_nchw<std::uint16_t>(t, memory);
    default:
      return to_nchw<std::uint32_t>(t, memory);
  }
}

void write_npy(const std::filesystem::path& file, const tensor& t, std::span<const std::byte> memory) {
  const std::string header = npy_header(t);
  const std::vector<std::byte> values = npy_elements(t, memory);
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << header;
  out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string() + ": " + std::strerror(errno));
}

}  // namespace um
