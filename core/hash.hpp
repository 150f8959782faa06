// A 64-bit hash of short texts: FNV-1a. It is not cryptographic.
#pragma once

#include <cstdint>
#include <string_view>

namespace um {

constexpr std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return hash;
}

}  // namespace um
