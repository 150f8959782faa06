// The figures of a machine that planners and the simulator need. Rates are per second, so that integers
// suffice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace um {

// Costs of the driver of managed memory, in nanoseconds unless the name says otherwise. "Block": 2 MiB, the
// unit in which it allocates and evicts; "granule": 64 KiB, the unit of migration. Each comment ends with the
// measurement that yields the figure; measure/figures.cpp has the arithmetic. No measurement oversubscribes
// the device. "Unpopulated": no processor has touched the memory. "Visited": the GPU has touched the block
// before. "Unmapped": the data lies on the host and no processor has it mapped, as after an eviction; a
// prefetch to the host or a touch by the CPU maps it. "Isolated": one thread makes one access in each block,
// waits for it before the next, and reads the GPU's clock.
struct uvm_costs {
  // --- faults of kernels, serviced in batches ---

  // From a fault to its service if the driver was idle, beyond the batch's own time. Measured: the first of a
  // series of isolated accesses to visited data minus the later ones.
  nanoseconds interrupt_ns = 0;
  // A batch beyond its faults and blocks: flushing the fault buffer, the replay and the wait for it.
  // Measured: isolated accesses to blocks that have one resident granule, minus service, granule and fault.
  nanoseconds batch_ns = 0;
  // Each fault that the driver fetches, duplicates included; a full batch has 256. Measured: a streaming
  // write of a full grid to unpopulated memory compared with a sparse touch of it, per block.
  nanoseconds fault_ns = 0;
  // Distinct granules in a full batch of faults of a streaming kernel with a full grid, 1 to 256. CUPTI
  // counts the batches per block: 1, 2, 3 to 4, 5 to 8, 9 to 16, 17 and more granules make 6, 5, 4, 3, 2, 1
  // batches.
  std::uint64_t batch_granules = 1;  // per full batch of a stream
  // Batches of a stream of reads per 100 batches of a stream of writes. CUPTI counts both.
  std::uint64_t read_batches_percent = 100;
  // Each block serviced in a batch. Measured: accesses to one granule in every block that has another
  // resident granule, slope over the number of blocks, minus granule and its faults.
  nanoseconds service_ns = 0;  // per block in a batch
  // Giving a block its chunk of device memory, also if its data has left the device since. Measured: a
  // prefetch of unpopulated data to the device minus one of discarded data, per block.
  nanoseconds chunk_ns = 0;  // per block
  // A block's first service if it has data on the host: its host pages are mapped for DMA. Measured: isolated
  // accesses to data that the GPU has never accessed minus those to visited data, in turn.
  nanoseconds first_visit_ns = 0;  // per block with data on the host
  // Each granule that a fault's service brings in, without copies: page tables and clearing. Measured:
  // accesses to one place in every granule of unpopulated memory minus those to one place in every block, per
  // granule.
  nanoseconds granule_ns = 0;
  // Issuing one copy to the device in a fault's service. Granules that faulted and those that come with them
  // are copied separately. Measured: accesses to one place in every granule, or in every second one, of
  // unmapped data minus those of unpopulated memory, per copy.
  nanoseconds issue_copy_ns = 0;  // per copy in a fault's service
  // Unmapping one contiguous run of pages from the CPU. Measured: accesses to one place in every second
  // granule of data that the CPU has mapped minus those of unmapped data, per granule.
  nanoseconds host_unmap_ns = 0;  // per run of pages
  // A 4 KiB page if the driver services page by page: a kernel writes to discarded data without a prefetch in
  // between. Measured: such a write of 16 MiB, per page.
  nanoseconds page_fault_ns = 0;  // per 4 KiB page
  // A 4 KiB page of read-mostly data that a kernel writes. It stays mapped read-only, so every pass faults.
  // Measured: a write of 32 MiB under that advice, per page ("advice/read_mostly/write").
  nanoseconds read_mostly_write_ns = 0;  // per 4 KiB page and pass

  // --- movements ---

  // One copy of a part of a block, beyond its bytes at the link's rate. Measured: a prefetch of 1 GiB to the
  // device, per block, minus 2 MiB at link_to_device_bytes_per_s.
  nanoseconds migrate_copy_ns = 0;  // per copy, beyond its bytes
  // The host's page size for managed memory: 2 MiB, 64 KiB or 4 KiB. Known to be 2 MiB if migrate_copy_ns is
  // less than 512 copies of pages would take; otherwise not measured.
  byte_count host_chunk_bytes = 2 * MiB;
  // One copy of a 4 KiB page, beyond its bytes. With host chunks of 4 KiB or 64 KiB each page is copied
  // separately; 0 if chunks are 2 MiB.
  nanoseconds page_copy_ns = 0;
  // Evicting one block, beyond the copy: choosing, unmapping, and repeating the service that needed the
  // memory. Measuring it needs oversubscription, so it is set to prefetch_to_host_call_ns plus service_ns.
  nanoseconds evict_ns = 0;
  // Allocating and DMA-mapping the host pages of a block that never had any. Measured: a prefetch to the host
  // of data first touched by the GPU minus one of data with host pages, per block.
  nanoseconds host_populate_ns = 0;  // per block
  // Clearing these pages if no value is copied to them. Measured: a prefetch to the host of discarded data
  // without host pages minus one of data first touched by the GPU, per block.
  nanoseconds host_clear_ns = 0;  // per block
  // Mapping one 4 KiB page for the CPU. Measured: a prefetch of 1 GiB to the host, per block, minus 2 *
  // prefetch_block_ns, divided by 512 pages. The copies run beside the mapping.
  nanoseconds host_map_page_ns = 0;  // per 4 KiB page
  // A CPU fault on data that lies on the device, without copy and mapping. Measured: one CPU thread reads a
  // byte in every block, and 64 KiB come back each time; per block, minus 64 KiB at link_to_host_bytes_per_s,
  // migrate_copy_ns and 16 * host_map_page_ns.
  nanoseconds host_fault_ns = 0;  // per fault of the CPU

  // --- calls (a prefetch of data that is in place takes only prefetch_block_ns per block) ---

  // A prefetch of one granule to the device on an otherwise idle stream, minus the copy, chunk_ns,
  // prefetch_block_ns and host_unmap_ns.
  nanoseconds prefetch_call_ns = 0;  // per call, to the device
  // Additional cost of each walk over blocks if another call precedes it on the stream. Measured: a prefetch
  // of 256 MiB in calls of one block on one stream, per call, minus the time of one call alone.
  nanoseconds prefetch_queued_ns = 0;  // per walk of a call that is not alone on its stream
  // A prefetch of one granule to the host, minus the copy, prefetch_block_ns and 16 * host_map_page_ns.
  nanoseconds prefetch_to_host_call_ns = 0;  // per call
  // Speed that a prefetch to the host keeps while one to the device runs, in percent. Measured: prefetches in
  // both directions at once from two threads: (time in + time out alone - time out) / time in.
  std::uint64_t prefetch_to_host_beside_percent = 100;
  // Speed that prefetches to the host keep while a kernel faults data in, and that faults keep beside such
  // prefetches, in percent: both wait for the same locks. Measured: a prefetch of 512 MiB to the host in
  // calls of 8 MiB and a read of 512 MiB of mapped data, alone and at once: (alone - beside + together) /
  // together, where `together` is the time of the one that ends first.
  std::uint64_t prefetch_to_host_beside_faults_percent = 100, faults_beside_prefetch_percent = 100;
  // A block in one walk of a prefetch that copies nothing; a call on several blocks walks them twice.
  // Measured: a prefetch of 1 GiB of resident data, divided by 1024 (512 blocks, two walks).
  nanoseconds prefetch_block_ns = 0;  // per block and walk
  // A block that a prefetch populates on the device without a copy. Measured: a prefetch of 1 GiB of
  // discarded data minus one of resident data, per block.
  nanoseconds populate_ns = 0;  // per block
  // Discarding one block. Measured: a discard of 1 GiB, divided by 512.
  nanoseconds discard_block_ns = 0;

  // --- access without moving (preferred on the host, accessed by the device) ---

  std::uint64_t remote_read_bytes_per_s = 0;   // rate at which a full grid reads over the link, streaming
  std::uint64_t remote_write_bytes_per_s = 0;  // rate at which a full grid writes over the link, streaming
  // Number of accesses of 128 bytes over the link after which the driver migrates a granule; 0: never, the
  // driver's default for PCIe.
  std::uint64_t access_counter_threshold = 0;

  // --- fitted on an H200, since umbench calibrate cannot measure them (docs/method/simulator.md,
  // docs/hints.md). A machine's file that lacks one uses the h200's value. The defaults here switch the
  // effects off ---

  // Faults per page if each page is accessed by its own thread: CUPTI counts 114 to 128 pages per batch.
  std::uint64_t faults_of_page = 1;  // faults per page
  // Granules of a block that raise their own fault if a page of every granule is accessed; the driver's
  // prefetcher brings the others. CUPTI counts half of the granules plus one or two.
  std::uint64_t sparse_granules = 32;  // per block
  // Granules in each run of pages that unordered faults unmap from the CPU: about eight runs a block.
  std::uint64_t unmap_run_granules = 32;  // per run
  // Share of chunk_ns, in percent, for a block that still has its chunk but whose data has left the device.
  std::uint64_t chunk_again_percent = 100;
  // Maximum bytes of one eviction call, since other calls wait for its end (docs/contributing/cuda.md); 0: no
  // limit.
  byte_count eviction_call_bytes = 0;
  // Pause before each eviction call, so that other lanes' calls go first: as long as launches on a full
  // stream were seen to wait.
  nanoseconds eviction_gives_way_ns = 0;
  // Share, in percent, of the kernel's link rate that copies between managed memory and its pinned twin use.
  // A copy that fills the link delays the discards beside it.
  std::uint64_t twin_copy_percent = 100;
};

// Smallest and largest value of an uncertain figure. Bounds on simulated times follow from them.
struct uncertain_figure {
  std::string name;  // "uvm.evict_ns"
  std::int64_t min_value = 0, max_value = 0;
};

// Share of the roofline rate that operators of a kind reach, in percent. It exceeds 100 where an algorithm
// saves arithmetic, as Winograd's does; memory traffic is the limit even then.
struct operator_speed {
  std::string kind;             // kind_of(): "convolution"
  std::string precision;        // to_text(): "bf16"
  std::int64_t filter = 0;      // applies to convolutions with filters of that height only; 0: to all
  std::uint64_t percent = 100;  // share of the roofline rate
};

struct machine {
  std::string name;
  std::string source;                  // where the figures come from
  bool calibrated = false;             // measured on that machine by `umbench calibrate`
  std::vector<std::string> estimated;  // names of figures that were not measured, such as "uvm.evict_ns"
  std::vector<std::string> borrowed;   // names of figures that its file lacks and that are the h200's

  byte_count device_bytes = 0;  // usable by a program after the context is created
  byte_count host_bytes = 0;
  std::uint64_t multiprocessors = 1;  // number of multiprocessors

  std::uint64_t fp32_flops_per_s = 0;
  std::uint64_t tf32_flops_per_s = 0, bf16_flops_per_s = 0;  // dense matrix products; 0: not supported
  std::uint64_t device_bytes_per_s = 0;                      // device memory bandwidth, reads plus writes

  // Pinned copies over the link, each way alone, and the sum of both ways at once.
  std::uint64_t link_to_device_bytes_per_s = 0;
  std::uint64_t link_to_host_bytes_per_s = 0;
  std::uint64_t link_both_bytes_per_s = 0;

  nanoseconds launch_ns = 0;  // time of one kernel launch
  nanoseconds copy_ns = 0;    // fixed cost of one asynchronous copy

  // Fitted on an H200. A kernel makes copies whose rows are shorter than this, since a copy engine handles
  // each row separately.
  byte_count engine_row_bytes = 0;  // least row of a copy that a copy engine makes
  // The next two stand for costs that the simulator does not model. With 20 us and 3 %, simulated plans for
  // VGG-16, batch 256, fp32, on an H200, of 404 to 1376 slices and 5 to 15 GB of copies, are within 4 % of
  // the measured time (docs/hints.md).
  nanoseconds slice_ns = 0;  // added to a launch for each part of an operator and each copy of a twin
  // Time by which operators beside copies of twins take longer, in percent of the copies' time.
  std::uint64_t beside_copy_percent = 0;

  std::vector<operator_speed> operators;  // the first matching entry applies; without one, 100 percent
  std::vector<uncertain_figure> uncertain_figures;

  uvm_costs uvm;
};

// Whether every figure was measured on that machine. If not, simulated records are flagged as estimated.
inline bool all_measured(const machine& m) {
  return m.calibrated && m.estimated.empty() && m.borrowed.empty();
}

// Rate of copies to a twin, a tensor's second copy in pinned host memory; 0 if the link's rate is unknown.
constexpr std::uint64_t rate_to_twin(const machine& on) {
  return std::min(on.link_to_host_bytes_per_s, on.uvm.remote_write_bytes_per_s) * on.uvm.twin_copy_percent /
         100;
}
constexpr std::uint64_t rate_from_twin(const machine& on) {
  return std::min(on.link_to_device_bytes_per_s, on.uvm.remote_read_bytes_per_s) * on.uvm.twin_copy_percent /
         100;
}

}  // namespace um
