#pragma once

#include "bench/hosts/local_hosts.h"

// For tests of two hosts.
#define SKIP_WITHOUT_HOSTS(hosts) \
  if (!(hosts).forbidden().empty()) GTEST_SKIP() << "no hosts of its own: " << (hosts).forbidden()
