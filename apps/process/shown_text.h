#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Texts that others chose (labels, hosts, errors), on a terminal. What can be shown there depends on the
// process's LC_CTYPE; without setlocale() it is ASCII.
namespace embers {

// At most so many columns of the text. '?' stands for each character that cannot be shown, such as a control
// character, which might otherwise do anything to the terminal.
std::string cut_to(std::string_view text, size_t columns);
// As cut_to(), filled up with spaces to exactly so many columns.
enum class Align { kLeft, kRight };
std::string pad_to(std::string_view text, size_t columns, Align align = Align::kLeft);
// Of what can be shown of the text.
size_t columns_of(std::string_view text);

}  // namespace embers
