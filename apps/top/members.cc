#include "apps/top/members.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "apps/process/shown_text.h"
#include "base/quantities.h"

namespace embers {
namespace {

using Member = Status::Member;

constexpr size_t kGap = 2;        // columns between columns
constexpr size_t kMostText = 20;  // columns of a label or a host

bool is_shard(const Member& m) { return m.role == "shard"; }
bool is_worker(const Member& m) { return m.role == "worker"; }
bool in_trouble(const Member& m) {
  return m.state == "away" || m.state == "disconnected" || m.state == "late";
}

// What only some roles have is blank for the others.
std::string only_if(bool has, std::string text) { return has ? std::move(text) : ""; }
std::string count(uint64_t n) { return short_count(static_cast<double>(n)); }

struct Column {
  const char* head;
  unsigned rank;  // columns with higher ranks are left out first
  size_t least;   // columns that it takes whatever is in it, so that the table does not jump
  Align align;
  std::string (*text)(const Member&);
};

// In the order in which they are shown.
const std::array kColumns{
    Column{"MEMBER", 0, 9, Align::kLeft, [](const Member& m) { return m.name; }},
    Column{"LABEL", 9, 5, Align::kLeft, [](const Member& m) { return m.label; }},
    Column{"STATE", 1, 12, Align::kLeft, [](const Member& m) { return m.state; }},
    Column{"LAST SIGN", 2, 9, Align::kRight, [](const Member& m) { return short_duration(m.last_sign_s); }},
    Column{"ROWS", 5, 5, Align::kRight, [](const Member& m) { return only_if(is_shard(m), count(m.rows)); }},
    Column{"MEMORY", 6, 8, Align::kRight,
           [](const Member& m) { return only_if(is_shard(m), short_bytes(static_cast<double>(m.bytes))); }},
    Column{"PULLS/S", 3, 7, Align::kRight, [](const Member& m) { return short_count(m.pulls_per_s); }},
    Column{"PUSHES/S", 4, 8, Align::kRight, [](const Member& m) { return short_count(m.pushes_per_s); }},
    Column{"LAG", 7, 5, Align::kRight, [](const Member& m) { return count(m.lag); }},
    Column{"MINIBATCHES", 8, 11, Align::kRight,
           [](const Member& m) { return only_if(is_worker(m), count(m.minibatches)); }},
    Column{"EXAMPLES", 12, 8, Align::kRight,
           [](const Member& m) { return only_if(is_worker(m), count(m.examples)); }},
    Column{"JOINED", 13, 6, Align::kRight, [](const Member& m) { return short_duration(m.joined_s); }},
    Column{"HOST", 10, 4, Align::kLeft, [](const Member& m) { return m.host; }},
    Column{"PID", 11, 7, Align::kRight,
           [](const Member& m) { return m.pid == 0 ? "" : std::to_string(m.pid); }},
};

size_t width_of(const Column& column, const std::vector<Member>& members) {
  size_t width = std::max(column.least, std::string_view(column.head).size());
  for (const Member& m : members) width = std::max(width, columns_of(column.text(m)));
  return column.align == Align::kLeft ? std::min(width, kMostText) : width;
}

struct Shown {
  const Column* column;
  size_t width;
};

std::vector<Shown> columns_that_fit(const std::vector<Member>& members, size_t columns) {
  std::vector<Shown> by_rank;
  for (const Column& column : kColumns) by_rank.push_back({&column, width_of(column, members)});
  std::ranges::sort(by_rank, {}, [](const Shown& s) { return s.column->rank; });
  size_t taken = 0, fit = 0;
  for (; fit < by_rank.size(); ++fit) {
    taken += by_rank[fit].width + (fit > 0 ? kGap : 0);
    if (taken > columns) break;
  }
  by_rank.resize(std::max<size_t>(fit, 1));
  std::ranges::sort(by_rank, {}, &Shown::column);  // as kColumns has them
  return by_rank;
}

std::string row(const std::vector<Shown>& shown, size_t columns, const auto& text) {
  std::string line;
  for (const Shown& s : shown) {
    if (!line.empty()) line.append(kGap, ' ');
    line += pad_to(text(*s.column), s.width, s.column->align);
  }
  return cut_to(line, columns);
}

auto place(const Member& m) { return std::tuple(!in_trouble(m), !is_shard(m), !is_worker(m), m.number); }

// "... 37 more: 35 working, 2 idle"
std::string summary(auto begin, auto end) {
  std::map<std::string, size_t> states;
  for (auto m = begin; m != end; ++m) ++states[m->state];
  std::vector<std::pair<size_t, std::string>> by_size;
  for (const auto& [state, members] : states) by_size.emplace_back(members, state);
  std::ranges::sort(by_size, std::greater());
  std::string text = fmt::format("... {} more:", end - begin);
  for (const auto& [members, state] : by_size)
    text += fmt::format("{} {} {}", text.back() == ':' ? "" : ",", members, state);
  return text;
}

}  // namespace

std::vector<Line> render_members(std::vector<Status::Member> members, size_t columns, size_t lines) {
  if (lines == 0) return {};
  if (members.empty()) return {{cut_to("no members yet", columns)}};
  std::ranges::sort(members, {}, place);
  const std::vector<Shown> shown = columns_that_fit(members, columns);
  std::vector<Line> table{{row(shown, columns, [](const Column& c) { return c.head; }), Line::Style::kHeads}};
  const size_t room = lines - 1;
  const size_t rows = members.size() <= room ? members.size() : std::max<size_t>(room, 1) - 1;
  for (size_t i = 0; i < rows; ++i)
    table.push_back({row(shown, columns, [&](const Column& c) { return c.text(members[i]); }),
                     in_trouble(members[i]) ? Line::Style::kBad : Line::Style::kPlain});
  if (rows < members.size() && room > 0)
    table.push_back(
        {cut_to(summary(members.begin() + static_cast<ptrdiff_t>(rows), members.end()), columns)});
  return table;
}

}  // namespace embers
