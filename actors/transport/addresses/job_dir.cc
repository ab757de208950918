#include "actors/transport/addresses/job_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "base/errors.h"
#include "base/files/disk.h"
#include "base/files/output_file.h"

namespace embers {
namespace fs = std::filesystem;
namespace {

constexpr size_t kLongestAddress = 64 << 10;  // bytes of the file

std::string in(const std::string& directory, const char* file) {
  return (fs::path(directory) / file).string();
}

std::string reason() { return std::generic_category().message(errno); }

bool is_there(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  fail(file_error_code(errno), "cannot look for '{}': {}", path, reason());
}

// What others could change would guard nothing.
void check_private(const std::string& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0)
    fail(file_error_code(errno), "cannot use job directory '{}': {}", directory, reason());
  if (!S_ISDIR(status.st_mode)) fail(ErrorCode::kInvalid, "job directory '{}' is a file", directory);
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    fail(ErrorCode::kInvalid, "job directory '{}' belongs to user {}, and this process is of user {}",
         directory, status.st_uid, ::geteuid());
  if ((status.st_mode & 077) != 0)
    fail(ErrorCode::kInvalid, "job directory '{}' is open to other users (mode {:03o}): chmod 700 '{}'",
         directory, status.st_mode & 07777, directory);
}

std::string made_private(const std::string& directory) {
  fs::path path = fs::absolute(directory).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // "dir/"
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    fail(file_error_code(errno), "cannot make job directory '{}': {}", path.string(), reason());
  check_private(path.string());
  return path.string();
}

struct Closing {
  ~Closing() {
    if (descriptor >= 0) ::close(descriptor);
  }
  const int descriptor;
};

// A small file, once `check` has seen its owner and mode.
template <class Check>
std::string read_small(const std::string& path, size_t most, Check check) {
  const Closing file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0)
    fail(file_error_code(errno), "cannot read '{}': {}", path, reason());
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::kInvalid, "'{}' is not a regular file", path);
  check(status);
  std::string text(most + 1, '\0');
  const ssize_t n = ::read(file.descriptor, text.data(), text.size());
  if (n < 0) fail(file_error_code(errno), "cannot read '{}': {}", path, reason());
  if (static_cast<size_t>(n) > most) fail(ErrorCode::kInvalid, "'{}' has more than {} bytes", path, most);
  text.resize(static_cast<size_t>(n));
  return text;
}

// A new file of mode 600 under a name of its own, with the secret in it.
std::string write_secret(const std::string& directory, const Secret& secret) {
  std::string path = in(directory, ".secret-XXXXXX");
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);  // of mode 600
  const std::string line = secret.bytes() + "\n";
  const bool written = descriptor >= 0 &&
                       ::write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       ::fsync(descriptor) == 0;
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (written) return path;
  if (descriptor >= 0) ::unlink(path.c_str());
  fail(file_error_code(why), "cannot write '{}': {}", path, std::generic_category().message(why));
}

}  // namespace

JobDir::JobDir(const std::string& path) : path_(made_private(path)), lock_(DirectoryLock::take(path_)) {}

JobDir::~JobDir() { withdraw(); }

Secret JobDir::secret() const {
  if (const auto known = find_secret(path_)) return *known;
  const std::string fresh = write_secret(path_, Secret::make());
  // A link instead of a rename: a secret that somebody else has made meanwhile stays.
  const bool linked = ::link(fresh.c_str(), in(path_, "secret").c_str()) == 0 || errno == EEXIST;
  const int why = errno;
  ::unlink(fresh.c_str());
  if (!linked)
    fail(file_error_code(why), "cannot write '{}': {}", in(path_, "secret"),
         std::generic_category().message(why));
  host_disk().sync_directory(path_);
  return read_secret(in(path_, "secret"));
}

void JobDir::announce(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints) text += endpoint.text() + "\n";
  announced_ = true;
  write_file(in(path_, "address"), text);
}

void JobDir::withdraw() {
  if (std::exchange(announced_, false)) ::unlink(in(path_, "address").c_str());
}

std::optional<std::vector<Endpoint>> find_address(const std::string& job_dir) {
  if (!is_there(job_dir)) return std::nullopt;
  check_private(job_dir);
  const std::string path = in(job_dir, "address");
  if (!is_there(path)) return std::nullopt;
  std::istringstream lines(read_small(path, kLongestAddress, [](const auto&) {}));
  std::vector<Endpoint> endpoints;
  at_place(path, [&] {
    for (std::string line; std::getline(lines, line);) endpoints.push_back(parse_endpoint(line));
    if (endpoints.empty()) fail(ErrorCode::kInvalid, "there is no address in it");
  });
  return endpoints;
}

std::optional<Secret> find_secret(const std::string& job_dir) {
  check_private(job_dir);
  const std::string path = in(job_dir, "secret");
  if (!is_there(path)) return std::nullopt;
  return read_secret(path);
}

Secret read_secret(const std::string& file) {
  std::string text = read_small(file, Secret::kMost + 2, [&](const struct stat& status) {
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
      fail(ErrorCode::kInvalid, "the secret in '{}' belongs to user {}, and this process is of user {}", file,
           status.st_uid, ::geteuid());
    // Root may give a secret to a group, as container platforms do.
    if ((status.st_mode & (status.st_uid == 0 ? 037 : 077)) != 0)
      fail(ErrorCode::kInvalid, "the secret in '{}' is open to other users (mode {:03o}): chmod 600 '{}'",
           file, status.st_mode & 07777, file);
  });
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return at_place(file, [&] { return Secret(text); });
}

}  // namespace embers
