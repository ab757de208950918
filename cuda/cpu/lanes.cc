#include "cuda/cpu/lanes.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "base/floats/numbers.h"

namespace embers::cuda {
namespace cpu {
namespace {

constexpr size_t kStackBytes = 64 << 10;

#if defined(__x86_64__)
// Saves the registers that a function must keep, and its stack; goes on with those of another fiber.
// swapcontext() does the same, but makes a system call each time.
extern "C" void embers_cuda_switch(void** from, void* to);
asm(R"(
.text
.globl embers_cuda_switch
.type embers_cuda_switch, @function
embers_cuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

struct Context {
  void* stack = nullptr;
  void prepare(char* memory, size_t bytes, void (*begin)(), Context*) {
    auto** top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(memory + bytes) / 16 * 16);
    *--top = nullptr;                         // as if `begin` had been called
    *--top = reinterpret_cast<void*>(begin);  // where the switch returns to
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    stack = top;
  }
  static void change(Context& from, Context& to) { embers_cuda_switch(&from.stack, to.stack); }
};
#else
struct Context {
  ucontext_t context;
  void prepare(char* memory, size_t bytes, void (*begin)(), Context* after) {
    getcontext(&context);
    context.uc_stack = {memory, 0, bytes};
    context.uc_link = &after->context;
    makecontext(&context, begin, 0);
  }
  static void change(Context& from, Context& to) { swapcontext(&from.context, &to.context); }
};
#endif

// Where threads meet: all of `expected` must come before any goes on.
struct Meeting {
  int arrived = 0;
  unsigned round = 0;
};

struct Warp {
  uint64_t words[32];
  std::map<unsigned, Meeting> come, go;  // by mask
};

struct Block {
  std::vector<char> shared;
  std::vector<Warp> warps;
  Meeting all;
  int running = 0;  // fibers that have not ended
};

struct Copy {
  char* to;
  const void* from;
  int bytes;
};

struct Fiber {
  Context context;
  std::unique_ptr<char[]> stack;
  int thread = 0, block = 0;
  bool ended = false;
  std::deque<std::vector<Copy>> copies{1};  // sets under way; the last is still open
};

struct Run {
  const Grid* grid = nullptr;
  const std::function<void()>* kernel = nullptr;
  std::vector<Block> blocks;
  std::vector<Fiber> fibers;
  Fiber* current = nullptr;
  Meeting all;
  Context scheduler;
  size_t waits = 0;  // since anything last moved
};
Run* now = nullptr;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "kernel on the CPU: %s\n", what);
  std::abort();
}

void let_others() { Context::change(now->current->context, now->scheduler); }

void meet(Meeting& meeting, int expected) {
  const unsigned round = meeting.round;
  now->waits = 0;
  if (++meeting.arrived == expected) {
    meeting.arrived = 0;
    ++meeting.round;
    return;
  }
  while (meeting.round == round) {
    ++now->waits;
    let_others();
  }
}

void begin() {
  (*now->kernel)();
  now->current->ended = true;
  --now->blocks[now->current->block].running;
  now->waits = 0;
  let_others();
}

void run_blocks(const Grid& grid, const std::function<void()>& kernel, int first, int last,
                std::mt19937& random) {
  Run run;
  run.grid = &grid;
  run.kernel = &kernel;
  run.blocks.resize(grid.blocks);
  now = &run;
  for (int b = first; b < last; ++b) {
    Block& block = run.blocks[b];
    block.shared.assign(grid.shared_bytes + 16, static_cast<char>(0xa5));
    block.warps.resize((grid.threads + 31) / 32);
    block.running = grid.threads;
    for (int t = 0; t < grid.threads; ++t) {
      Fiber& fiber = run.fibers.emplace_back();
      fiber.thread = t;
      fiber.block = b;
      fiber.stack.reset(new char[kStackBytes]);
    }
  }
  for (Fiber& fiber : run.fibers)
    fiber.context.prepare(fiber.stack.get(), kStackBytes, begin, &run.scheduler);
  std::vector<Fiber*> order;
  for (Fiber& fiber : run.fibers) order.push_back(&fiber);
  std::shuffle(order.begin(), order.end(), random);
  while (!order.empty()) {
    for (Fiber* fiber : order) {
      run.current = fiber;
      Context::change(run.scheduler, fiber->context);
    }
    order.erase(std::remove_if(order.begin(), order.end(), [](const Fiber* f) { return f->ended; }),
                order.end());
    if (run.waits > 4 * order.size() + 4) fail("threads of a kernel wait for others that never come");
  }
  now = nullptr;
}

}  // namespace

void run(const Grid& grid, const std::function<void()>& kernel) {
  std::mt19937 random(grid.seed);
  if (grid.cooperative) return run_blocks(grid, kernel, 0, grid.blocks, random);
  std::vector<int> order(grid.blocks);
  for (int b = 0; b < grid.blocks; ++b) order[b] = b;
  std::shuffle(order.begin(), order.end(), random);
  for (const int b : order) run_blocks(grid, kernel, b, b + 1, random);
}

unsigned next_seed() {
  static unsigned seed = 0;
  return ++seed;
}

int thread_index() { return now->current->thread; }
int threads() { return now->grid->threads; }
int block_index() { return now->current->block; }
int blocks() { return now->grid->blocks; }
int lane() { return now->current->thread % 32; }

char* shared_memory() {
  const auto at = reinterpret_cast<uintptr_t>(now->blocks[now->current->block].shared.data());
  return reinterpret_cast<char*>((at + 15) / 16 * 16);
}

void sync_block() {
  Block& block = now->blocks[now->current->block];
  meet(block.all, block.running);
}

void sync_grid() {
  int running = 0;
  for (const Block& block : now->blocks) running += block.running;
  meet(now->all, running);
}

void exchange(unsigned mask, uint64_t word, uint64_t words[32]) {
  if ((mask >> lane() & 1) == 0) fail("a lane is not in its own mask");
  Warp& warp = now->blocks[now->current->block].warps[now->current->thread / 32];
  const int lanes = __builtin_popcount(mask);
  warp.words[lane()] = word;
  meet(warp.come[mask], lanes);
  std::memcpy(words, warp.words, sizeof warp.words);
  meet(warp.go[mask], lanes);
}

void copy_ahead(char* to, const void* from, int bytes) {
  if (reinterpret_cast<uintptr_t>(to) % bytes != 0 || reinterpret_cast<uintptr_t>(from) % bytes != 0)
    fail("a copy to shared memory is not aligned");
  std::memset(to, 0xa5, bytes);
  now->current->copies.back().push_back({to, from, bytes});
}

void end_copies() { now->current->copies.emplace_back(); }

void wait_for_copies(int others) {
  auto& copies = now->current->copies;
  for (; copies.size() > static_cast<size_t>(others) + 1; copies.pop_front())
    for (const Copy& copy : copies.front()) std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace cpu

float to_float(Half x) {
  float value = 0;
  from_halves(NumberType::kFloat16, &x.bits, {&value, 1});
  return value;
}

Half to_half(float x) {
  Half half{};
  to_halves(NumberType::kFloat16, {&x, 1}, &half.bits);
  return half;
}

}  // namespace embers::cuda

// By which the Python package knows this library from the one for GPUs.
extern "C" int embers_cuda_runs_on_the_cpu() { return 1; }
