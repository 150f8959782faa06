#include <algorithm>
#include <map>
#include <utility>

#include "simulator/managed_memory.hpp"

namespace um {
namespace {

constexpr byte_count bytes_per_access = 128;  // bytes of one access as the GPU's access counters count it

// The driver fetches at most 256 faults at a time [uvm_perf_fault_batch_count].
constexpr unsigned full_batch = 256;

std::uint64_t next_random(std::uint64_t seed) {
  return seed * 6364136223846793005U + 1442695040888963407U;
}

// Every stride-th of these granules of block `id`, counted from byte `from` of block `first`.
granule_set strided_granules(granule_set of, std::uint32_t id, std::uint32_t first, unsigned stride,
                             byte_count from) {
  if (stride <= 1) return of;
  const byte_count origin = from % managed_block / granule_bytes;
  granule_set s = 0;
  for (unsigned g = 0; g < granules_per_block; ++g) {
    const std::uint64_t at = std::uint64_t{id - first} * granules_per_block + g;
    if (at >= origin && (at - origin) % stride == 0) s |= granule_set{1} << g;
  }
  return s & of;
}

// The granules of consecutive blocks in random order: pairs of block index and granule.
std::vector<std::pair<std::uint32_t, granule_set>> in_random_order(std::uint32_t first,
                                                                   const std::vector<granule_set>& of_block) {
  std::vector<std::pair<std::uint32_t, granule_set>> order;
  for (std::uint32_t i = 0; i < of_block.size(); ++i) {
    for (granule_set rest = of_block[i]; rest != 0; rest &= rest - 1)
      order.emplace_back(first + i, first_granules_of(rest, 1));
  }
  std::uint64_t seed = 1;
  for (std::size_t i = order.size(); i > 1; --i) {
    seed = next_random(seed);
    std::swap(order[i - 1], order[(seed >> 33U) % i]);
  }
  return order;
}

// Bytes of the range within those granules of the block.
byte_count bytes_within(range r, std::uint32_t id, granule_set granules) {
  byte_count sum = 0;
  for (unsigned g = 0; g < granules_per_block; ++g) {
    if ((granules >> g & 1U) == 0) continue;
    const byte_count begin = id * managed_block + g * granule_bytes;
    sum += std::min(begin + granule_bytes, r.offset + r.bytes) - std::max(begin, r.offset);
  }
  return sum;
}

unsigned granules_per_batch(touch_pattern how, const uvm_costs& costs) {
  if (how.dependent) return 1;
  return how.sparse || how.shuffled ? full_batch / static_cast<unsigned>(costs.faults_of_page)
                                    : static_cast<unsigned>(costs.batch_granules);
}

// Time to fetch the faults on this many granules. A streaming kernel fills a batch with the faults of
// batch_granules. Those of a shuffled touch are added by add_page_fault_time().
nanoseconds fault_fetch_time(touch_pattern how, const uvm_costs& costs, unsigned granules) {
  if (how.dependent) return costs.fault_ns * granules;
  if (how.shuffled) return 0;
  if (how.sparse) return costs.fault_ns * granules * static_cast<nanoseconds>(costs.faults_of_page);
  return costs.fault_ns * granules * full_batch / static_cast<nanoseconds>(costs.batch_granules);
}

// All threads of a shuffled touch fault at once. A batch takes 256 faults, each page of another granule. The
// faults of the granules' other pages lie in the buffer, too: the driver clears them before it replays
// [fault_buffer_flush_locked]. Each is assumed to cost what fetching one does.
void add_page_fault_time(driver_operation& driver, granule_set granules) {
  const uvm_costs& costs = driver.costs();
  driver.clock.work(costs.fault_ns * static_cast<nanoseconds>(costs.faults_of_page) * pages_per_granule *
                    count(granules));
}

}  // namespace

access_counters::access_counters(std::uint64_t blocks, std::uint64_t threshold) : threshold_(threshold) {
  if (is_on()) access_counts_.resize(blocks * granules_per_block);
}

bool access_counters::count_reaches_threshold(std::uint32_t block, unsigned granule, byte_count bytes) {
  std::uint32_t& seen = access_counts_[std::size_t{block} * granules_per_block + granule];
  if (seen >= threshold_) {
    seen = 0;
    return true;
  }
  seen += static_cast<std::uint32_t>(bytes / bytes_per_access);
  return false;
}

kernel_faults::kernel_faults(block_table& blocks, access_counters& counters, const driver_times& times,
                             range r, access_mode mode, touch_pattern how, bool driver_is_busy)
    : blocks_(blocks),
      counters_(counters),
      driver_(blocks, times, times.costs().service_ns),
      range_(r),
      touched_blocks_(cover_of(r)),
      mode_(mode),
      writes_(mode != access_mode::read),
      pattern_(how),
      driver_is_busy_(driver_is_busy),
      batch_limit_(granules_per_batch(how, times.costs())) {
  if (!how.dependent) driver_.expect_scattered_faults();
}

managed_traffic kernel_faults::run() {
  if (pattern_.shuffled || (pattern_.sparse && !pattern_.hits_wait)) find_pending();
  if (pattern_.shuffled) {
    touch_shuffled();
  } else {
    touch_by_address();
  }
  return driver_.finish();
}

// --- the order of faults ---

void kernel_faults::touch_by_address() {
  for (std::uint32_t id = touched_blocks_.first; id <= touched_blocks_.last;) {
    const granule_set needed = pending_.empty() ? touched_in(id) : pending_in(id);
    if (writes_ && is_advised(blocks_[id], advice::read_mostly)) {
      service_batch();
      if (needed != 0) write_read_mostly({id, needed});
      ++id;
    } else if (touch_block(id, needed)) {
      ++id;
    }
  }
  service_batch();
}

// Adds faults of the block to the batch. Returns false if the block has further faults once the batch is
// serviced.
bool kernel_faults::touch_block(std::uint32_t id, granule_set needed) {
  const block_entry& b = blocks_[id];
  const granule_set missing = needed & ~accessible_without_fault(b, writes_);
  if (missing == 0) {
    if ((b.remote & needed) != 0) access_remote(id, b.remote & needed);
    return true;
  }
  const unsigned of_block =
      pattern_.sparse ? static_cast<unsigned>(driver_.costs().sparse_granules) : granules_per_block;
  const granule_set asked = first_granules_of(missing, std::min(batch_limit_ - batch_granules_, of_block));
  add_to_batch(id, asked);
  // Data that stays on the host is accessed over the link as soon as it is mapped.
  const bool is_full = batch_granules_ == batch_limit_;
  const bool lacks_more =
      is_full || is_accessed_remotely(b) || (missing & ~granules_made_resident(b, asked, writes_)) != 0;
  if (lacks_more) service_batch();
  return !lacks_more;
}

// Finds the granules not used yet: all touched ones if hits wait for misses, otherwise those that were not
// accessible at the beginning.
void kernel_faults::find_pending() {
  for (std::uint32_t id = touched_blocks_.first; id <= touched_blocks_.last; ++id) {
    const block_entry& b = blocks_[id];
    const granule_set at_once = pattern_.hits_wait ? 0 : accessible_without_fault(b, writes_) & ~b.remote;
    pending_.push_back(touched_in(id) & ~at_once);
  }
}

// The faults of a batch are a random sample of the unused granules.
void kernel_faults::touch_shuffled() {
  for (std::uint32_t id = touched_blocks_.first; id <= touched_blocks_.last; ++id) {
    granule_set& left = pending_in(id);
    if (writes_ && is_advised(blocks_[id], advice::read_mostly)) {
      if (left != 0) write_read_mostly({id, left});
      left = 0;
    }
    if (!pattern_.hits_wait) complete_accesses(id, left);
  }
  std::map<std::uint32_t, granule_set> asked;  // a batch is serviced by address
  const auto serve = [&] {
    for (const auto& [id, granules] : asked) add_to_batch(id, granules);
    asked.clear();
    service_batch();
  };
  unsigned faults = 0;
  for (const auto& [id, one] : in_random_order(touched_blocks_.first, pending_)) {
    if (pattern_.hits_wait) complete_accesses(id, one);
    if ((pending_in(id) & one) == 0) continue;
    asked[id] |= one;
    if (++faults < batch_limit_) continue;
    serve();
    faults = 0;
  }
  serve();
}

// Lets threads that waited for these granules use those that are accessible now.
void kernel_faults::complete_accesses(std::uint32_t id, granule_set granules) {
  const block_entry& b = blocks_[id];
  granule_set& left = pending_in(id);
  if (const granule_set remote = b.remote & left & granules; remote != 0) access_remote(id, remote);
  left &= ~(accessible_without_fault(b, writes_) & granules);
}

void kernel_faults::add_to_batch(std::uint32_t id, granule_set granules) {
  batch_.push_back({id, granules});
  batch_granules_ += count(granules);
}

granule_set kernel_faults::touched_in(std::uint32_t id) const {
  return strided_granules(touched_blocks_.granules_of(id), id, touched_blocks_.first, pattern_.stride,
                          range_.offset);
}

// A sparse touch takes one page of each granule.
byte_count kernel_faults::bytes_touched(std::uint32_t id, granule_set granules) const {
  const byte_count all = bytes_within(range_, id, granules);
  return pattern_.sparse ? std::min(all, count(granules) * page_bytes) : all;
}

// --- services ---

// Services the collected faults, if there are any.
void kernel_faults::service_batch() {
  if (batch_granules_ == 0) return;
  const uvm_costs& costs = driver_.costs();
  driver_clock& clock = driver_.clock;
  if (!driver_is_busy_) clock.work(costs.interrupt_ns);
  ++driver_.traffic.batches;
  driver_.traffic.faulted_granules += batch_granules_;
  const bool streams_reads = !writes_ && !pattern_.dependent && !pattern_.sparse && !pattern_.shuffled;
  const auto percent = static_cast<nanoseconds>(streams_reads ? costs.read_batches_percent : 100);
  clock.work(fault_fetch_time(pattern_, costs, batch_granules_) * percent / 100);
  for (const fault& f : batch_) {
    service(f);
    if (!pending_.empty()) complete_accesses(f.block, pattern_.hits_wait ? f.granules : all_granules);
  }
  clock.wait_for_copies();
  clock.work(costs.batch_ns * percent / 100);
  batch_.clear();
  batch_granules_ = 0;
  driver_is_busy_ = true;
}

void kernel_faults::service(const fault& f) {
  const block_entry& b = blocks_[f.block];
  driver_.clock.work(driver_.costs().service_ns);
  ++driver_.traffic.services;
  granule_set rest = f.granules;
  if (const granule_set dead = writes_ ? rest & b.discarded : 0; dead != 0) {
    service_discarded({f.block, dead});
    rest &= ~dead;
  }
  if (is_accessed_remotely(b)) {
    const granule_set stays = rest & (is_advised(b, advice::preferred_host) ? ~b.device : b.host);
    if (stays != 0) service_in_place({f.block, stays});
    rest &= ~stays;
  }
  if (rest == 0) return;
  const bool nowhere = (b.device | b.host) == 0;
  granule_set want = nowhere && is_advised(b, advice::preferred_device)
                         ? all_granules
                         : with_prefetched_granules(b.device, rest);
  want &= ~b.discarded | rest;
  const granule_set arrives = want & ~b.device, copied = arrives & b.host;
  if (pattern_.shuffled)
    add_page_fault_time(driver_, arrives & (pattern_.hits_wait ? rest : pending_in(f.block)));
  // Granules that faulted are copied separately from the rest.
  driver_.clock.work(driver_.costs().issue_copy_ns * 2 * count(copied & rest));
  driver_.make_resident(f.block, want, is_advised(b, advice::read_mostly) && !writes_,
                        &managed_traffic::fault_bytes);
  driver_.clock.work(driver_.costs().granule_ns * count(arrives));
}

// Services a fault page by page: the driver does not prefetch into discarded data. The block stays on the
// list of discarded ones although its value counts again.
void kernel_faults::service_discarded(const fault& f) {
  driver_.make_resident(f.block, f.granules, false, &managed_traffic::fault_bytes);
  driver_.clock.work(driver_.costs().page_fault_ns * pages_per_granule * count(f.granules));
  blocks_.append(f.block, chunk_list::discarded);
  blocks_[f.block].discarded &= ~f.granules;
}

// Unpopulated data that prefers the host is allocated there, a whole block at once, and mapped.
void kernel_faults::service_in_place(const fault& f) {
  block_entry& b = blocks_[f.block];
  const bool nowhere = (b.device | b.host) == 0;
  const granule_set fresh = (nowhere ? all_granules : f.granules) & ~b.host;
  driver_.populate_host(b, fresh);
  b.host |= fresh;
  b.discarded &= ~fresh;
  map_if_accessed_remotely(b);
}

// Every touched page faults, and the block comes to the device.
void kernel_faults::write_read_mostly(const fault& f) {
  driver_.clock.work(driver_.costs().service_ns);
  ++driver_.traffic.services;
  ++driver_.traffic.batches;
  driver_.traffic.faulted_granules += count(f.granules);
  const byte_count pages = round_up(bytes_touched(f.block, f.granules), page_bytes) / page_bytes;
  blocks_[f.block].discarded &= ~f.granules;
  driver_.make_resident(f.block, f.granules, false, &managed_traffic::fault_bytes);
  driver_.clock.work(driver_.costs().read_mostly_write_ns * static_cast<nanoseconds>(pages));
  driver_.clock.wait_for_copies();
  driver_is_busy_ = true;
}

// --- access over the link ---

// Granules that were accessed often enough before migrate; the rest is read and written over the link. The
// driver learns of a full counter while the kernel goes on, so a pass ends over the link.
void kernel_faults::access_remote(std::uint32_t id, granule_set touched) {
  if (const granule_set often = granules_to_migrate(id, touched); often != 0) {
    driver_.clock.work(driver_.costs().batch_ns + driver_.costs().service_ns);
    driver_.make_resident(id, with_prefetched_granules(blocks_[id].device, often), false,
                          &managed_traffic::fault_bytes);
    driver_.clock.wait_for_copies();
  }
  const byte_count bytes = bytes_touched(id, touched & ~blocks_[id].device);
  const bool reads = mode_ != access_mode::write;
  if (reads) driver_.clock.work(driver_.times().remote_read(bytes));
  if (writes_) driver_.clock.work(driver_.times().remote_write(bytes));
  driver_.traffic.remote_bytes += bytes * (reads && writes_ ? 2 : 1);
}

granule_set kernel_faults::granules_to_migrate(std::uint32_t id, granule_set touched) {
  if (!counters_.is_on() || is_advised(blocks_[id], advice::preferred_host)) return 0;
  granule_set often = 0;
  for (unsigned g = 0; g < granules_per_block; ++g) {
    const granule_set one = granule_set{1} << g;
    if ((touched & one) != 0 && counters_.count_reaches_threshold(id, g, bytes_touched(id, one)))
      often |= one;
  }
  return often;
}

}  // namespace um
