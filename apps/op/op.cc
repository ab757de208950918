#include "apps/op/op.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>

#include "base/errors.h"
#include "base/suggest.h"

namespace embers {
namespace op {
namespace {

constexpr int kMostDepth = 32;  // keeps recursion from overflowing the stack

struct Kind {
  const char* name;
  Json (*run)(const Json& the_case);
};

constexpr std::array kKinds = {
    Kind{"embedding_lookup", lookup},
    Kind{"embedding_lookup_sparse", lookup},
    Kind{"safe_embedding_lookup_sparse", lookup},
    Kind{"fused_embedding_lookup_sparse", lookup},
    Kind{"fused_safe_embedding_lookup_sparse", lookup},
    Kind{"optimizer", optimizer},
    Kind{"initializer", initializer},
    Kind{"schedule", schedule},
};

const Kind& kind_of(const Json& the_case) {
  if (!given(the_case, "op")) fail(ErrorCode::kInvalid, "the case has no \"op\": name the operator to run");
  const std::string& name = text(at(the_case, "op"), "op");
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind;
    known.emplace_back(kind.name);
  }
  fail(ErrorCode::kInvalid, "there is no op '{}'{}", name, suggestion(name, known));
}

}  // namespace

Answer answer(const Json& the_case) {
  try {
    return {kind_of(the_case).run(the_case), false};
  } catch (const Error& e) {
    return {{{"error", e.what()}}, true};
  } catch (const std::exception& e) {
    return {{{"error", std::string("the case does not fit: ") + e.what()}}, true};
  }
}

Answer answer(const std::string& text) {
  Json the_case;
  try {
    the_case = Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMostDepth) fail(ErrorCode::kInvalid, "it is nested more than {} levels deep", kMostDepth);
      return true;
    });
  } catch (const std::exception& e) {
    return {{{"error", std::string("the case is not JSON: ") + e.what()}}, true};
  }
  return answer(the_case);
}

}  // namespace op

namespace {

// Writes a line and leaves nothing in a buffer: the asker may wait for it before asking again.
void say(const op::Answer& answer) {
  const std::string line = answer.json.dump(-1, ' ', false, op::Json::error_handler_t::replace) + '\n';
  if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() || std::fflush(stdout) != 0)
    fail(ErrorCode::kDisk, "cannot write the answer to standard output: {}", std::strerror(errno));
}

// Reads until there is no more; the cases are not in a file that an error could name.
template <class Read>
void read_input(const Read& read) {
  char nothing;
  if (::read(STDIN_FILENO, &nothing, 0) < 0)
    fail(ErrorCode::kDisk, "cannot read cases from standard input: {}", std::strerror(errno));
  read();
  if (std::cin.bad()) fail(ErrorCode::kDisk, "cannot read cases from standard input");
}

int answer_one() {
  std::string text;
  read_input([&] { text.assign(std::istreambuf_iterator<char>(std::cin), {}); });
  const op::Answer answer = op::answer(text);
  say(answer);
  return answer.failed ? 1 : 0;
}

int answer_lines() {
  bool failed = false;
  read_input([&] {
    for (std::string line; std::getline(std::cin, line);) {
      const op::Answer answer = op::answer(line);
      say(answer);
      failed |= answer.failed;
    }
  });
  return failed ? 1 : 0;
}

}  // namespace

int run_op(const OpOptions& options) {
  std::ios::sync_with_stdio(false);  // otherwise each byte of standard input would cost a call
  return options.lines ? answer_lines() : answer_one();
}

}  // namespace embers
