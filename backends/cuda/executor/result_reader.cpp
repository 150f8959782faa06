#include "backends/cuda/executor/result_reader.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>

#include "backends/digest.hpp"
#include "backends/initial_values.hpp"
#include "backends/npy.hpp"
#include "um_allocators/check.hpp"

namespace um {
namespace {

// Values are copied between host and device in chunks.
constexpr byte_count chunk_bytes = 32 * MiB;

template <class F>
void for_each_chunk(byte_count bytes, F&& f) {
  for (byte_count at = 0; at < bytes; at += chunk_bytes) f(at, std::min(chunk_bytes, bytes - at));
}

}  // namespace

void write_initial_state(const graph& g, const execution_plan& plan, const plan_memory& memory) {
  std::vector<std::byte> buffer;
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (!persists(g.tensors[t].role)) continue;
    const auto element = static_cast<std::int64_t>(element_bytes(g.tensors[t].type));
    const address at = plan.at_start[t];
    std::byte* const to = memory.at(at);
    for_each_chunk(bytes_of(g.tensors[t]), [&](byte_count offset, byte_count bytes) {
      const std::int64_t first = static_cast<std::int64_t>(offset) / element;
      if (at.where != space::device) return write_initial_values(g, t, first, {to + offset, bytes});
      buffer.resize(bytes);
      write_initial_values(g, t, first, buffer);
      check(cudaMemcpy(to + offset, buffer.data(), bytes, cudaMemcpyHostToDevice));
    });
  }
  check(cudaDeviceSynchronize());
}

std::vector<std::byte> result_reader::value_of(tensor_id id) const {
  if (!survives(g_.tensors.at(id).role)) {
    throw std::invalid_argument("tensor " + g_.tensors[id].name + " holds no value after a run");
  }
  std::vector<std::byte> value(bytes_of(g_.tensors[id]));
  memory_.copy_to_host(plan_.at_end[id], 0, value);
  return value;
}

void result_reader::write_values(const std::filesystem::path& folder) const {
  for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
    if (!survives(g_.tensors[t].role)) continue;
    write_npy(folder / (g_.tensors[t].name + ".npy"), g_.tensors[t], value_of(t));
  }
}

std::uint64_t result_reader::digest_of_results() const {
  digest all;
  std::vector<std::byte> buffer;
  for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
    if (!survives(g_.tensors[t].role) || persists(g_.tensors[t].role)) continue;
    for_each_chunk(bytes_of(g_.tensors[t]), [&](byte_count offset, byte_count bytes) {
      buffer.resize(bytes);
      memory_.copy_to_host(plan_.at_end[t], offset, buffer);
      all.add(buffer);
    });
  }
  return all.value();
}

std::optional<double> result_reader::loss() const {
  for (tensor_id t = 0; t < g_.tensors.size(); ++t) {
    const tensor& what = g_.tensors[t];
    if (what.role != role::output || what.type != dtype::f32 || element_count(what.shape) != 1) continue;
    float value = 0;
    memory_.copy_to_host(plan_.at_end[t], 0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  return {};
}

}  // namespace um
