#include "apps/plan/keys_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "job/sections/said.h"
#include "master/model_checks.h"

namespace embers::plan {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostDim = 65536;

bool is_int64(const Json& json) {
  return json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX);
}

class KeysFile {
 public:
  explicit KeysFile(const std::string& path) : path_(path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) fail(ErrorCode::kInvalid, "cannot read '{}'; --keys needs a JSON file", path);
    try {
      json_ = Json::parse(in);
    } catch (const Json::exception& e) {
      refuse("it is no JSON: {}", e.what());
    }
    if (!json_.is_object()) refuse("it must hold an object with 'tables' and 'batches'");
    only(json_, {"tables", "batches"}, "it");
  }

  Workload read(job::Job job) {
    Workload workload;
    workload.tables = tables(job);
    workload.job = std::move(job);
    const Json& batches = list(json_, "batches");
    for (size_t b = 0; b < batches.size(); ++b) {
      if (!batches[b].is_object()) refuse("batches[{}] must be an object: the keys of each table", b);
      auto& minibatch = workload.keys.emplace_back();
      for (const TableSpec& table : workload.tables)
        minibatch.push_back(unique(batches[b], table, fmt::format("batches[{}].{}", b, table.name)));
      for (const auto& [name, _] : batches[b].items())
        if (std::none_of(workload.tables.begin(), workload.tables.end(),
                         [&](const TableSpec& t) { return t.name == name; }))
          refuse("batches[{}] has keys of a table '{}', which is not among 'tables'", b, name);
    }
    return workload;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    fail(ErrorCode::kInvalid, "{}: {}", path_, fmt::format(text, std::forward<Args>(args)...));
  }

  void only(const Json& object, const std::set<std::string>& known, const std::string& what) const {
    for (const auto& [name, _] : object.items())
      if (!known.contains(name)) refuse("{} has an unknown key '{}'", what, name);
  }

  const Json& list(const Json& object, const char* name) const {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_array() || found->empty())
      refuse("'{}' must be a list that is not empty", name);
    return *found;
  }

  std::string text(const Json& object, const char* name, const std::string& of) const {
    const auto found = object.find(name);
    if (found == object.end()) return "";
    if (!found->is_string()) refuse("'{}' of {} must be a string", name, of);
    return *found;
  }

  int64_t count(const Json& object, const char* name, const std::string& of, int64_t least,
                int64_t most) const {
    const auto found = object.find(name);
    if (found == object.end() && least == 0) return 0;
    const bool whole = found != object.end() && is_int64(*found);
    if (!whole || found->get<int64_t>() < least || found->get<int64_t>() > most)
      refuse("'{}' of {} must be a whole number from {} to {}", name, of, least, most);
    return found->get<int64_t>();
  }

  std::vector<TableSpec> tables(const job::Job& job) const {
    ModelSpec model;
    std::set<std::string> names;
    const Json& all = list(json_, "tables");
    for (size_t t = 0; t < all.size(); ++t) {
      const std::string of = fmt::format("tables[{}]", t);
      if (!all[t].is_object()) refuse("{} must be an object", of);
      only(all[t], {"name", "dim", "keys", "rows", "initializer", "optimizer", "constraint"}, of);
      TableSpec& table = model.tables.emplace_back();
      table.name = text(all[t], "name", of);
      if (table.name.empty() || is_reserved(table.name) || !names.insert(table.name).second)
        refuse("{} must have a 'name' of its own", of);
      table.dim = static_cast<uint32_t>(count(all[t], "dim", of, 1, kMostDim));
      table.input_dim = count(all[t], "rows", of, 0, std::numeric_limits<int64_t>::max());
      const std::string kind = text(all[t], "keys", of);
      if (kind != "" && kind != "int64" && kind != "bytes")
        refuse("'keys' of {} must be int64 or bytes, not '{}'", of, kind);
      table.key_kind = kind == "bytes" ? KeyKind::kBytes : KeyKind::kInt64;
      table.initializer.name = table.update_rule.name = "";
      job::read_said(
          fmt::format("table '{}'", table.name),
          {text(all[t], "initializer", of), text(all[t], "optimizer", of), text(all[t], "constraint", of)},
          table);
    }
    settle_model(job, model);
    return model.tables;
  }

  Keys unique(const Json& batch, const TableSpec& table, const std::string& place) const {
    Keys keys(table.key_kind);
    const auto found = batch.find(table.name);
    if (found == batch.end()) return keys;
    if (!found->is_array()) refuse("{} must be a list of keys", place);
    if (table.key_kind == KeyKind::kInt64) {
      std::set<int64_t> seen;
      for (const Json& key : *found) {
        if (!is_int64(key)) refuse("{}: {} is no int64", place, key.dump());
        if (seen.insert(key.get<int64_t>()).second) keys.push_back(key.get<int64_t>());
      }
    } else {
      std::set<std::string> seen;
      for (const Json& key : *found) {
        if (!key.is_string()) refuse("{}: {} is no string", place, key.dump());
        if (seen.insert(key.get<std::string>()).second) keys.push_back(key.get_ref<const std::string&>());
      }
    }
    return keys;
  }

  const std::string path_;
  Json json_;
};

}  // namespace

Workload read_keys_file(job::Job job, const std::string& path) { return KeysFile(path).read(std::move(job)); }

}  // namespace embers::plan
