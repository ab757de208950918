#include "data/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/errors.h"
#include "base/files/temporary_file.h"
#include "schema/ids.h"

namespace embers::data {
namespace {

constexpr size_t kChunk = 1 << 20;

enum class Packing : uint8_t { kNone, kGzip, kZstd };
using Sink = std::function<void(std::span<const char>)>;

// Closes the descriptor on every path.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

FileStamp stamp_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    fail(ErrorCode::kInvalid, "cannot read '{}': {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::kInvalid, "'{}' is not a regular file", path);
  return {static_cast<uint64_t>(status.st_size),
          status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
}

// Reads up to out.size() bytes; fewer only at the end of the file.
size_t read_at(int fd, uint64_t offset, std::span<char> out, const std::string& path) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(file_error_code(errno), "cannot read '{}': {}", path, std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  return done;
}

Packing packing_of(int fd, const std::string& path) {
  unsigned char magic[4] = {};
  read_at(fd, 0, {reinterpret_cast<char*>(magic), 4}, path);
  if (magic[0] == 0x1f && magic[1] == 0x8b) return Packing::kGzip;
  if (magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd) return Packing::kZstd;
  return Packing::kNone;
}

[[noreturn]] void fail_damaged(const std::string& path, const char* kind, const char* problem) {
  fail(ErrorCode::kInvalid, "'{}': damaged {} data: {}", path, kind, problem);
}

// zlib's message without the "<fd:5>: " that precedes it.
const char* after_name(const char* problem) {
  const char* const colon = std::strstr(problem, ">: ");
  return *problem == '<' && colon != nullptr ? colon + 3 : problem;
}

void unpack_gzip(int fd, const std::string& path, const Sink& sink) {
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzdopen(::dup(fd), "rb"), gzclose);
  if (!file) fail(ErrorCode::kInvalid, "cannot read '{}': {}", path, std::strerror(errno));
  std::vector<char> chunk(kChunk);
  int error = Z_OK;
  while (true) {
    const int n = gzread(file.get(), chunk.data(), static_cast<unsigned>(chunk.size()));
    // A truncated file can be read to its end; only then is there an error.
    const char* const problem = gzerror(file.get(), &error);
    if (n < 0 || error != Z_OK) fail_damaged(path, "gzip", after_name(problem));
    if (n == 0) return;
    sink({chunk.data(), static_cast<size_t>(n)});
  }
}

void unpack_zstd(int fd, const std::string& path, const Sink& sink) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  std::vector<char> packed(kChunk), chunk(kChunk);
  uint64_t offset = 0;
  size_t open_frame = 0;  // 0 when a frame has just ended
  while (const size_t n = read_at(fd, offset, packed, path)) {
    offset += n;
    ZSTD_inBuffer in{packed.data(), n, 0};
    bool full = false;
    while (in.pos < in.size || full) {
      ZSTD_outBuffer out{chunk.data(), chunk.size(), 0};
      open_frame = ZSTD_decompressStream(context.get(), &out, &in);
      if (ZSTD_isError(open_frame)) fail_damaged(path, "zstd", ZSTD_getErrorName(open_frame));
      sink({chunk.data(), out.pos});
      full = out.pos == out.size && open_frame != 0;
    }
  }
  if (open_frame != 0) fail_damaged(path, "zstd", "unexpected end of file");
}

void unpack(int fd, Packing packing, const std::string& path, TemporaryFile& out) {
  const Sink sink = [&](std::span<const char> bytes) { out.write(bytes); };
  packing == Packing::kGzip ? unpack_gzip(fd, path, sink) : unpack_zstd(fd, path, sink);
}

// Name of the decompressed copy: a different one once the file has changed.
std::string copy_name(const std::string& path, const FileStamp& stamp) {
  return fmt::format("{:016x}.rows",
                     hash_key(fmt::format("{}\n{}\n{}", path, stamp.size, stamp.modified_ns)));
}

// A descriptor of the decompressed copy.
int unpacked(int fd, Packing packing, const std::string& path, const FileStamp& stamp,
             const std::string& cache_dir) {
  if (!cache_dir.empty()) {
    const std::string copy = (std::filesystem::path(cache_dir) / copy_name(path, stamp)).string();
    if (const int ready = ::open(copy.c_str(), O_RDONLY | O_CLOEXEC); ready >= 0) return ready;
    if (auto out = TemporaryFile::beside(copy)) {
      unpack(fd, packing, path, *out);
      out->publish(copy);  // without its name the copy still serves this process
      return out->release();
    }
  }
  auto out = TemporaryFile::unnamed();
  unpack(fd, packing, path, out);
  return out.release();
}

}  // namespace

std::unique_ptr<const SourceFile> SourceFile::open(const std::string& path, const std::string& cache_dir) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe: refused, not waited for
  if (fd.get() < 0) fail(ErrorCode::kInvalid, "cannot open data file '{}': {}", path, std::strerror(errno));
  const FileStamp stamp = stamp_of(fd.get(), path);
  const Packing packing = packing_of(fd.get(), path);
  const bool copy = packing != Packing::kNone;
  const int readable = copy ? unpacked(fd.get(), packing, path, stamp, cache_dir) : fd.release();
  return std::unique_ptr<const SourceFile>(new SourceFile(path, stamp, readable, copy));
}

SourceFile::SourceFile(std::string path, FileStamp stamp, int fd, bool copy)
    : path_(std::move(path)), stamp_(stamp), fd_(fd), copy_(copy) {
  size_ = copy_ ? stamp_of(fd_, path_).size : stamp_.size;
}

SourceFile::~SourceFile() { ::close(fd_); }

void SourceFile::read(uint64_t offset, std::span<char> out) const {
  const bool changed = !copy_ && stamp_of(fd_, path_) != stamp_;
  if (changed || read_at(fd_, offset, out, path_) != out.size()) {
    fail(ErrorCode::kInvalid, "'{}' changed while the job was reading it; start the job again", path_);
  }
}

}  // namespace embers::data
