// Looks rows of a running job up; see README.md.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/session.h"

namespace {

namespace client = embers::client;

constexpr char kUsage[] =
    "usage: lookup --master ADDRESS [--secret-file FILE] [--every SECONDS] [TABLE KEY...]\n"
    "       lookup --job-dir DIR [--every SECONDS] [TABLE KEY...]\n";

struct Command {
  client::Options job;
  std::optional<double> every;  // seconds; nothing: once
  std::string table;            // "": list the tables
  std::vector<std::string_view> keys;
};

template <class Number>
Number parse(const std::string& text, const char* what) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    embers::fail(embers::ErrorCode::kInvalid, "'{}' is not {}", text, what);
  return number;
}

Command parse_command(const std::vector<std::string_view>& words) {
  Command command;
  size_t i = 0;
  for (; i < words.size() && words[i].starts_with("--"); i += 2) {
    if (i + 1 == words.size()) embers::fail(embers::ErrorCode::kInvalid, "{} needs a value", words[i]);
    const std::string value(words[i + 1]);
    if (words[i] == "--master")
      command.job.master = value;
    else if (words[i] == "--job-dir")
      command.job.job_dir = value;
    else if (words[i] == "--secret-file")
      command.job.secret_file = value;
    else if (words[i] == "--every")
      command.every = parse<double>(value, "a number of seconds");
    else
      embers::fail(embers::ErrorCode::kInvalid, "there is no option {}\n{}", words[i], kUsage);
  }
  if (i < words.size()) command.table = words[i++];
  command.keys.assign(words.begin() + static_cast<ptrdiff_t>(i), words.end());
  if (command.table.empty() != command.keys.empty())
    embers::fail(embers::ErrorCode::kInvalid, "which rows? Give a table and keys\n{}", kUsage);
  return command;
}

void list_tables(const client::Session& session) {
  for (const client::Table& table : session.tables())
    std::printf("%s\t%u\t%s\n", table.name.c_str(), table.dim,
                table.keys == client::KeyType::kInt64 ? "int64" : "bytes");
}

void print_rows(client::Session& session, const Command& command) {
  const client::Table& table = session.table(command.table);
  std::vector<float> rows(command.keys.size() * table.dim);
  client::Versions versions;
  if (table.keys == client::KeyType::kInt64) {
    std::vector<int64_t> ints;
    for (const std::string_view key : command.keys)
      ints.push_back(parse<int64_t>(std::string(key), "an int64 key"));
    versions = session.lookup(command.table, ints, rows);
  } else {
    versions = session.lookup(command.table, command.keys, rows);
  }
  for (size_t i = 0; i < command.keys.size(); ++i) {
    std::printf("%.*s\t", static_cast<int>(command.keys[i].size()), command.keys[i].data());
    for (uint32_t column = 0; column < table.dim; ++column)
      std::printf("%s%.9g", column == 0 ? "" : " ", rows[i * table.dim + column]);
    std::printf("\n");
  }
  std::fflush(stdout);
  std::fprintf(stderr, "job '%s', versions %llu to %llu\n", session.job().c_str(),
               static_cast<unsigned long long>(versions.oldest),
               static_cast<unsigned long long>(versions.newest));
}

void run(const Command& command) {
  client::Session session = client::Session::join_as_reader(command.job);
  if (command.table.empty()) return list_tables(session);
  print_rows(session, command);
  while (command.every) {
    std::this_thread::sleep_for(std::chrono::duration<double>(*command.every));
    try {
      print_rows(session, command);
    } catch (const embers::Error& e) {
      if (e.code() != embers::ErrorCode::kEnded) throw;
      std::fprintf(stderr, "%s\n", e.what());
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse_command({argv + 1, argv + argc}));
  } catch (const embers::Error& e) {
    std::fprintf(stderr, "lookup: error: %s\n", e.what());
    return embers::exit_status(e.code());
  }
  return 0;
}
