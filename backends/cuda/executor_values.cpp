// The values that a run starts from and leaves behind.
#include <algorithm>
#include <stdexcept>

#include "backends/cuda/executor.hpp"
#include "backends/digest.hpp"
#include "backends/initial_values.hpp"
#include "backends/npy.hpp"

namespace um {
namespace {

// Pieces in which values cross between host and device outside the timed part.
constexpr byte_count chunk_bytes = 32 * MiB;

template <class F>
void for_chunks(byte_count bytes, F&& f) {
  for (byte_count at = 0; at < bytes; at += chunk_bytes) f(at, std::min(chunk_bytes, bytes - at));
}

}  // namespace

// Managed values are written by the CPU, so that they start host-resident.
void executor::set_initial_state() {
  std::vector<std::byte> buffer;
  for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
    if (!persists(g_.tensors[t].use)) continue;
    const auto element = static_cast<std::int64_t>(size_of(g_.tensors[t].type));
    const address at = plan_.at_start[t];
    std::byte* const to = base_of(at.where) + at.offset;
    for_chunks(bytes_of(g_.tensors[t]), [&](byte_count offset, byte_count bytes) {
      const std::int64_t first = static_cast<std::int64_t>(offset) / element;
      if (at.where != space::device) return write_initial_values(g_, t, first, {to + offset, bytes});
      buffer.resize(bytes);
      write_initial_values(g_, t, first, buffer);
      check(cudaMemcpy(to + offset, buffer.data(), bytes, cudaMemcpyHostToDevice));
    });
  }
  check(cudaDeviceSynchronize());
}

void executor::read(address from, byte_count offset, std::span<std::byte> to) const {
  check(cudaMemcpy(to.data(), base_of(from.where) + from.offset + offset, to.size(), cudaMemcpyDefault));
}

std::vector<std::byte> executor::value_of(tensor_id what) const {
  if (!survives(g_.tensors.at(what).use)) {
    throw std::invalid_argument("tensor " + g_.tensors[what].name + " holds no value after a run");
  }
  std::vector<std::byte> value(bytes_of(g_.tensors[what]));
  read(plan_.at_end[what], 0, value);
  return value;
}

void executor::write_values(const std::filesystem::path& folder) const {
  for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
    if (!survives(g_.tensors[t].use)) continue;
    write_npy(folder / (g_.tensors[t].name + ".npy"), g_.tensors[t], value_of(t));
  }
}

std::uint64_t executor::digest_of_results() const {
  digest all;
  std::vector<std::byte> buffer;
  for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
    if (!survives(g_.tensors[t].use) || persists(g_.tensors[t].use)) continue;
    for_chunks(bytes_of(g_.tensors[t]), [&](byte_count offset, byte_count bytes) {
      buffer.resize(bytes);
      read(plan_.at_end[t], offset, buffer);
      all.add(buffer);
    });
  }
  return all.value();
}

std::optional<double> executor::loss() const {
  for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
    const tensor& what = g_.tensors[t];
    if (what.use != role::output || what.type != dtype::f32 || elements(what.shape) != 1) continue;
    float value = 0;
    read(plan_.at_end[t], 0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  return {};
}

}  // namespace um
