// libFuzzer's entry; the environment variable UMBENCH_FUZZ_READER names the reader.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fuzz/readers.hpp"

namespace {

const um::fuzzed_reader& chosen() {
  const char* name = std::getenv("UMBENCH_FUZZ_READER");
  const um::fuzzed_reader* reader = name ? um::fuzzed_reader_named(name) : nullptr;
  if (reader != nullptr) return *reader;
  std::fprintf(stderr, "UMBENCH_FUZZ_READER names no reader; fuzz/run sets it\n");
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const um::fuzzed_reader& reader = chosen();
  reader.bear({reinterpret_cast<const char*>(data), size});
  return 0;
}
