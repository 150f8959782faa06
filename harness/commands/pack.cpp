#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "harness/commands/commands.hpp"
#include "harness/json/machines.hpp"
#include "harness/records/lifetime_file.hpp"
#include "harness/records/numbers.hpp"
#include "harness/records/suggest.hpp"

namespace um {
namespace {

std::vector<packer> packers_of(const std::string& name) {
  if (name.empty()) return {all_packers().begin(), all_packers().end()};
  if (const packer* found = find_packer(name)) return {*found};
  std::vector<std::string> known;
  for (const packer& p : all_packers()) known.emplace_back(p.name);
  throw input_error("--packer: " + unknown_name("packer", name, known));
}

std::string against(byte_count bytes, std::optional<byte_count> limit) {
  if (!limit) return "";
  return bytes <= *limit ? "  fits" : fmt::format("  {} too much", bytes - *limit);
}

}  // namespace

int pack_command(const pack_options& options) {
  const std::vector<packer> by = packers_of(options.packer);
  std::optional<byte_count> limit;
  if (!options.limit.empty()) limit = size_in_bytes("--limit", options.limit);
  const auto lifetimes = lifetimes_from_csv(read_file(options.file), options.file);
  const std::vector<block> blocks = blocks_of(lifetimes);
  bool fits = false;
  fmt::print("{} lifetimes\n{:<10} {:>16} {:>16} {:>8} {:>10}\n", lifetimes.size(), "packer", "peak", "arena",
             "ratio", "ms");
  for (const packer& p : by) {
    const auto begin = std::chrono::steady_clock::now();
    const packing packed = p.place(blocks);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    // Lifetimes of no bytes need none.
    const double ratio =
        packed.peak_live == 0 ? 1 : static_cast<double>(packed.bytes) / static_cast<double>(packed.peak_live);
    fmt::print("{:<10} {:>16} {:>16} {:>8.4f} {:>10.2f}{}\n", p.name, packed.peak_live, packed.bytes, ratio,
               time.count(), against(packed.bytes, limit));
    fits = fits || packed.bytes <= limit.value_or(packed.bytes);
  }
  return fits ? 0 : 1;
}

}  // namespace um
