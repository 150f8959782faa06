// What a machine can do: the figures that planners and the simulator need. Rates are per second,
// so that integer arithmetic serves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace um {

// What the driver of managed memory takes for what it does, in nanoseconds unless the name says
// otherwise. "Block": 2 MiB, the unit in which it allocates and evicts; "granule": 64 KiB, the unit
// in which it brings in what a fault asks for. Each comment ends with the measurement that yields
// the figure; all of them use less memory than the device has. "Visited": the GPU had touched the
// block before. "Unmapped": the data lies on the host and no processor has it mapped, as after an
// eviction; a prefetch to the host and a touch by the CPU map it.
struct uvm_costs {
  // --- faults of kernels, serviced in batches ---

  // From a fault to its service, when the driver was idle. Latency of one dependent load in a block
  // of its own (visited, unmapped, one thread), less batch, service, fault, migrate_copy and 64 KiB
  // at the link's rate.
  nanoseconds interrupt_ns = 0;
  // A batch beyond what its faults and blocks take: reading the buffer, flushing it, the replay and
  // the wait for it. A full grid streams through memory that lies nowhere, as its first touch: time
  // of a batch (time / batches, counted by CUPTI or by the table below), less service and
  // batch_granules * fault.
  nanoseconds batch_ns = 0;
  // Each granule asked for in a batch. n threads touch one page each of n granules of one visited
  // block at once, n up to 16: slope over n.
  nanoseconds fault_ns = 0;
  // Distinct granules that a streaming kernel with a full grid asks for until the driver has
  // collected a batch, 1 to 256. CUPTI: distinct granules among the fault records that end at one
  // time. A block then takes s batches: 1, 2, 3 to 4, 5 to 8, 9 to 16, 17 and more granules make
  // s = 6, 5, 4, 3, 2, 1. Without CUPTI: the s at which a streaming first touch takes
  // s * (batch + service) a block, both from the isolated fault.
  std::uint64_t batch_granules = 1;
  // Each block serviced in a batch, copies apart. n threads touch one granule each of n visited,
  // unmapped blocks at once: slope over n, less fault.
  nanoseconds service_ns = 0;
  // A block's first service, if it has data on the host, beyond service: its host pages are mapped
  // for DMA. The streaming read of host data the first time against the second, a block.
  nanoseconds first_visit_ns = 0;
  // Each granule that a fault's service brings in, copies apart: entries of page tables written and
  // taken back. A streaming first touch, a block, less batches * (batch + service), divided by 32.
  nanoseconds granule_ns = 0;
  // Unmapping one contiguous run of pages from the CPU. Streaming read of data that the CPU has
  // mapped against unmapped data, a block, divided by the batches a block takes.
  nanoseconds host_unmap_ns = 0;
  // A page of 4 KiB where the driver goes page by page: a kernel's write to discarded data with no
  // prefetch between. Time of such a write of 64 MiB, a page.
  nanoseconds page_fault_ns = 0;

  // --- movements ---

  // Each copy (a contiguous run within a block) beyond its bytes at the link's rate. One prefetch of
  // 1 GiB to the device, a block, less 2 MiB at link_to_device_bytes_per_s.
  nanoseconds migrate_copy_ns = 0;
  // What the host backs a block with: 2 MiB, 64 KiB or 4 KiB. Driver 530 and later: 2 MiB where host
  // memory is not fragmented; the first visit of a block tells (one mapping, 32 or 512).
  byte_count host_chunk_bytes = 2 * MiB;
  // With 4 KiB or 64 KiB chunks each page of 4 KiB is a copy of its own: its cost beyond its bytes.
  nanoseconds page_copy_ns = 0;
  // Displacing one block, beyond the copy: choosing, unmapping and doing the service that needed
  // the room again. Not to be had without pressure: prefetch of one block to the host, less the
  // copy and 512 * host_map_page, plus service.
  nanoseconds evict_ns = 0;
  // Allocating and DMA-mapping the host pages of a block that never had any. Prefetch to the host of
  // data first touched by the GPU against data with host pages, a block.
  nanoseconds host_populate_ns = 0;
  // Clearing them too, where no value is copied there. Prefetch to the host of discarded data that
  // never had host pages, against the above.
  nanoseconds host_clear_ns = 0;
  // Mapping one page of 4 KiB for the CPU. One prefetch of 1 GiB to the host, a block, less 2 *
  // prefetch_block, divided by 512 (the copies are hidden unless that is less than they take).
  nanoseconds host_map_page_ns = 0;
  // A fault of the CPU on data that lies on the device, copy and mapping apart. One CPU thread reads
  // a byte in every block, 64 KiB granules coming back: time a block, less 64 KiB at
  // link_to_host_bytes_per_s, migrate_copy and 16 * host_map_page.
  nanoseconds host_fault_ns = 0;

  // --- calls (a prefetch that finds everything in place takes its blocks' time alone) ---

  // A prefetch of one block to the device, on a stream that does nothing else: less the copy.
  nanoseconds prefetch_call_ns = 0;
  // The same for a prefetch to the host, less the copy and 512 * host_map_page.
  nanoseconds prefetch_to_host_call_ns = 0;
  // Speed that a prefetch to the host keeps while one to the device runs, in percent. Prefetches of
  // the same size each way at once, two threads: (time in + time out alone - time out) / time in.
  std::uint64_t prefetch_to_host_beside_percent = 100;
  // What a call on more than one block takes beyond that: it walks them twice. Prefetch of 32 MiB to
  // the device, less prefetch_call and 16 * (migrate_copy + 2 MiB at the link's rate).
  nanoseconds prefetch_walk_ns = 0;
  // A block in one walk of a prefetch, nothing copied. Prefetch of 1 GiB of resident data, divided
  // by 1024 (512 blocks, two walks).
  nanoseconds prefetch_block_ns = 0;
  // Discard of one block. Discard of 1 GiB, divided by 512.
  nanoseconds discard_block_ns = 0;

  // --- access without moving (preferred on the host, accessed by the device) ---

  std::uint64_t remote_read_bytes_per_s = 0;   // a full grid reads it over the link, streaming
  std::uint64_t remote_write_bytes_per_s = 0;  // and writes it
  // Accesses of 128 bytes to a granule over the link after which the driver moves it to the device;
  // 0: never, which is the driver's default where the link is PCIe.
  std::uint64_t access_counter_threshold = 0;
};

struct machine {
  std::string name;
  std::string source;                  // where the figures come from
  bool calibrated = false;             // measured on that machine by `umbench calibrate`
  std::vector<std::string> estimated;  // figures that nobody measured, as in its file: "uvm.evict_ns"

  byte_count device_bytes = 0;  // usable by a program after the context is up
  byte_count host_bytes = 0;
  std::uint64_t multiprocessors = 1;

  std::uint64_t fp32_flops_per_s = 0;
  std::uint64_t tf32_flops_per_s = 0, bf16_flops_per_s = 0;  // dense matrix products; 0: not to be had
  std::uint64_t device_bytes_per_s = 0;                      // device memory bandwidth, reads plus writes

  // Pinned copies over the link, each way alone, and the sum of both ways at once.
  std::uint64_t link_to_device_bytes_per_s = 0;
  std::uint64_t link_to_host_bytes_per_s = 0;
  std::uint64_t link_both_bytes_per_s = 0;

  nanoseconds launch_ns = 0;  // one kernel
  nanoseconds copy_ns = 0;    // fixed cost of one asynchronous copy

  uvm_costs uvm;
};

}  // namespace um
