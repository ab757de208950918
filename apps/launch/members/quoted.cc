#include "apps/launch/members/quoted.h"

namespace embers::launch {

std::string quoted(const std::string& word) {
  const char* const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) c == '\'' ? text += R"('\'')" : text += c;
  return text + "'";
}

std::string quoted(const Words& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : " ").append(quoted(word));
  return text;
}

}  // namespace embers::launch
