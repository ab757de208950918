#pragma once

#include <string>

// Numbers as people read them, in few columns: three significant digits and a unit. "-" stands for a number
// that does not exist: NaN, infinity, and what cannot be negative but is.
namespace embers {

std::string short_count(double n);           // "0", "9999", "12.3k", "123k", "1.23M", "12.3G"
std::string short_bytes(double n);           // "512 B", "1.25 KiB", "12.5 MiB", "1.00 GiB"
std::string short_duration(double seconds);  // "0.4s", "45s", "4m05s", "1h05m", "3d04h"
std::string decimal(double x, int digits);   // "0.2706"; may be negative
std::string percent(double share);           // "0%" to "100%": 100% only once all is done

}  // namespace embers
