#pragma once

#include <string>
#include <vector>

#include <toml++/toml.h>
#include <nlohmann/json.hpp>

#include "job/document/job_text.h"

namespace embers::job {

// The TOML document of a job with its overrides applied. Every node knows its origin: the file, or the
// override, whose text is then its "path". Errors: kInvalid with file:line:column of a syntax error, or
// naming the override.
toml::table parse_document(const JobText& text);

// The document `key = text`, where the text is TOML or, like that of an override, a bare string. `of` says
// in messages where it is; see kSaid.
toml::table parse_value(const std::string& key, const std::string& text, const std::string& of);
// With this, `of` begins where the text is not a part of a file.
inline constexpr std::string_view kSaid = "what a worker says of ";

// "file:line" of a node's source, or "--set a.b=c" for what an override set.
std::string where(const toml::source_region& source);

struct Entry {
  const toml::key* key;
  const toml::node* value;
};
// The entries of a table in the order of the file (toml++ sorts them by name); those that overrides added
// come last, in the order of the overrides.
std::vector<Entry> in_file_order(const toml::table& table);

// kInvalid at `source` for a date or time, which JSON lacks.
nlohmann::json to_json(const toml::node& node);

}  // namespace embers::job
