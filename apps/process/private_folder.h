#pragma once

#include <boost/process/child.hpp>

#include <string>

namespace embers {

// An empty folder that only this user may enter. It is removed with all it holds at the end, or when this
// process ends, even if that is killed: a process of its own watches over it.
class PrivateFolder {
 public:
  // In the folder for temporary files ($TMPDIR, or /tmp), or in /tmp where a socket with a name of `room`
  // bytes would get too long a path there. kInvalid if no folder can be made.
  explicit PrivateFolder(size_t room);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return folder_.path; }
  std::string operator/(const std::string& name) const { return folder_.path + "/" + name; }

 private:
  struct Folder {
    explicit Folder(size_t room);
    ~Folder();
    std::string path;
  };
  const Folder folder_;
  int lifeline_ = -1;  // a pipe that this process alone holds open
  boost::process::child watcher_;
};

}  // namespace embers
