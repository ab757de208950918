#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace embers {

// A file that processes lock, and in which whoever has it alone says who that is. Released when dropped, or
// when the process ends, however it ends. On a file system without locks, everybody gets them.
class LockFile {
 public:
  virtual ~LockFile() = default;
  // Whether this process has it alone now. One that has it may ask again.
  virtual bool try_lock() = 0;
  // Has it together with others that share it. Waits for one that has it alone.
  virtual void share() = 0;
  virtual std::string holder() const = 0;
  virtual void sign(const std::string& holder) = 0;  // if this fails, an error is only less clear
};

// Where journals and checkpoints are: the seam by which a test gives them a disk in memory
// (tests/support/simulated_disk.h). Failures are those of File. *Thread safety*: any thread.
class Disk {
 public:
  virtual ~Disk() = default;

  virtual std::unique_ptr<File> create(const std::string& path) = 0;  // empty, for writing
  virtual std::unique_ptr<File> append(const std::string& path) = 0;  // created if need be, for writing
  virtual std::unique_ptr<File> open(const std::string& path) = 0;    // for reading; directories, too
  virtual void truncate(const std::string& path, uint64_t size) = 0;

  virtual bool exists(const std::string& path) = 0;
  virtual std::vector<std::string> names_in(const std::string& directory) = 0;
  // With those above it.
  virtual void create_directories(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // A file or an empty directory, or a directory and all that is in it; there need not be any.
  virtual void remove(const std::string& path) = 0;
  virtual void remove_all(const std::string& path) = 0;

  // Created if need be.
  virtual std::unique_ptr<LockFile> lock_file(const std::string& path) = 0;

  // Of its host, as boot_id(): under another one, something that was not synced may be lost.
  virtual std::string boot() = 0;

  // Makes durable what was created, renamed and removed in a directory.
  void sync_directory(const std::string& path) { open(path)->sync(); }
};

// The file system of this host.
Disk& host_disk();

}  // namespace embers
