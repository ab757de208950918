#pragma once

#include <memory>
#include <string>

namespace embers {

// One job at a time writes to a directory. Held until dropped, or until the process ends however it ends.
class DirectoryLock {
 public:
  // Makes the directory if need be. kInvalid naming it when another process holds it, or it cannot be made.
  static std::unique_ptr<const DirectoryLock> take(const std::string& directory);
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

}  // namespace embers
