#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/errors.h"
#include "base/files/disk.h"
#include "base/host.h"

namespace embers {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail_to(const char* verb, const std::string& path, const std::error_code& why) {
  fail(file_error_code(why.value()), "cannot {} '{}': {}", verb, path, why.message());
}
[[noreturn]] void fail_to(const char* verb, const std::string& path) {
  fail_to(verb, path, {errno, std::generic_category()});
}

class Descriptor {
 public:
  Descriptor(int number, const std::string& path, const char* verb) : number_(number) {
    if (number_ < 0) fail_to(verb, path);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }  // NOLINT: stands for it everywhere

 private:
  const int number_;
};

size_t read_from(int descriptor, uint64_t offset, void* to, size_t n, const std::string& path) {
  size_t done = 0;
  while (done < n) {
    const ssize_t got =
        ::pread(descriptor, static_cast<char*>(to) + done, n - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to("read", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

class HostFile final : public File {
 public:
  HostFile(int descriptor, const std::string& path, const char* verb)
      : File(path), descriptor_(descriptor, path, verb) {}

  uint64_t size() const override {
    struct stat status;
    if (::fstat(descriptor_, &status) != 0) fail_to("examine", path());
    return static_cast<uint64_t>(status.st_size);
  }
  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_to("write", path());
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  size_t read_at(uint64_t offset, void* to, size_t n) const override {
    return read_from(descriptor_, offset, to, n, path());
  }
  void sync() const override {
    if (::fsync(descriptor_) != 0) fail_to("sync", path());
  }
  std::unique_ptr<File> open_in(const std::string& name) const override {
    return std::make_unique<HostFile>(::openat(descriptor_, name.c_str(), O_RDONLY | O_CLOEXEC),
                                      path() + "/" + name, "open");
  }

 private:
  const Descriptor descriptor_;
};

class HostLockFile final : public LockFile {
 public:
  explicit HostLockFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666), path, "write to") {}

  bool try_lock() override { return ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }
  void share() override { ::flock(descriptor_, LOCK_SH); }
  std::string holder() const override {
    std::string text(kLongestHolder, 0);
    const ssize_t n = ::pread(descriptor_, text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }
  void sign(const std::string& holder) override {
    if (::ftruncate(descriptor_, 0) == 0) [[maybe_unused]]
      const ssize_t n = ::pwrite(descriptor_, holder.data(), holder.size(), 0);
  }

 private:
  static constexpr size_t kLongestHolder = 4096;
  const Descriptor descriptor_;
};

class HostDisk final : public Disk {
 public:
  std::unique_ptr<File> create(const std::string& path) override {
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, "create");
  }
  std::unique_ptr<File> append(const std::string& path) override {
    return open(path, O_WRONLY | O_CREAT | O_APPEND, "write to");
  }
  std::unique_ptr<File> open(const std::string& path) override { return open(path, O_RDONLY, "open"); }
  void truncate(const std::string& path, uint64_t size) override {
    std::error_code error;
    fs::resize_file(path, size, error);
    if (error) fail_to("truncate", path, error);
  }

  bool exists(const std::string& path) override {
    std::error_code error;
    const bool found = fs::exists(path, error);
    if (error) fail_to("examine", path, error);
    return found;
  }
  std::vector<std::string> names_in(const std::string& directory) override {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
      names.push_back(at->path().filename().string());
    if (error) fail_to("list", directory, error);
    return names;
  }
  void create_directories(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail_to("create directory", path, error);
  }
  void rename(const std::string& from, const std::string& to) override {
    std::error_code error;
    fs::rename(from, to, error);
    if (error) fail_to("rename to", to, error);
  }
  void remove(const std::string& path) override {
    std::error_code error;
    fs::remove(path, error);
    if (error) fail_to("remove", path, error);
  }
  void remove_all(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail_to("remove", path, error);
  }

  std::unique_ptr<LockFile> lock_file(const std::string& path) override {
    return std::make_unique<HostLockFile>(path);
  }
  std::string boot() override { return boot_id(); }

 private:
  static std::unique_ptr<File> open(const std::string& path, int flags, const char* verb) {
    return std::make_unique<HostFile>(::open(path.c_str(), flags | O_CLOEXEC, 0666), path, verb);
  }
};

}  // namespace

Disk& host_disk() {
  static HostDisk disk;  // without state
  return disk;
}

}  // namespace embers
