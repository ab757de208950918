#pragma once

#include <string>
#include <vector>

#include "apps/command_line/command.h"

// Models that are Python modules run in processes of Python, which have the package embers.
namespace embers {

// The command line of Python that runs embers.worker with these words: the interpreter is $EMBERS_PYTHON, or
// else python3. If it does not have the package, that of this program's own folder will do (a build folder
// has one).
std::vector<std::string> python_command(const std::vector<std::string>& words);

// What embers.worker is told so that it joins the same job as these options say.
std::vector<std::string> worker_words(const WorkerOptions& options);

// Turns this process into that program: it keeps its number, its parent and its standard streams. kInvalid if
// there is no such interpreter.
[[noreturn]] void become_python(const std::vector<std::string>& words);

// Runs that program to its end, with the standard error of this process. What it wrote to standard output is
// appended to `output`; returns its exit status.
int run_python(const std::vector<std::string>& words, std::string& output);

}  // namespace embers
