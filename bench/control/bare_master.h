#pragma once

namespace embers {

// A master that knows nothing: one thread that gives each request of its simulated members an answer of the
// right kind and size, made beforehand, with one recv and one send for whatever arrives together. No secret,
// no members, no work. What it costs is what the kernel takes for the same traffic: the limit of a master
// that answers each request when it comes. Serves until its standard input ends.
void serve_bare_master();

}  // namespace embers
