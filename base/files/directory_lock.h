#pragma once

#include <memory>
#include <string>

namespace embers {

// Lets only one job at a time write to a directory. Held until dropped, or until the process ends, however it
// ends.
class DirectoryLock {
 public:
  // Creates the directory if need be. kInvalid naming it when another process holds it, or it cannot be
  // created.
  static std::unique_ptr<const DirectoryLock> take(const std::string& directory);
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

}  // namespace embers
