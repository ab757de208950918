// Writers of lines whose readers are slow, come back, or have gone.
#include "base/log/log_writer.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <future>
#include <sstream>
#include <thread>
#include <vector>

#include "base/log/standard_error.h"
#include "tests/support/process.h"
#include "tests/support/slow_reader.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace std::chrono_literals;
using testing_support::SlowReader;
using testing_support::wait_until;

constexpr auto kLong = 60s;  // more than a reader that reads needs

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A writer to a reader.
class LogWriterTest : public testing::Test {
 protected:
  void make(SlowReader::Kind kind = SlowReader::Kind::kPipe, LogWriter::Limits limits = {}) {
    reader_ = std::make_unique<SlowReader>(kind);
    writer_ = std::make_unique<LogWriter>(reader_->writer(), "the log", limits);
  }
  // Waits until the writer is stuck in the middle of a line that ends in this.
  void get_stuck(const std::string& line) {
    writer_->line(std::string(1 << 20, '.') + line);
    ASSERT_TRUE(wait_until([&] { return reader_->is_full(); }));
    ASSERT_FALSE(writer_->flush(1ms));
  }
  // Everything that is written until the writer has gone, without leading dots.
  std::vector<std::string> read_all() {
    auto text = std::async(std::launch::async, [this] { return reader_->read_to_the_end(); });
    EXPECT_TRUE(writer_->flush(kLong));
    writer_.reset();
    reader_->close_writer();
    const std::string all = text.get();
    return lines_of(all.substr(std::min(all.find_first_not_of('.'), all.size())));
  }

  std::unique_ptr<SlowReader> reader_;
  std::unique_ptr<LogWriter> writer_;
};

using Lines = std::vector<std::string>;

TEST_F(LogWriterTest, WritesLinesInTheirOrder) {
  make();
  writer_->line("one");
  writer_->error("two");
  writer_->line("");
  writer_->line("four\nand a half");
  EXPECT_EQ(read_all(), (Lines{"one", "two", "", "four", "and a half"}));
}

TEST_F(LogWriterTest, FlushesWhatWasSaidBefore) {
  make();
  writer_->line("one");
  ASSERT_TRUE(writer_->flush(kLong));
  EXPECT_EQ(reader_->read_some(), "one\n");
  ASSERT_TRUE(writer_->flush(0ms)) << "there is nothing to wait for";
}

TEST_F(LogWriterTest, DropsTheOldestLinesOfASlowReaderAndCountsThem) {
  make(SlowReader::Kind::kPipe, {.lines = 3});
  get_stuck("0");
  for (int i = 1; i <= 10; ++i) writer_->line(std::to_string(i));
  EXPECT_FALSE(writer_->flush(1ms));
  EXPECT_EQ(read_all(),
            (Lines{"0", "… 7 lines were dropped, because whoever reads the log is slow", "8", "9", "10"}));
}

TEST_F(LogWriterTest, TellsOfEveryDroppedLineOnce) {
  make(SlowReader::Kind::kPipe, {.lines = 1});
  get_stuck("0");
  for (int i = 1; i <= 2; ++i) writer_->line(std::to_string(i));
  const auto is_told = [](const Lines& lines) {
    return lines.size() > 2 && lines[1] == "… 1 line was dropped, because whoever reads the log is slow";
  };
  std::string text;
  while (text.find("2\n") == text.npos) text += reader_->read_some();
  EXPECT_TRUE(is_told(lines_of(text.substr(text.find_first_not_of('.'))))) << text;
  writer_->line("3");
  EXPECT_EQ(read_all(), Lines{"3"});
}

TEST_F(LogWriterTest, BoundsTheirBytes) {
  make(SlowReader::Kind::kPipe, {.bytes = 100});
  get_stuck("0");
  writer_->line(std::string(60, 'a'));
  writer_->line(std::string(60, 'b'));
  writer_->line(std::string(40, 'c'));
  EXPECT_EQ(read_all(), (Lines{"0", "… 1 line was dropped, because whoever reads the log is slow",
                               std::string(60, 'b'), std::string(40, 'c')}));
}

TEST_F(LogWriterTest, KeepsALineThatIsLongerThanTheBound) {
  make(SlowReader::Kind::kPipe, {.bytes = 100});
  get_stuck("0");
  writer_->line("1");
  writer_->line(std::string(101, 'a'));
  EXPECT_EQ(read_all(), (Lines{"0", "… 1 line was dropped, because whoever reads the log is slow",
                               std::string(101, 'a')}));
}

TEST_F(LogWriterTest, KeepsErrorsLongerThanLines) {
  make(SlowReader::Kind::kPipe, {.lines = 2});
  get_stuck("0");
  writer_->error("error");
  for (int i = 1; i <= 5; ++i) writer_->line(std::to_string(i));
  EXPECT_EQ(read_all(),
            (Lines{"0", "… 4 lines were dropped, because whoever reads the log is slow", "error", "5"}));
}

TEST_F(LogWriterTest, OfErrorsAloneItKeepsTheLatest) {
  make(SlowReader::Kind::kPipe, {.lines = 2});
  get_stuck("0");
  for (int i = 1; i <= 3; ++i) writer_->error(std::to_string(i));
  EXPECT_EQ(read_all(),
            (Lines{"0", "… 1 line was dropped, because whoever reads the log is slow", "2", "3"}));
}

TEST_F(LogWriterTest, OtherLinesMakeWayForErrors) {
  make();
  get_stuck("0");
  writer_->line("1");
  writer_->progress("progress");
  writer_->make_way_for_errors();
  writer_->error("error");
  writer_->line("2");
  writer_->make_way_for_errors();
  EXPECT_EQ(read_all(),
            (Lines{"0", "… 2 lines were dropped, because whoever reads the log is slow", "error"}));
}

TEST_F(LogWriterTest, WithoutAnErrorNothingMakesWay) {
  make();
  get_stuck("0");
  writer_->line("1");
  writer_->make_way_for_errors();
  EXPECT_EQ(read_all(), (Lines{"0", "1"}));
}

TEST_F(LogWriterTest, ReplacesProgressThatIsStillWaiting) {
  make();
  get_stuck("0");
  for (int i = 1; i <= 5; ++i) writer_->progress("progress " + std::to_string(i));
  writer_->line("1");
  writer_->progress("progress 6");
  writer_->line("2");
  writer_->end_progress();  // changes nothing where there is no bar
  EXPECT_EQ(read_all(), (Lines{"0", "1", "progress 6", "2"}));
}

TEST_F(LogWriterTest, RedrawsProgressInPlaceOnATerminal) {
  make(SlowReader::Kind::kTerminal);
  EXPECT_TRUE(writer_->is_terminal());
  const auto expect = [&](const std::string& shown) {
    std::string text;  // it may come in parts
    while (text.size() < shown.size()) text += reader_->read_some();
    EXPECT_EQ(text, shown);
  };
  writer_->progress("[#  ]");
  expect("[#  ]\r");
  writer_->progress("[## ]");
  expect("\r\033[J[## ]\r");
  writer_->line("one");
  expect("\r\033[Jone\r\n");
  writer_->line("two");
  expect("two\r\n");
  writer_->progress("[###]");
  expect("[###]\r");
  writer_->end_progress();
  expect("\r\033[J");
}

TEST_F(LogWriterTest, KnowsHowWideItsTerminalIs) {
  make(SlowReader::Kind::kTerminal);
  EXPECT_EQ(writer_->columns(), 80) << "as usual, since this one does not say";
  for (const unsigned short columns : {133, 20}) {
    const winsize size{.ws_row = 24, .ws_col = columns};
    ASSERT_EQ(::ioctl(reader_->writer(), TIOCSWINSZ, &size), 0);
    EXPECT_EQ(writer_->columns(), columns);
  }
}

TEST_F(LogWriterTest, DrawsNoProgressAfterItsEnd) {
  make(SlowReader::Kind::kTerminal);
  get_stuck("0");
  writer_->progress("[## ]");
  writer_->end_progress();
  writer_->line("1");
  std::string text;
  while (text.find('1') == text.npos) text += reader_->read_some();
  EXPECT_EQ(text.find('#'), text.npos) << text;
}

TEST_F(LogWriterTest, OutlivesAReaderThatHasGone) {
  make();
  get_stuck("0");
  reader_->close_reader();
  for (int i = 1; i <= 5; ++i) writer_->line(std::to_string(i));
  EXPECT_TRUE(writer_->flush(kLong)) << "nobody is left to wait for";
}

TEST_F(LogWriterTest, TellsTheNextReaderWhatTheLastOneMissed) {
  const testing_support::TempDir dir;
  const std::string fifo = dir / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto open_reader = [&] { return ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); };
  const int first = open_reader();
  SlowReader pipe(fifo);
  LogWriter writer(pipe.writer(), "the log");
  ::close(first);
  writer.line("1");
  writer.error("2");
  writer.progress("3");
  ASSERT_TRUE(writer.flush(kLong));
  const int second = open_reader();
  writer.line("4");
  ASSERT_TRUE(writer.flush(kLong));
  char text[200];
  const ssize_t n = ::read(second, text, sizeof text);
  ::close(second);
  EXPECT_EQ(std::string(text, std::max<ssize_t>(n, 0)),
            "… 2 lines were dropped, because the log could not be written: Broken pipe\n4\n");
}

TEST_F(LogWriterTest, WaitsWhereTheDescriptorDoesNot) {
  make();
  ::fcntl(reader_->writer(), F_SETFL, O_NONBLOCK);
  get_stuck("0");
  writer_->line("1");
  EXPECT_EQ(read_all(), (Lines{"0", "1"}));
}

TEST_F(LogWriterTest, LosesNoLineOfManyThreadsUncounted) {
  make(SlowReader::Kind::kPipe, {.lines = 10});
  constexpr int kThreads = 4, kLines = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([this, t] {
      for (int i = 0; i < kLines; ++i) writer_->line(std::to_string(t) + ' ' + std::to_string(i));
    });
  auto all = std::async(std::launch::async, [this] { return reader_->read_to_the_end(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(writer_->flush(kLong));
  writer_.reset();
  reader_->close_writer();
  int counted = 0;
  std::vector<int> last(kThreads, -1);
  for (const std::string& line : lines_of(all.get())) {
    int a = 0, b = 0;
    if (std::sscanf(line.c_str(), "… %d line", &a) == 1) {
      counted += a;
    } else if (std::sscanf(line.c_str(), "%d %d", &a, &b) == 2) {
      ++counted;
      EXPECT_LT(last.at(a), b);
      last[a] = b;
    } else {
      ADD_FAILURE() << line;
    }
  }
  EXPECT_EQ(counted, kThreads * kLines);
}

TEST_F(LogWriterTest, EndsThoughItsReaderReadsNothing) {
  make();
  get_stuck("0");
  writer_->line("1");
  writer_.reset();
  reader_->close_writer();
  EXPECT_EQ(reader_->read_to_the_end().back(), '\n') << "the line that was under way";
}

// What processes say last. Each test is a process of its own.
class LastWords : public testing::Test {
 protected:
  LastWords() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  static void say_much() {
    for (int i = 0; i < 900; ++i) standard_error().line("line " + std::to_string(i));
  }
};
using LastWordsDeath = LastWords;

constexpr char kAllThenError[] = "line 898\nline 899\nembers: error: why\n$";

TEST_F(LastWordsDeath, ComeInOrderBeforeAnExit) {
  EXPECT_EXIT(
      {
        say_much();
        say_error("why");
        say_last_words();
        ::_exit(1);
      },
      testing::ExitedWithCode(1), kAllThenError);
}

TEST_F(LastWordsDeath, ComeInOrderBeforeAnAbort) {
  EXPECT_EXIT(
      {
        say_last_words_in_crashes();
        say_much();
        say_error("why");
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), kAllThenError);
}

TEST_F(LastWordsDeath, TellOfAnUncaughtException) {
  EXPECT_EXIT(
      {
        say_last_words_in_crashes();
        std::thread([] {
          say_much();
          throw std::runtime_error("why");
        }).join();
      },
      testing::KilledBySignal(SIGABRT), "line 899\nembers: error: uncaught exception: why\n$");
}

TEST_F(LastWordsDeath, ComeBeforeABadAccessEndsTheProcess) {
  EXPECT_EXIT(
      {
        ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's
        say_last_words_in_crashes();
        say_much();
        ::raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), "line 898\nline 899\n$");
}

TEST_F(LastWordsDeath, EndWithTheErrorForAReaderThatIsLate) {
  SlowReader pipe;
  pipe.fill();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe.writer(), STDERR_FILENO);
    say_much();
    say_error("why");
    say_last_words();
    ::_exit(1);
  }
  pipe.close_writer();
  const std::string text = pipe.read_to_the_end();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(text.ends_with("embers: error: why\n")) << text.substr(text.find_first_not_of('.'));
}

TEST_F(LastWordsDeath, AreBoundedWhereNobodyReads) {
  SlowReader pipe;
  pipe.fill();
  for (const bool crash : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(pipe.writer(), STDERR_FILENO);
      say_last_words_in_crashes();
      say_error("why");
      if (crash) std::terminate();
      say_last_words();
      ::_exit(1);
    }
    int status = 0;
    EXPECT_TRUE(wait_until([&] { return ::waitpid(child, &status, WNOHANG) == child; }, 100));
    if (crash)
      EXPECT_EQ(WTERMSIG(status), SIGABRT);
    else
      EXPECT_EQ(WEXITSTATUS(status), 1);
  }
}

// As where "Resource temporarily unavailable" is the error.
TEST_F(LastWordsDeath, AreSaidWithoutAThreadToo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory for everything";
#endif
  EXPECT_EXIT(
      {
        void* volatile room = ::malloc(size_t{64} << 10);  // for what little it needs
        ::free(room);
        rlimit little{};
        ::setrlimit(RLIMIT_AS, &little);
        say_error("why");
        say_last_words();
        ::_exit(1);
      },
      testing::ExitedWithCode(1), "embers: error: why\n$");
}

}  // namespace
}  // namespace embers
