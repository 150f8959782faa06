#include <fmt/format.h>

#include <chrono>

#include "harness/commands/commands.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/numbers.hpp"
#include "harness/io/progress.hpp"
#include "harness/io/text.hpp"
#include "harness/json/input_files.hpp"
#include "harness/pack/lifetime_file.hpp"

namespace um {
namespace {

std::vector<packer> requested_packers(const std::string& name) {
  if (name.empty()) return {all_packers().begin(), all_packers().end()};
  if (const packer* found = find_packer(name)) return {*found};
  std::vector<std::string> known;
  for (const packer& p : all_packers()) known.emplace_back(p.name);
  throw input_error("--packer: " + unknown_name("packer", name, known));
}

std::string limit_verdict(byte_count bytes, std::optional<byte_count> limit) {
  if (!limit) return "";
  return bytes <= *limit ? "  fits" : fmt::format("  {} too much", bytes - *limit);
}

struct packing_row {
  packing packed;
  double ms = 0;
};

packing_row pack_row(const packer& p, const std::vector<traced_lifetime>& lifetimes) {
  const std::vector<block> blocks = blocks_of(lifetimes);
  const auto begin = std::chrono::steady_clock::now();
  packing_row r{p.pack(blocks), 0};
  r.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return r;
}

void print(std::string_view name, const packing_row& r, std::string_view verdict) {
  // Lifetimes of 0 bytes are ignored.
  const double ratio = r.packed.peak_live_bytes == 0 ? 1
                                                     : static_cast<double>(r.packed.bytes) /
                                                           static_cast<double>(r.packed.peak_live_bytes);
  fmt::print("{:<10} {:>16} {:>16} {:>8.4f} {:>10.2f}{}\n", name, r.packed.peak_live_bytes, r.packed.bytes,
             ratio, r.ms, verdict);
}

// Prints the first choice of swapped tensors that packs into the limit, or the smallest packing. Returns
// whether it fits.
bool print_swapped(const packer& p, const std::vector<traced_lifetime>& lifetimes, byte_count limit) {
  std::optional<packing_row> best;
  swapped_lifetimes chosen;
  // Tries ever lower limits of live bytes, since a packing may need more than the live bytes.
  for (byte_count aim = limit; aim > limit / 2 && !(best && best->packed.bytes <= limit); aim -= limit / 50) {
    for (swapped_lifetimes& s : swap_to_limit(lifetimes, aim)) {
      packing_row r = pack_row(p, s.lifetimes);
      if (best && r.packed.bytes >= best->packed.bytes) continue;
      best = std::move(r);
      chosen = std::move(s);
      if (best->packed.bytes <= limit) break;
    }
  }
  if (!best) return false;
  print("  swapped", *best,
        fmt::format("{}; {} leave, {} bytes each way", limit_verdict(best->packed.bytes, limit),
                    chosen.swapped_count, chosen.bytes));
  return best->packed.bytes <= limit;
}

int print_addresses(const packer& p, const std::vector<traced_lifetime>& lifetimes) {
  const packing packed = pack_row(p, lifetimes).packed;
  for (std::size_t i = 0; i < lifetimes.size(); ++i)
    fmt::print("{},{}\n", lifetimes[i].id, packed.offsets[i]);
  return 0;
}

}  // namespace

int pack_command(const pack_options& options) {
  const std::vector<packer> by = requested_packers(options.packer);
  std::optional<byte_count> limit;
  if (!options.limit.empty()) limit = parse_size("--limit", options.limit);
  if (limit && options.addresses)
    throw input_error("--addresses goes without --limit: what is swapped has two addresses");
  const auto lifetimes = lifetimes_from_csv(read_file(options.file), options.file);
  const progress_thread line("packing");
  if (options.addresses) return print_addresses(by.front(), lifetimes);
  bool fits = false;
  fmt::print("{} lifetimes\n{:<10} {:>16} {:>16} {:>8} {:>10}\n", lifetimes.size(), "packer", "peak", "arena",
             "ratio", "ms");
  for (const packer& p : by) {
    const packing_row r = pack_row(p, lifetimes);
    print(p.name, r, limit_verdict(r.packed.bytes, limit));
    const bool enough = r.packed.bytes <= limit.value_or(r.packed.bytes);
    fits = enough || print_swapped(p, lifetimes, *limit) || fits;
  }
  return fits ? 0 : 1;
}

}  // namespace um
