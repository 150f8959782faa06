// Runs every reader on its kept corpus: replay CORPUS reads the files of CORPUS/NAME by the reader NAME.
// Files named *.json are valid seeds and must not be refused. Any compiler builds it, so it runs with all
// other tests.
#include <fmt/format.h>

#include <filesystem>

#include "fuzz/readers.hpp"
#include "harness/io/files.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: replay CORPUS\n");
    return 2;
  }
  for (const um::fuzzed_reader& reader : um::fuzzed_readers()) {
    std::size_t files = 0;
    for (const auto& file :
         std::filesystem::directory_iterator(std::filesystem::path(argv[1]) / reader.name)) {
      const bool accepted = reader.bear(um::read_file(file.path()));
      ++files;
      if (accepted || file.path().extension() != ".json") continue;
      fmt::print(stderr, "{}: is refused by the reader of {}; make it anew\n", file.path().string(),
                 reader.name);
      return 1;
    }
    fmt::print("{}: {} files\n", reader.name, files);
    if (files == 0) return 1;
  }
  return 0;
}
