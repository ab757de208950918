#include "base/files/file.h"

namespace embers {

std::string File::read_all() const {
  std::string text(size(), '\0');
  text.resize(read_at(0, text.data(), text.size()));
  return text;
}

}  // namespace embers
