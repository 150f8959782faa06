"""How long movements of managed memory take on a machine, by the figures of its machine file (core/machine.hpp explains each)."""

import json
from pathlib import Path

import umbench
from umbench import load

PAGE = 4096
BLOCK = 2 * 1024 * 1024
GRANULE = 64 * 1024
PAGES_PER_BLOCK = BLOCK // PAGE

# (part of a GPU's name, its machine file). The first match counts, and GH200 contains H200.
MACHINES = [("GH200", "gh200"), ("H200", "h200"), ("H100 PCIe", "h100-pcie5-80g"), ("H100", "h100-sxm-80g"), ("A100", "a100-pcie4-40g"),
            ("V100-SXM", "v100-nvlink-power9"), ("V100", "v100-pcie3-32g"), ("P100", "p100-pcie3-16g"), ("TITAN V", "titan-v"),
            ("1080 Ti", "gtx1080ti-11g"), ("GB300", "gb300"), ("GB10", "gb10"), ("B200", "b200"), ("A6000", "a6000-48g"), ("L40S", "l40s-48g"),
            ("RTX 4090", "rtx4090-24g"), ("RTX 5090", "rtx5090-32g")]
DEFAULT_MACHINE = "h200"


def machine_file_path(machine_name):
    """The path of the machine file of that name. Throws BadInput if there is none."""
    for package_folder in map(Path, umbench.__path__):
        for folder in (package_folder.parent.parent / "results/machines", package_folder / "results/machines"):
            if (folder / f"{machine_name}.json").is_file():
                return folder / f"{machine_name}.json"
    raise load.BadInput(f"there is no machine file {machine_name}; umbench list machines names them")


def machine_name_for_gpu(gpu_name):
    """(name of the machine file to use for a GPU, whether that file describes this kind of GPU)."""
    for gpu_name_part, machine_name in MACHINES:
        if gpu_name_part.lower() in (gpu_name or "").lower():
            return machine_name, True
    return DEFAULT_MACHINE, False


class Costs:
    """Times in nanoseconds of moving or touching a number of bytes of managed memory."""

    # Nanoseconds that a trace adds for each record of a launch with faults, of a launch without faults, and of a fault of the CPU. From
    # programs with and without a trace on an H100 (driver 580): a stream of 256 MiB by faults, some 8,000 records, took 44 to 58 ms longer; 1,536
    # faults of the CPU took 41 ms longer. Without faults VGG-16 took 36 ms longer, 60,000 records an iteration.
    FAULTING_LAUNCH_RECORD_NS, FAULTLESS_LAUNCH_RECORD_NS, CPU_FAULT_RECORD_NS = 5_000, 1_000, 26_000
    # CPU time to touch a page that a prefetch brought to the host. One value in each of 65,536 pages: 7.5 ms to read, 34 ms to write.
    HOST_READ_PAGE_NS, HOST_WRITE_PAGE_NS = 115, 520

    def __init__(self, machine_name):
        with open(machine_file_path(machine_name), encoding="utf-8") as file:
            self.figures = json.load(file)
        self.name = machine_name
        self.uvm = self.figures["uvm"]

    def _transfer_ns(self, bytes_per_s, byte_count):
        return byte_count * 1e9 / bytes_per_s

    def prefetch_to_gpu_ns(self, byte_count):
        """The time of a prefetch of memory from the host to the GPU."""
        block_count = -(-byte_count // BLOCK)
        copies_ns = self._transfer_ns(self.figures["link_to_device_bytes_per_s"], byte_count) + block_count * self.uvm["migrate_copy_ns"]
        walks_ns = 2 * block_count * self.uvm["prefetch_block_ns"] + block_count * (self.uvm["host_unmap_ns"] + self.uvm["chunk_ns"])
        return self.uvm["prefetch_call_ns"] + max(copies_ns, walks_ns)

    def populate_ns(self, byte_count):
        """The time of a prefetch of memory that no processor has touched."""
        block_count = -(-byte_count // BLOCK)
        return self.uvm["prefetch_call_ns"] + block_count * (self.uvm["chunk_ns"] + self.uvm["populate_ns"])

    def prefetch_to_host_ns(self, byte_count):
        """The time of a prefetch of memory from the GPU to the host."""
        block_count = -(-byte_count // BLOCK)
        copies_ns = self._transfer_ns(self.figures["link_to_host_bytes_per_s"], byte_count)
        maps_ns = block_count * (2 * self.uvm["prefetch_block_ns"] + PAGES_PER_BLOCK * self.uvm["host_map_page_ns"])
        return self.uvm["prefetch_to_host_call_ns"] + max(copies_ns, maps_ns)

    def touch_on_host_ns(self, byte_count, is_written):
        """The time in which the CPU touches each page of memory that a prefetch brought to the host."""
        return byte_count // PAGE * (self.HOST_WRITE_PAGE_NS if is_written else self.HOST_READ_PAGE_NS)

    def remote_read_ns(self, byte_count):
        """The time of a kernel to read memory on the host over the link."""
        return self._transfer_ns(self.uvm["remote_read_bytes_per_s"], byte_count)

    def min_kernel_ns(self, byte_count):
        """The minimum time of a kernel that touches `byte_count` bytes that are on the GPU."""
        return self.figures["launch_ns"] + self._transfer_ns(self.figures["device_bytes_per_s"], byte_count)
