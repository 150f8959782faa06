// What a machine can do: the figures that planners and the simulator need. Rates are per second,
// so that integer arithmetic serves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace um {

// Costs of the driver of managed memory, in nanoseconds unless the name says otherwise. "Block": 2 MiB, the
// unit in which it allocates and evicts; "granule": 64 KiB, the unit of migration. Each comment ends with the
// measurement that yields the figure. All measurements use less memory than the device has. "Visited": the
// GPU had touched the block before. "Unmapped": the data lies on the host and no processor has it mapped, as
// after an eviction; a prefetch to the host and a touch by the CPU map it. "Isolated": one thread, one access
// in each block, each waiting for the one before, by the GPU's clock. measure/figures.cpp
// has the arithmetic.
struct uvm_costs {
  // --- faults of kernels, serviced in batches ---

  // From a fault to its service, when the driver was idle, beyond what a batch takes. The first of
  // isolated accesses to visited data against those after it.
  nanoseconds interrupt_ns = 0;
  // A batch beyond its faults and blocks: flushing the buffer, the replay and the wait for it.
  // Isolated accesses to blocks of which one granule is resident, less service, granule and fault.
  nanoseconds batch_ns = 0;  // each batch of faults
  // Each fault that the driver fetches, also the duplicates; a full batch has 256. A full grid
  // streams through memory that lies nowhere, writing, against a sparse touch of it, a block.
  nanoseconds fault_ns = 0;  // each fault fetched
  // Distinct granules that a streaming kernel with a full grid asks for in a full batch, 1 to 256.
  // CUPTI counts the batches: a block then takes s of them; 1, 2, 3 to 4, 5 to 8, 9 to 16, 17 and more
  // granules make s = 6, 5, 4, 3, 2, 1.
  std::uint64_t batch_granules = 1;  // granules in a full batch of faults
  // Batches that a stream of reads takes where one of writes takes 100. CUPTI counts both.
  std::uint64_t read_batches_percent = 100;  // batches of reads per 100 of writes
  // Each block serviced in a batch. Accesses to one granule in every block of which another granule is
  // resident: slope over the blocks, less granule and its faults.
  nanoseconds service_ns = 0;  // each block serviced in a batch
  // Giving a block its chunk of device memory, also if its data has left the device since. Prefetch to the
  // device of data that lies nowhere against discarded data, a block.
  nanoseconds chunk_ns = 0;  // giving a block device memory
  // A block's first service, if it has data on the host: its host pages are mapped for DMA. Isolated
  // accesses, alternating between data that the GPU has never accessed and visited data.
  nanoseconds first_visit_ns = 0;  // a block's first service
  // Each granule that a fault's service brings in, copies apart: page tables and clearing. One place
  // in every granule of memory that lies nowhere against one in every block, by granules.
  nanoseconds granule_ns = 0;  // each granule that a service brings in
  // Issuing one copy to the device in a fault's service; what is asked for is copied apart from what
  // comes with it. One place in every granule, or every second one, of unmapped data against memory
  // that lies nowhere, by copies.
  nanoseconds issue_copy_ns = 0;  // issuing one copy in a service
  // Unmapping one contiguous run of pages from the CPU. One place in every second granule of data
  // that the CPU has mapped against unmapped data, by granules.
  nanoseconds host_unmap_ns = 0;  // unmapping a run of pages from the CPU
  // A page of 4 KiB where the driver goes page by page: a kernel's write to discarded data with no
  // prefetch between. Time of such a write of 16 MiB, a page.
  nanoseconds page_fault_ns = 0;  // a page where the driver goes page by page
  // The same where a kernel writes read-mostly data, which stays mapped read-only: on every pass. A write of
  // 32 MiB under that advice, a page ("advice/read_mostly/write").
  nanoseconds read_mostly_write_ns = 0;  // a page of read-mostly data that a kernel writes

  // --- movements ---

  // One copy of a part of a block, beyond its bytes at the link's rate. One prefetch of 1 GiB to
  // the device, a block, less 2 MiB at link_to_device_bytes_per_s.
  nanoseconds migrate_copy_ns = 0;  // one copy of a part of a block, beyond its bytes
  // The host's page size for managed memory: 2 MiB, 64 KiB or 4 KiB. 2 MiB where migrate_copy is less than
  // 512 copies by page could take; not told otherwise.
  byte_count host_chunk_bytes = 2 * MiB;  // the host's page size of managed memory
  // With 4 KiB or 64 KiB chunks each page of 4 KiB is a copy of its own: its cost beyond its bytes. 0
  // where chunks are 2 MiB.
  nanoseconds page_copy_ns = 0;  // one copy of a 4 KiB page, beyond its bytes
  // Evicting one block, beyond the copy: choosing, unmapping, and repeating the service that needed the
  // memory. Needs oversubscription, so never measured: prefetch_to_host_call plus service.
  nanoseconds evict_ns = 0;  // evicting a block, beyond the copy
  // Allocating and DMA-mapping the host pages of a block that never had any. Prefetch to the host of
  // data first touched by the GPU against data with host pages, a block.
  nanoseconds host_populate_ns = 0;  // allocating a block's host pages
  // Clearing them too, where no value is copied there. Prefetch to the host of discarded data that
  // never had host pages, against the above.
  nanoseconds host_clear_ns = 0;  // clearing a block's host pages
  // Mapping one page of 4 KiB for the CPU. Time per block of a 1 GiB prefetch to the host,
  // less 2 * prefetch_block, divided by its 512 pages. The copies run beside the mapping.
  nanoseconds host_map_page_ns = 0;  // mapping a page for the CPU
  // A fault of the CPU on data that lies on the device, copy and mapping apart. One CPU thread reads
  // a byte in every block, 64 KiB granules coming back: time a block, less 64 KiB at
  // link_to_host_bytes_per_s, migrate_copy and 16 * host_map_page.
  nanoseconds host_fault_ns = 0;  // a fault of the CPU on data on the device

  // --- calls (a prefetch that finds everything in place takes its blocks' time alone) ---

  // A prefetch of one granule to the device, on a stream that does nothing else: less the copy, chunk,
  // prefetch_block and host_unmap.
  nanoseconds prefetch_call_ns = 0;
  // Additional cost of each walk behind another call on the stream. Prefetch of 256 MiB in calls of
  // one block on one stream, a call, less what one takes alone.
  nanoseconds prefetch_queued_ns = 0;  // each pass over blocks behind another call
  // A prefetch of one granule to the host, less the copy, prefetch_block and 16 * host_map_page.
  nanoseconds prefetch_to_host_call_ns = 0;
  // Speed that a prefetch to the host keeps while one to the device runs, in percent. Prefetches
  // both ways at once, two threads: (time in + time out alone - time out) / time in.
  std::uint64_t prefetch_to_host_beside_percent = 100;
  // Speed that prefetches to the host keep while a kernel faults data in, and that faults keep beside them,
  // in percent: they wait for the same locks. Prefetch of 512 MiB to the host in calls of 8 MiB
  // and a read of 512 MiB of mapped data, alone and at once: (alone - beside + together) / together, where
  // `together` is the time of what ends first.
  std::uint64_t prefetch_to_host_beside_faults_percent = 100, faults_beside_prefetch_percent = 100;
  // A block in one walk of a prefetch, nothing copied; a call on more than one block walks them
  // twice. Prefetch of 1 GiB of resident data, divided by 1024 (512 blocks, two walks).
  nanoseconds prefetch_block_ns = 0;  // a block in one walk of a prefetch
  // A block that a prefetch makes appear on the device, nothing copied. Prefetch of 1 GiB of
  // discarded data against resident data, a block.
  nanoseconds populate_ns = 0;  // a block that a prefetch makes appear
  // Discard of one block. Discard of 1 GiB, divided by 512.
  nanoseconds discard_block_ns = 0;  // discarding a block

  // --- access without moving (preferred on the host, accessed by the device) ---

  std::uint64_t remote_read_bytes_per_s = 0;   // a full grid reads it over the link, streaming
  std::uint64_t remote_write_bytes_per_s = 0;  // and writes it
  // Number of accesses of 128 bytes over the link after which the driver migrates a granule; 0: never, the
  // driver's default for PCIe.
  std::uint64_t access_counter_threshold = 0;

  // --- fitted on an H200: no measurement of umbench calibrate yields them (docs/method/simulator.md,
  // docs/hints.md). A file that lacks one borrows it from that of the h200. The defaults here switch the
  // effects off ---

  // Faults per page where every page is accessed by its own thread: CUPTI counts 114 to 128 pages a batch.
  std::uint64_t faults_of_page = 1;  // faults per page
  // Granules of a block that need their own fault when a page of every granule is accessed; the prefetcher
  // brings the others. CUPTI counts half of the granules and one or two more.
  std::uint64_t sparse_granules = 32;  // granules of a block that fault themselves
  // Granules in each run of pages that unordered faults unmap from the CPU: about eight runs a block.
  std::uint64_t unmap_run_granules = 32;  // granules in a run unmapped from the CPU
  // Share of chunk_ns for a block that still has its chunk but whose data has left the device.
  std::uint64_t chunk_again_percent = 100;  // of chunk_ns, for a block that kept its chunk
  // Limit for one eviction call, since other calls wait for its end (docs/contributing/cuda.md); 0: no limit.
  byte_count eviction_call_bytes = 0;  // limit for one eviction call
  // Pause before each eviction call, so that calls of other lanes go first: as long as launches of a full
  // stream were seen to wait.
  nanoseconds eviction_gives_way_ns = 0;  // pause before each eviction call
  // Share of the kernel's link rate that copies between managed memory and its pinned twin use. A copy that
  // fills the link delays the discards beside it.
  std::uint64_t twin_copy_percent = 100;  // of the link's rate, for copies to and from twins
};

// Smallest and largest value of an uncertain figure; simulated times get their bounds from them.
struct figure_bounds {
  std::string name;  // "uvm.evict_ns"
  std::int64_t min_value = 0, max_value = 0;
};

// Share of the roofline rate that operators of a kind reach, in percent. It exceeds 100 where an algorithm
// saves arithmetic, as Winograd's does; memory traffic is the limit even then.
struct operator_speed {
  std::string kind;             // kind_of(): "convolution"
  std::string precision;        // to_text(): "bf16"
  std::int64_t filter = 0;      // only convolutions with filters of that height; 0: all
  std::uint64_t percent = 100;  // of the roofline rate
};

struct machine {
  std::string name;
  std::string source;                  // where the figures come from
  bool calibrated = false;             // measured on that machine by `umbench calibrate`
  std::vector<std::string> estimated;  // figures that nobody measured, as in its file: "uvm.evict_ns"
  std::vector<std::string> borrowed;   // figures that its file lacks and that are taken from the h200

  byte_count device_bytes = 0;  // usable by a program after the context is up
  byte_count host_bytes = 0;
  std::uint64_t multiprocessors = 1;  // number of them

  std::uint64_t fp32_flops_per_s = 0;
  std::uint64_t tf32_flops_per_s = 0, bf16_flops_per_s = 0;  // dense matrix products; 0: not supported
  std::uint64_t device_bytes_per_s = 0;                      // device memory bandwidth, reads plus writes

  // Pinned copies over the link, each way alone, and the sum of both ways at once.
  std::uint64_t link_to_device_bytes_per_s = 0;
  std::uint64_t link_to_host_bytes_per_s = 0;
  std::uint64_t link_both_bytes_per_s = 0;

  nanoseconds launch_ns = 0;  // one kernel
  nanoseconds copy_ns = 0;    // fixed cost of one asynchronous copy

  // Fitted on an H200, as those of the driver are. Copies whose rows are shorter than this are made by a
  // kernel, since a copy engine handles each row separately.
  byte_count engine_row_bytes = 0;
  // Costs that the simulator does not model. With 20 us and 3 %, simulated plans for VGG-16, batch 256, fp32,
  // on an H200, of 404 to 1376 slices and 5 to 15 GB of copies, are within 4 % of the measured time
  // (docs/hints.md).
  nanoseconds slice_ns = 0;  // time of a part of an operator, or of a copy of a twin, in addition to a launch
  // Operators that run beside copies of twins take longer by this share of the copies' time.
  std::uint64_t beside_copy_percent = 0;

  std::vector<operator_speed> operators;  // the first matching entry counts; without one, 100 percent
  std::vector<figure_bounds> bounds;

  uvm_costs uvm;
};

// Whether every figure was measured on that machine. Otherwise simulated records are flagged as estimated.
inline bool all_measured(const machine& m) {
  return m.calibrated && m.estimated.empty() && m.borrowed.empty();
}

// Bytes per second of copies to and from a twin, which is a tensor's second copy in pinned host memory; 0 if
// the link's rate is not known.
constexpr std::uint64_t rate_to_twin(const machine& on) {
  return std::min(on.link_to_host_bytes_per_s, on.uvm.remote_write_bytes_per_s) * on.uvm.twin_copy_percent /
         100;
}
constexpr std::uint64_t rate_from_twin(const machine& on) {
  return std::min(on.link_to_device_bytes_per_s, on.uvm.remote_read_bytes_per_s) * on.uvm.twin_copy_percent /
         100;
}

}  // namespace um
