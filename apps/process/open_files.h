#pragma once

#include <cstddef>
#include <string>

namespace embers {

// Lets this process open as many files and sockets as it may at all: raises the soft limit to the hard one.
// Each member of a job is a connection. Returns the limit.
size_t allow_open_files();

// kInvalid, saying what to do, when `what` needs so many open files and this process may not have them.
void check_open_files(size_t wanted, const std::string& what);

// How many a master has open with so many workers and owners of other processes.
size_t open_files_of_master(size_t workers, size_t owners);

// How many connections that have not shaken hands a server should bear, so that there is room for members
// whatever strangers do: Server::Options::newcomers.
size_t places_for_newcomers();

}  // namespace embers
