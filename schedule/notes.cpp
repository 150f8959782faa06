#include "schedule/notes.hpp"

namespace um {
namespace {

thread_local note_taker* listening = nullptr;

}  // namespace

note_taker::note_taker() : before_(listening) {
  listening = this;
}
note_taker::~note_taker() {
  listening = before_;
}

void note(const std::string& line) {
  if (listening != nullptr) listening->lines.push_back(line);
}

}  // namespace um
