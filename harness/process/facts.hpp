// Facts about this host and its GPU from /proc and /sys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/study/environment.hpp"

namespace um {

// Facts from the files of /proc and /sys below `root` (empty: those of this machine) about the host, and
// about the GPU at `pci_bus_id`, such as 0000:1b:00.0.
fact_sheet host_facts_in(const std::filesystem::path& root);
fact_sheet gpu_facts_in(const std::filesystem::path& root, const std::string& pci_bus_id);

// Everything about this host.
host_facts facts_of_host();

// The parameters of the module nvidia_uvm; nothing if it is not loaded.
std::optional<named_facts> uvm_parameters();

}  // namespace um
