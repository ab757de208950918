// A worker on client::Session, as a program of a user would be: a model of sums instead of a real one. It
// brings model and work to a job that has none of its own.
//
//   client_worker master=ADDRESS [records=N batch=N epochs=N window=N slow=MILLISECONDS drop_last=1 dim=N
//   optimizer=TOML data=LINE save=DIR owner=1 ...]
//
// Table "count": one row for each record, which counts how often it was trained. Table "user" and the
// parameters follow a rule whose rounding depends on the order of everything. Prints a line for each
// minibatch, and at the end the sum of all counts, looked up when the job has no more work. With `save` it
// saves the job after its tenth minibatch, and once more before it leaves.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <numeric>
#include <string>
#include <thread>

#include "client/session.h"

namespace {

namespace client = embers::client;

class Words {
 public:
  Words(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const size_t equals = word.find('=');
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : found->second;
  }
  uint64_t number(const std::string& name, uint64_t otherwise) const {
    const std::string value = text(name);
    return value.empty() ? otherwise : std::stoull(value);
  }

 private:
  std::map<std::string, std::string> values_;
};

struct Task {
  uint64_t records, batch, epochs;
  bool drop_last;
  uint32_t dim;
  uint64_t slow;
  std::string save;

  // What every worker knows of a minibatch: a permutation of the records, another one in each epoch.
  std::vector<int64_t> records_of(uint64_t epoch, uint64_t number) const {
    std::vector<int64_t> of;
    for (uint64_t i = number * batch; i < std::min((number + 1) * batch, records); ++i)
      of.push_back(static_cast<int64_t>((i * 7919 + epoch * 31) % records));  // 7919 is a prime
    return of;
  }
};

struct Pulled {
  client::Minibatch minibatch;
  std::vector<int64_t> records;
  std::vector<std::string> users;
  std::vector<std::string_view> user_keys;
};

void pull(const Task& task, Pulled& p) {
  p.records = task.records_of(p.minibatch.epoch(), p.minibatch.number());
  for (size_t u = 0; u < std::min<size_t>(p.records.size(), 5); ++u)
    p.users.push_back("u" + std::to_string((static_cast<uint64_t>(p.records.front()) + u) % 23));
  p.user_keys.assign(p.users.begin(), p.users.end());
  const client::TableKeys lists[] = {{.table = "count", .ints = p.records},
                                     {.table = "user", .bytes = p.user_keys}};
  p.minibatch.pull(lists);
}

void push(const Task& task, Pulled& p) {
  const auto user = p.minibatch.rows(1), weight = p.minibatch.parameter(0), mean = p.minibatch.parameter(1);
  const std::vector<float> minus(p.records.size(), -1);
  std::vector<float> user_gradient(user.size()), weight_gradient(weight.size()),
      new_mean(mean.begin(), mean.end()), scores(p.records.size(), 0.5f);
  for (size_t i = 0; i < user.size(); ++i) {
    const float w = weight[i % weight.size()];
    user_gradient[i] = 0.1f * user[i] + 0.3f * w + 1e-3f * static_cast<float>(p.records[0]);
    weight_gradient[i % weight.size()] += user[i] / 7 - w / 3;
  }
  for (size_t i = 0; i < new_mean.size(); ++i) new_mean[i] = 0.9f * new_mean[i] + 0.1f * user[i];
  std::this_thread::sleep_for(std::chrono::milliseconds(task.slow));
  const std::span<const float> rows[] = {minus, user_gradient}, parameters[] = {weight_gradient, new_mean};
  const uint64_t epoch = p.minibatch.epoch(), number = p.minibatch.number();
  p.minibatch.push(rows, parameters, {.examples = p.records.size(), .loss_sum = 1, .scores = scores});
  std::printf("%llu %llu\n", static_cast<unsigned long long>(epoch), static_cast<unsigned long long>(number));
  std::fflush(stdout);
}

void compute(client::Session& session, client::Minibatch minibatch, const Task& task) {
  Pulled pulled{std::move(minibatch), {}, {}, {}};
  pull(task, pulled);
  if (pulled.minibatch.wait()) push(task, pulled);
  static int computed = 0;
  if (task.save.empty() || ++computed != 10) return;
  session.save(task.save + "/middle");
  std::printf("saved\n");
  std::fflush(stdout);
}

void work(client::Session& session, const Task& task) {
  while (auto minibatch = session.lease()) compute(session, std::move(minibatch), task);
}

// As with a loader that is always `window` - 1 batches ahead, and hands them out in order.
void work_ahead(client::Session& session, const Task& task, size_t window) {
  using Kind = client::Session::Draw::Kind;
  std::deque<client::Minibatch> drawn;
  for (;;) {
    while (drawn.size() < window) {
      auto draw = session.draw();
      if (draw.kind == Kind::kOver && drawn.empty()) return;
      if (draw.kind != Kind::kMinibatch) break;
      drawn.push_back(std::move(draw.minibatch));
    }
    if (drawn.empty()) continue;
    if (!drawn.front().begin()) {
      std::printf("again\n");
      drawn.clear();
      continue;
    }
    compute(session, std::move(drawn.front()), task);
    drawn.pop_front();
  }
}

double sum_of_counts(client::Session& session, const Task& task) {
  std::vector<int64_t> keys(task.records);
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> rows(keys.size());
  session.lookup("count", keys, rows);
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

void run(const Words& words) {
  const Task task{words.number("records", 300),
                  words.number("batch", 10),
                  words.number("epochs", 2),
                  words.number("drop_last", 0) != 0,
                  static_cast<uint32_t>(words.number("dim", 3)),
                  words.number("slow", 0),
                  words.text("save")};
  const std::vector<float> weight{0.1f, -0.2f, 0.3f, 0.4f, 0.5f}, mean{1, 2};
  client::WorkerOptions options;
  options.master = words.text("master");
  options.tables = {
      {{"count", 1, client::KeyType::kInt64}, "zeros", "{ name = \"sgd\", learning_rate = 1.0 }"},
      {{"user", task.dim, client::KeyType::kBytes}, "{ name = \"normal\", stddev = 0.01 }"}};
  options.parameters = {{"w", {5}, false, weight}, {"mean", {2}, true, mean}};
  options.numeric = {"sums"};
  options.data = {"order = 7919" + words.text("data")};
  options.work = client::Work{task.records, static_cast<uint32_t>(task.batch),
                              static_cast<uint32_t>(task.epochs), task.drop_last};
  options.optimizer =
      words.text("optimizer").empty() ? "{ name = \"adam\", learning_rate = 0.01 }" : words.text("optimizer");
  if (words.number("owner", 0) != 0) options.owner = client::OwnerPlace{};
  options.window = static_cast<uint32_t>(words.number("window", 0));
  auto session = client::Session::join_as_worker(options);
  std::printf("joined\n");
  std::fflush(stdout);
  options.window == 0 ? work(session, task) : work_ahead(session, task, options.window);
  if (!task.save.empty()) session.save(task.save + "/end");
  std::printf("sum %.0f\n", sum_of_counts(session, task));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(Words(argc, argv));
  } catch (const embers::Error& e) {
    std::fprintf(stderr, "client_worker: error: %s\n", e.what());
    return embers::exit_status(e.code());
  }
  return 0;
}
