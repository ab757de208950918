#include "apps/process/private_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <boost/process/args.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "apps/process/child.h"
#include "base/errors.h"
#include "storage/external/key_value_server.h"

namespace embers {
namespace {

constexpr char kName[] = "/embers-XXXXXX";
// Reads until nobody holds the other end of the pipe any more.
constexpr char kWatch[] = R"(trap '' HUP INT TERM; while read -r line; do :; done; exec rm -rf -- "$1")";

std::vector<std::string> places() {
  std::error_code unusable;
  std::filesystem::path given = std::filesystem::temp_directory_path(unusable);
  if (!unusable) given = std::filesystem::absolute(given, unusable);
  if (unusable) return {"/tmp"};
  return {given.string(), "/tmp"};
}

}  // namespace

PrivateFolder::Folder::Folder(size_t room) {
  std::string tried;
  for (const std::string& place : places()) {
    std::string name = place + kName;
    if (name.size() + 1 + room > storage::kLongestSocketPath) {
      tried += fmt::format("; the path of '{}' is too long", place);
    } else if (::mkdtemp(name.data()) != nullptr) {  // of mode 700
      path = name;
      return;
    } else {
      tried += fmt::format("; '{}': {}", place, std::strerror(errno));
    }
  }
  fail(ErrorCode::kInvalid,
       "cannot make a folder for the sockets of the job's own servers{}; set TMPDIR to a folder with a short "
       "path that can be written to, or give storage.servers",
       tried);
}

PrivateFolder::Folder::~Folder() {
  std::error_code gone;
  std::filesystem::remove_all(path, gone);
}

PrivateFolder::PrivateFolder(size_t room) : folder_(room) {
  int ends[2];
  // A child that inherited the end to write to would keep the watcher waiting.
  if (::pipe2(ends, O_CLOEXEC) != 0)
    fail(ErrorCode::kInternal, "cannot make a pipe: {}", std::strerror(errno));
  lifeline_ = ends[1];
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> in(::fdopen(ends[0], "r"), &std::fclose);
  // In a session of its own: what ends the job's processes at a terminal leaves it to its work.
  watcher_ = boost::process::child(
      "/bin/sh", boost::process::args({"-c", kWatch, "embers-cleanup", folder_.path}),
      (boost::process::std_out & boost::process::std_err) > boost::process::null,
      boost::process::std_in < in.get(), boost::process::extend::on_exec_setup = [](auto&) {
        inherit_only_standard_streams();
        ::setsid();
      });
}

PrivateFolder::~PrivateFolder() {
  ::close(lifeline_);
  std::error_code gone;  // somebody else has waited for it
  watcher_.wait(gone);
}

}  // namespace embers
