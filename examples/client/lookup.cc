// Looks rows of a running job up.
//
//   lookup MASTER                 lists the job's embedding tables
//   lookup MASTER TABLE KEY...    prints the rows of these keys, one a line: the key, a tab, its numbers
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "client/session.h"

namespace {

namespace client = embers::client;

int64_t parse_key(std::string_view text) {
  int64_t key = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key);
  if (error != std::errc() || end != text.data() + text.size())
    embers::fail(embers::ErrorCode::kInvalid, "'{}' is not an int64 key", text);
  return key;
}

void list_tables(const client::Session& session) {
  for (const client::Table& table : session.tables())
    std::printf("%s\t%u\t%s\n", table.name.c_str(), table.dim,
                table.keys == client::KeyType::kInt64 ? "int64" : "bytes");
}

void print_rows(client::Session& session, std::string_view name, const std::vector<std::string_view>& keys) {
  const client::Table& table = session.table(name);
  std::vector<float> rows(keys.size() * table.dim);
  client::Versions versions;
  if (table.keys == client::KeyType::kInt64) {
    std::vector<int64_t> ints;
    for (const std::string_view key : keys) ints.push_back(parse_key(key));
    versions = session.lookup(name, ints, rows);
  } else {
    versions = session.lookup(name, keys, rows);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    std::printf("%.*s\t", static_cast<int>(keys[i].size()), keys[i].data());
    for (uint32_t column = 0; column < table.dim; ++column)
      std::printf("%s%.9g", column == 0 ? "" : " ", rows[i * table.dim + column]);
    std::printf("\n");
  }
  std::fprintf(stderr, "job '%s', versions %llu to %llu\n", session.job().c_str(),
               static_cast<unsigned long long>(versions.oldest),
               static_cast<unsigned long long>(versions.newest));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc == 3) {
    std::fprintf(stderr, "usage: lookup MASTER [TABLE KEY...]\n");
    return 2;
  }
  try {
    client::Session session = client::Session::join_as_reader({.master = argv[1]});
    if (argc == 2)
      list_tables(session);
    else
      print_rows(session, argv[2], {argv + 3, argv + argc});
  } catch (const embers::Error& e) {
    std::fprintf(stderr, "lookup: error: %s\n", e.what());
    return embers::exit_status(e.code());
  }
  return 0;
}
