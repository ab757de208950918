#include "actors/shared_memory/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/errors.h"

namespace embers {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void failed(const std::string& what) {
  fail(ErrorCode::kUnavailable, "{}: {}", what, std::strerror(errno));
}

// Closes it unless it is taken.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int take() { return std::exchange(number, -1); }
};

std::byte* map(int descriptor, size_t bytes, bool writable) {
  const int access = PROT_READ | (writable ? PROT_WRITE : 0);
  void* const data = ::mmap(nullptr, bytes, access, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) failed("cannot map shared memory");
  ::madvise(data, bytes, MADV_HUGEPAGE);  // where the system has them for shared memory
  return static_cast<std::byte*>(data);
}

}  // namespace

std::unique_ptr<Mapping> Mapping::make(const char* name, size_t bytes) {
  Descriptor file{::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (file.number < 0) failed("no shared memory");
  if (::ftruncate(file.number, static_cast<off_t>(bytes)) != 0) failed("no room for shared memory");
  if (::fcntl(file.number, F_ADD_SEALS, kSeals) != 0) failed("cannot seal shared memory");
  struct stat status {};
  if (::fstat(file.number, &status) != 0) failed("cannot look at shared memory");
  std::byte* const data = map(file.number, bytes, true);
  const SharedFile told{file.take(), status.st_ino, bytes};
  return std::unique_ptr<Mapping>(new Mapping(data, bytes, told));
}

std::unique_ptr<Mapping> Mapping::open(pid_t peer, const SharedFile& told, bool writable) {
  const std::string path = fmt::format("/proc/{}/fd/{}", peer, told.descriptor);
  const Descriptor file{::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC)};
  if (file.number < 0) failed("cannot open " + path);
  struct stat status {};
  if (::fstat(file.number, &status) != 0) failed("cannot look at " + path);
  const int seals = ::fcntl(file.number, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || status.st_ino != told.inode || told.bytes == 0 ||
      static_cast<uint64_t>(status.st_size) < told.bytes)
    fail(ErrorCode::kUnavailable, "{} is not the shared memory that its process has told of", path);
  return std::unique_ptr<Mapping>(new Mapping(map(file.number, told.bytes, writable), told.bytes, {}));
}

Mapping::~Mapping() {
  ::munmap(data_, size_);
  if (file_.descriptor >= 0) ::close(file_.descriptor);
}

void Mapping::discard(size_t begin, size_t bytes) const {
  ::fallocate(file_.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(bytes));
}

}  // namespace embers
