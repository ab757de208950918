#include "job/document/document.h"

#include <algorithm>
#include <tuple>

#include "base/errors.h"

namespace embers::job {
namespace {

constexpr std::string_view kOverride = "--set ";

bool from_override(const toml::source_region& source) {
  return source.path && source.path->starts_with(kOverride);
}

bool has_no_lines(const toml::source_region& source) {
  return from_override(source) || (source.path && source.path->starts_with(kSaid));
}

// Position of the '=' that ends the dotted path of an override; npos if there is none outside quotes.
size_t find_equals(std::string_view text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == quote) quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    } else if (text[i] == '=') {
      return i;
    }
  }
  return std::string_view::npos;
}

std::string as_toml_string(std::string_view bare) {
  std::string out = "\"";
  for (const char c : bare) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// The override as a document of one value. It is put on line `order`, so that its position tells the order
// among overrides.
toml::table parse_override(const std::string& text, size_t order) {
  const size_t equals = find_equals(text);
  if (equals == std::string::npos) {
    fail(ErrorCode::kInvalid, "{}{}: expected section.key=value", kOverride, text);
  }
  const std::string path = fmt::format("{}{}", kOverride, text);
  const std::string lines(order, '\n');
  // A value with a line break could add further keys, so it is taken as a plain string.
  if (text.find('\n') == std::string::npos) {
    try {
      return toml::parse(lines + text, path);
    } catch (const toml::parse_error&) {
      // Not valid TOML: a bare string.
    }
  }
  try {
    return toml::parse(lines + text.substr(0, equals + 1) + as_toml_string(text.substr(equals + 1)), path);
  } catch (const toml::parse_error& e) {
    fail(ErrorCode::kInvalid, "{}: {}; quote path segments with characters other than A-Z a-z 0-9 _ -", path,
         e.description());
  }
}

// Moves the one value at the end of the dotted path of `from` to its place in `into`.
void assign(toml::table& into, toml::table& from) {
  for (auto&& [key, value] : from) {
    toml::table* const segment = value.as_table();
    if (segment == nullptr || segment->is_inline()) {
      value.visit([&, k = &key](auto& concrete) { into.insert_or_assign(*k, std::move(concrete)); });
      continue;
    }
    toml::node* const existing = into.get(key.str());
    if (existing == nullptr) {
      into.insert_or_assign(key, std::move(*segment));
    } else if (toml::table* const table = existing->as_table()) {
      assign(*table, *segment);
    } else {
      fail(ErrorCode::kInvalid, "{}: '{}' is not a section", *key.source().path, key.str());
    }
  }
}

}  // namespace

toml::table parse_document(const JobText& text) {
  toml::table root;
  try {
    root = toml::parse(text.text, text.path);
  } catch (const toml::parse_error& e) {
    fail(ErrorCode::kInvalid, "{}:{}:{}: {}", text.path, e.source().begin.line, e.source().begin.column,
         e.description());
  }
  for (size_t i = 0; i < text.overrides.size(); ++i) {
    toml::table value = parse_override(text.overrides[i], i);
    assign(root, value);
  }
  return root;
}

toml::table parse_value(const std::string& key, const std::string& text, const std::string& of) {
  if (text.find('\n') == std::string::npos) {
    try {
      return toml::parse(key + " = " + text, of);
    } catch (const toml::parse_error&) {
      // Not valid TOML: a bare string.
    }
  }
  return toml::parse(key + " = " + as_toml_string(text), of);
}

std::string where(const toml::source_region& source) {
  const std::string path = source.path ? *source.path : "job file";
  return has_no_lines(source) ? path : fmt::format("{}:{}", path, source.begin.line);
}

std::vector<Entry> in_file_order(const toml::table& table) {
  std::vector<Entry> entries;
  for (auto&& [key, value] : table) entries.push_back({&key, &value});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    const auto place = [](const toml::source_region& s) {
      return std::tuple(from_override(s), s.begin.line, s.begin.column);
    };
    return place(a.key->source()) < place(b.key->source());
  });
  return entries;
}

nlohmann::json to_json(const toml::node& node) {
  if (const toml::table* const table = node.as_table()) {
    auto object = nlohmann::json::object();
    for (auto&& [key, value] : *table) object[std::string(key.str())] = to_json(value);
    return object;
  }
  if (const toml::array* const array = node.as_array()) {
    auto list = nlohmann::json::array();
    for (const toml::node& value : *array) list.push_back(to_json(value));
    return list;
  }
  if (const auto* const text = node.as_string()) return text->get();
  if (const auto* const integer = node.as_integer()) return integer->get();
  if (const auto* const number = node.as_floating_point()) return number->get();
  if (const auto* const boolean = node.as_boolean()) return boolean->get();
  fail(ErrorCode::kInvalid, "{}: dates and times have no meaning here", where(node.source()));
}

}  // namespace embers::job
