#include "apps/process/shown_text.h"

#include <cwchar>
#include <limits>

namespace embers {
namespace {

struct Shown {
  std::string text;
  size_t columns = 0;
};

Shown show(std::string_view text, size_t most) {
  Shown shown;
  std::mbstate_t state{};
  while (!text.empty()) {
    wchar_t character = 0;
    size_t bytes = std::mbrtowc(&character, text.data(), text.size(), &state);
    int width = bytes - 1 < text.size() ? ::wcwidth(character) : -1;
    if (bytes - 1 >= text.size()) {  // no character, a part of one, or 0, which is one byte
      bytes = 1;
      state = {};
    }
    const bool good = width >= 0;
    if (!good) width = 1;
    if (shown.columns + static_cast<size_t>(width) > most) break;
    shown.text += good ? text.substr(0, bytes) : "?";
    shown.columns += static_cast<size_t>(width);
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace

std::string cut_to(std::string_view text, size_t columns) { return show(text, columns).text; }

std::string pad_to(std::string_view text, size_t columns, Align align) {
  Shown shown = show(text, columns);
  const std::string gap(columns - shown.columns, ' ');
  return align == Align::kLeft ? shown.text + gap : gap + shown.text;
}

size_t columns_of(std::string_view text) { return show(text, std::numeric_limits<size_t>::max()).columns; }

}  // namespace embers
