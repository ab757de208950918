#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/launch/members/orders.h"
#include "apps/launch/members/starter.h"

namespace embers::launch {

// The starter for where the members of a job are to run. `secret` is asked where it has to be told to them.
std::unique_ptr<Starter> starter_for(const Plan& plan, const std::function<std::string()>& secret);

// Prints the commands of all members. Returns the exit status.
int dry_run(Plan plan);

}  // namespace embers::launch
