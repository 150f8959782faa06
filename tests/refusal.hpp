// What a call that must fail says.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace um {

// The message of the error; "" where the call does not fail.
template <class Error>
std::string refusal(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// A message is one line and has these words.
inline void expect_words(const std::string& message, const std::vector<std::string>& words) {
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << '"' << message << "\" lacks " << word;
}

}  // namespace um
