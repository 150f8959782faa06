// Names code addresses in a form that is valid after the process has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace um::tracing {

// file+0xoffset, as addr2line wants it, and the symbol where the file exports one; "" for what is no code.
std::string place_of(std::uint64_t program_counter);

using call_stack = std::vector<void*>;  // return addresses, innermost first
call_stack stack_here();

// The places, without the frames of CUDA's own libraries and of this one.
std::vector<std::string> callers_of(const call_stack& stack);

}  // namespace um::tracing
