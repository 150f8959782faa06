#include "trace/bins.hpp"

#include <algorithm>
#include <vector>

namespace um::tracing {
namespace {

constexpr std::uint32_t every_granule = 0xFFFFFFFF;

bool is_gpu_fault(quantity what) {
  return what == quantity::gpu_read_faults || what == quantity::gpu_write_faults;
}

bool is_bytes(quantity what) {
  return what <= quantity::in_peer;
}

struct run {
  std::uint64_t first = 0, blocks = 0, value = 0;  // value: of each block for bytes and masks, else of all
};

void append(std::vector<run>& runs, std::uint64_t block, std::uint64_t value, bool equal_only) {
  if (!runs.empty() && runs.back().first + runs.back().blocks == block &&
      (!equal_only || runs.back().value == value)) {
    ++runs.back().blocks;
    if (!equal_only) runs.back().value += value;
    return;
  }
  runs.push_back({block, 1, value});
}

void write(std::string& out, const char* name, const std::vector<run>& runs, bool times_blocks) {
  if (!out.empty()) out += ',';
  out += '"';
  out += name;
  out += "\":[";
  for (const run& r : runs) {
    if (out.back() == ']') out += ',';
    const std::uint64_t value = times_blocks ? r.value * r.blocks : r.value;
    out += '[' + std::to_string(r.first) + ',' + std::to_string(r.blocks) + ',' + std::to_string(value) + ']';
  }
  out += ']';
}

}  // namespace

void bin::add(const event& e) {
  if (sums_.empty() || e.begin < begin_) begin_ = e.begin;
  end_ = std::max(end_, std::max(e.begin, e.end));
  records_ += e.records;
  sum& of = sums_[{e.what, e.block}];
  of.amount += e.amount;
  of.granules |= e.granules;
  if (program_counter_ == 0) program_counter_ = e.program_counter;
  if (!is_gpu_fault(e.what)) return;
  // Events come by time; faults of one batch share the time of their replay.
  if (e.end > served_until_) {
    waiting_ += e.end - std::max(e.begin, served_until_);
    served_until_ = e.end;
    ++batches_;
  }
}

std::string bin::json() const {
  std::string out;
  std::map<std::uint64_t, std::uint32_t> granules;
  for (auto at = sums_.begin(); at != sums_.end();) {
    const quantity what = at->first.first;
    std::vector<run> runs;
    for (; at != sums_.end() && at->first.first == what; ++at) {
      append(runs, at->first.second, at->second.amount, is_bytes(what));
      granules[at->first.second] |= at->second.granules;
    }
    write(out, quantity_names.at(static_cast<std::size_t>(what)), runs, is_bytes(what));
  }
  std::vector<run> masks;
  for (const auto& [block, mask] : granules) {
    if (mask != 0 && mask != every_granule) append(masks, block, mask, true);
  }
  if (!masks.empty()) write(out, "granules", masks, false);
  return out;
}

}  // namespace um::tracing
