#include "trace/event_sums.hpp"

#include <algorithm>
#include <vector>

#include "trace/line_writer.hpp"

namespace um::tracing {
namespace {

constexpr std::uint32_t every_granule = 0xFFFFFFFF;

bool is_gpu_fault(quantity what) {
  return what == quantity::gpu_read_faults || what == quantity::gpu_write_faults;
}

bool is_bytes(quantity what) {
  return what <= quantity::in_peer;
}

struct block_run {
  std::uint64_t first = 0, blocks = 0, sum = 0;
  std::uint64_t each = 0;      // value of the last block of the run
  bool merges_freely = false;  // it may share a run with such a neighbour of any value
};

void append_block(std::vector<block_run>& runs, std::uint64_t block, std::uint64_t value,
                  bool merges_freely) {
  if (!runs.empty()) {
    block_run& last = runs.back();
    if (last.first + last.blocks == block && ((last.merges_freely && merges_freely) || last.each == value)) {
      ++last.blocks;
      last.sum += value;
      last.each = value;
      last.merges_freely = last.merges_freely && merges_freely;
      return;
    }
  }
  runs.push_back({block, 1, value, value, merges_freely});
}

void append_field(std::string& out, const char* name, const std::vector<block_run>& runs, bool as_sum) {
  out += ",\"";
  out += name;
  out += "\":[";
  for (const block_run& r : runs) {
    if (out.back() == ']') out += ',';
    out += '[' + std::to_string(r.first) + ',' + std::to_string(r.blocks) + ',' +
           std::to_string(as_sum ? r.sum : r.each) + ']';
  }
  out += ']';
}

}  // namespace

void event_sums::add(const event& e) {
  if (sums_.empty() || e.begin < begin_) begin_ = e.begin;
  end_ = std::max(end_, std::max(e.begin, e.end));
  records_ += e.records;
  sum& of = sums_[{e.what, e.block}];
  of.amount += e.amount;
  of.granules |= e.granules;
  if (program_counter_ == 0) program_counter_ = e.program_counter;
  if (!is_gpu_fault(e.what)) return;
  // Events come in order of time. Faults of one batch end at the same time, that of their replay.
  if (e.end > serviced_until_) {
    waiting_ += e.end - std::max(e.begin, serviced_until_);
    serviced_until_ = e.end;
    ++batches_;
  }
}

// Bytes of blocks that moved whole are summed over a run of neighbours, whatever caused each part.
std::string event_sums::json_fields() const {
  std::map<std::uint64_t, std::uint64_t> came, left;
  std::map<std::uint64_t, std::uint32_t> granules;
  for (const auto& [key, of] : sums_) {
    const auto& [what, block] = key;
    if (what <= quantity::in_counter) came[block] += of.amount;
    if (what >= quantity::out_unknown && what <= quantity::out_counter) left[block] += of.amount;
    granules[block] |= of.granules;
  }
  std::string out = field("waiting_ns", waiting_) + field("batches", batches_) + field("records", records_);
  for (auto at = sums_.begin(); at != sums_.end();) {
    const quantity what = at->first.first;
    std::vector<block_run> runs;
    for (; at != sums_.end() && at->first.first == what; ++at) {
      const std::uint64_t block = at->first.second;
      auto& moved = what <= quantity::in_counter ? came : left;
      const bool merges_freely =
          !is_bytes(what) || (what != quantity::in_peer && moved[block] == block_bytes);
      append_block(runs, block, at->second.amount, merges_freely);
    }
    append_field(out, quantity_names.at(static_cast<std::size_t>(what)), runs, true);
  }
  std::vector<block_run> masks;
  for (const auto& [block, mask] : granules) {
    if (mask != 0 && mask != every_granule) append_block(masks, block, mask, false);
  }
  if (!masks.empty()) append_field(out, "granules", masks, false);
  return out;
}

}  // namespace um::tracing
