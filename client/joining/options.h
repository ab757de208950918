#pragma once

#include <chrono>
#include <string>

namespace embers::client {

// How a program finds a job and gets in.
struct Options {
  // Where the job is: the master's address, or the job's directory, in which the master wrote it. Without
  // either, the environment says so: EMBERS_MASTER, or else EMBERS_JOB_DIR.
  std::string master = {};   // HOST:PORT, unix:/path or unix:@name
  std::string job_dir = {};  // --job-dir of the master; has the job's secret, too
  // A job that other hosts can reach has a secret, in its directory or in a file, which only this user may
  // read.
  std::string secret_file = {};
  bool insecure = false;                              // do without, in a network that is trusted
  std::chrono::duration<double> connect_timeout{20};  // for the master, and for each shard
  std::chrono::duration<double> timeout{60};          // for joining, for a look-up, and for closing
  // Of the program's embers: a job whose master is of another version is refused with kMismatch. "": any one
  // that speaks the same protocol is joined.
  std::string version = {};
};

}  // namespace embers::client
