#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "client/joining/options.h"

// A program's part in a running job: it looks rows up, or it is leased minibatches and computes their
// gradients itself. Installed as embers::client, without libtorch.
//
//   auto session = embers::client::Session::join_as_reader({.master = "127.0.0.1:7700"});
//   const std::vector<int64_t> keys{7, 42};
//   std::vector<float> rows(keys.size() * session.table("user").dim);
//   session.lookup("user", keys, rows);
//
// Every error is an embers::Error, whose what() says what was wrong, where, and what to do. Once the session
// itself has ended (the job failed, or the master is gone), every call throws why.
namespace embers::client {

enum class KeyType : uint8_t { kInt64, kBytes };

// An embedding table.
struct Table {
  std::string name;
  uint32_t dim = 0;  // floats of a row
  KeyType keys = KeyType::kInt64;
  int64_t rows = 0;            // keys are below; 0 where they may be any
  std::string dtype = {};      // what rows are kept as: "float32", "float16" or "bfloat16"
  std::string partition = {};  // over shards: "token" or "encoding"
};

// A table as a worker describes it. Initializer, optimizer and constraint are values as [storage.tables] of a
// job file has them ("{ name = \"normal\", stddev = 0.01 }", or a name alone), or "" for the default, and
// matter in jobs whose model comes with its first worker; other jobs say them in their files. So do dtype,
// and partition, which may be "auto"; "" for the default.
struct TableSpec : Table {
  std::string initializer = {}, optimizer = {}, constraint = {};
};

// Keys of one table: `ints` or `bytes`, as its KeyType says.
struct TableKeys {
  std::string_view table;
  std::span<const int64_t> ints = {};
  std::span<const std::string_view> bytes = {};
};

// What was read is as new as `oldest`, or newer. In a sync job versions are those of the job; in other jobs
// each shard counts its own.
struct Versions {
  uint64_t oldest = 0, newest = 0;
};

// A dense parameter of the model, or a buffer such as a running mean.
struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  bool buffer = false;
  // Its first value, where the model comes with the first worker: only read while joining. Empty: zeros.
  std::span<const float> initial = {};
};

// How much there is to do: an epoch has ceil(records / batch_size) minibatches, or one less if the last would
// be short and is dropped. (epoch, number) says which records a minibatch has, as the program knows.
struct Work {
  uint64_t records = 0;
  uint32_t batch_size = 0;
  uint32_t epochs = 1;
  bool drop_last = false;
};

// Where others reach a worker that is an owner, too; without anything, at the address that reaches the
// master.
struct OwnerPlace {
  std::vector<std::string> listen = {};  // HOST:PORT (port 0: a free one) or unix:/path
  std::string advertise = {};            // HOST or HOST:PORT by which others reach it, if that is another one
  std::string port_range = {};           // A-B: ports to listen on where none is given
};

// What a worker must agree on with the master: a difference is refused with kMismatch. In a job whose file
// has neither [model] nor [data], the first worker that joins decides, and the others must agree with it.
struct WorkerOptions : Options {
  std::vector<TableSpec> tables;      // in the model's order
  std::vector<Parameter> parameters;  // in the model's order, buffers last
  // "name=value" lines of what decides the bits of a gradient: all workers of a sync job must have the same.
  std::vector<std::string> numeric;
  // What the data hold: the lines of data::Dataset::signature() for the training data, then for the test
  // data.
  std::vector<std::string> data;
  // A job whose model comes with its first worker: how much there is to do, and the optimizer of parameters
  // and of tables that name none, as TableSpec::optimizer; "": the job's. Other jobs: neither.
  std::optional<Work> work;
  std::string optimizer;
  // Also joins as one of the job's shards: this process holds a share of the rows, which other members reach
  // over the network, and this session without a socket. Jobs whose shards are all of this kind need no shard
  // processes. The rows are needed until the job has ended, so close() waits for that. If it is called while
  // there is work left, it has the master save and end the job, which cannot go on without this process.
  // Joining is refused with kInvalid when all shards of the job have joined.
  std::optional<OwnerPlace> owner;
  // How many leases this session may draw ahead of their work (Session::draw), as a loader does that prepares
  // batches before they are asked for; in an async job one of them is asked for before it is drawn. 0: leases
  // come as they are worked on (Session::lease).
  uint32_t window = 0;
};

// What the master is told about a minibatch.
struct Report {
  uint64_t examples = 0;                   // records in it
  uint64_t skipped = 0;                    // bad records that were left out
  double loss_sum = 0;                     // loss times examples
  std::span<const float> scores = {};      // one for each example
  std::span<const float> labels = {};      // one for each example; empty without labels
  std::span<const uint64_t> records = {};  // evaluation: number of each example in the test data
};

namespace detail {
class Core;
struct LeasedWork;
}  // namespace detail

// One leased minibatch. It is pulled, waited for, and pushed (or finished, when it is evaluated):
//
//   leased ──pull──► on its way ──wait──► rows are there ──push, finish──► over
//     └──────────────────┴──────────────────────┴── give_back ──► over
//
// One that is destroyed before it is over is given back, and the master leases it again.
//
// *Thread safety*: none; different minibatches may be used by different threads.
class Minibatch {
 public:
  Minibatch() = default;  // over
  Minibatch(Minibatch&&) noexcept = default;
  Minibatch& operator=(Minibatch&&) noexcept;
  ~Minibatch();

  // Whether it is not over. Session::lease() gives one that is, when the job has no more work.
  explicit operator bool() const { return work_ != nullptr; }
  bool evaluate() const;     // of the test data, in file order: nothing is pushed
  uint64_t epoch() const;    // from 1 on
  uint64_t number() const;   // in the epoch: with it, it decides which records these are
  uint64_t version() const;  // sync: of the model that it is computed on; else 0

  // Where WorkerOptions::window is not 0: the work begins now, and its deadline (job.lease_timeout) counts
  // from here. In sync mode waits until the version is there. False: the job waits for something else that
  // this session holds or is to draw. Give back this minibatch and all others that have not begun, and draw
  // again: the lowest one comes first. Minibatches are to be begun in the order in which they were drawn.
  bool begin();
  // The same, for this long at most: nothing if it was not known by then. Then ask again.
  std::optional<bool> begin_for(std::chrono::duration<double> time);
  // Asks, and does not wait: the answer is on its way while the program prepares what it will pull.
  void ask_to_begin();

  // Asks for the rows of these keys, which must be unique in each table, for each table at most once, and for
  // the dense parameters. Returns at once.
  void pull(std::span<const TableKeys> keys);
  // Waits until they are there. False: an owner refused, because the minibatch is stale or the owner has
  // moved. Then it is over; the master leases it again. At most 1 + training.prefetch minibatches of a
  // session may have rows and not be over; the next one waits until one of them is.
  bool wait();
  // Waits this long at most; returns whether wait() would now return at once.
  bool wait_for(std::chrono::duration<double> time);

  // Pulls more rows, once those of the pull are there: for keys that are only known by then. Their lists come
  // after those that were pulled before; a table may be listed again, with keys that it has not had yet in
  // this minibatch. Waits for the rows. False as wait(). Each call is one more request per shard: better is
  // one pull.
  bool pull_more(std::span<const TableKeys> keys);

  // Rows of the i-th list of the pull: keys x dim. Valid until it is over.
  std::span<const float> rows(size_t i) const;
  // Values of the i-th of WorkerOptions::parameters, with what minibatches that this process has pushed
  // before the first reading have changed since the pull (docs/update-modes.md, "Own steps"). Where others
  // push, too, the first reading pulls again what was pulled before the last push, and waits for it: up to a
  // second for shards, or for servers as long as they may take.
  std::span<const float> parameter(size_t i) const;
  // Whoever has this keeps what rows() and parameter() gave, also when the minibatch is over.
  std::shared_ptr<const void> hold() const { return work_; }

  // Hands over gradients and returns at once: of each list of the pull, keys x dim, or empty for none; and of
  // each parameter, or empty for zero: if all are empty, none changes. For a buffer, its new value, or empty
  // to keep it. Everything is copied. The shards apply them, or keep them for the version's commit (sync);
  // then the master is told. If a shard refuses them as stale, the master leases the minibatch again.
  void push(std::span<const std::span<const float>> rows, std::span<const std::span<const float>> parameters,
            const Report& report);
  // Of one that is evaluated.
  void finish(const Report& report);
  void give_back();

 private:
  friend class Session;
  Minibatch(std::shared_ptr<detail::Core> core, std::shared_ptr<detail::LeasedWork> work);

  std::shared_ptr<detail::Core> core_;
  std::shared_ptr<detail::LeasedWork> work_;
};

// A program that has joined a job. The master hears regularly that it lives, from a thread of the session's
// own.
//
// *Thread safety*: all members from any thread, except close() and the destructor, during which no other call
// may run. After fork() the child can do nothing with it: it must join by itself.
class Session {
 public:
  // Joins a job to look rows up. The job does not wait for readers, neither to begin nor to end, and a reader
  // can change nothing. Returns when the job has begun; kTimeout if it has not begun in time.
  static Session join_as_reader(const Options& options);
  // Joins a job to compute gradients. Returns when all shards have joined.
  static Session join_as_worker(const WorkerOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();  // close()

  const std::string& job() const;            // its name
  const std::vector<Table>& tables() const;  // its embedding tables
  const Table& table(std::string_view name) const;

  // Copies each key's row to its place in `rows`, keys x dim. A key that nobody has trained on yet reads as
  // its initial value, the one that it will begin with; no row is made for it. Rows of different shards may
  // be of different versions. kTimeout if the shards do not answer in time, also when one is lost and
  // recovers.
  Versions lookup(std::string_view table, std::span<const int64_t> keys, std::span<float> rows);
  Versions lookup(std::string_view table, std::span<const std::string_view> keys, std::span<float> rows);
  // The same for callers that must not wait for long: nullopt if the rows have not come after this time, or
  // cannot come so soon (rows that are read straight from servers). `rows` may then hold some of them, and
  // nobody writes there any more: ask again, or use lookup(), which also says what is wrong.
  std::optional<Versions> lookup_for(std::chrono::duration<double> time, std::string_view table,
                                     std::span<const int64_t> keys, std::span<float> rows);
  std::optional<Versions> lookup_for(std::chrono::duration<double> time, std::string_view table,
                                     std::span<const std::string_view> keys, std::span<float> rows);

  // The present values of WorkerOptions::parameters, in their order. Workers only.
  std::vector<std::vector<float>> parameters();

  // Calls visit(keys, rows) for all rows of a table, keys x dim, part by part, in no particular order. Rows
  // are of the moment in which they are read; Options::timeout is for each part. In this thread.
  using Visitor = std::function<void(const TableKeys& keys, std::span<const float> rows)>;
  void scan(std::string_view table, const Visitor& visit);
  // Sets the rows of these keys, keys x dim, which must be unique: as when they were trained elsewhere. What
  // the update rule keeps of such a row begins anew. Workers only; in a sync job, before the first minibatch.
  void import_rows(const TableKeys& keys, std::span<const float> rows);

  // The next minibatch, once there is one; one that is over when the job has no more work. Workers only.
  // Where the model came with the first worker, the job then waits for this session to be closed: until then,
  // it may still look rows up.
  Minibatch lease();
  // The same, for this long at most: nothing if there was none by then.
  std::optional<Minibatch> lease_for(std::chrono::duration<double> time);

  // The next minibatch of a session with a window (WorkerOptions::window), drawn ahead of its work. It waits
  // only for what needs nothing from this program: if minibatches are drawn and not pushed, and there is
  // nothing more before they are, it says kLater at once. Once nothing is held, it waits until there is more,
  // or says kOver when the job has no more work.
  struct Draw {
    enum class Kind : uint8_t { kMinibatch, kLater, kOver };
    Kind kind = Kind::kOver;
    Minibatch minibatch = {};
  };
  Draw draw();
  // The same, for this long at most: nothing if it was not known by then. Then ask again.
  std::optional<Draw> draw_for(std::chrono::duration<double> time);
  // In an async job, draw() also asks for the minibatch after the one that it gives, so that the next call
  // need not wait. This gives it back: for a program that will not draw for a while, so that others may have
  // it.
  void give_back_undrawn();
  // With a window: whether Minibatch::ask_to_begin() may be called while others of this program are computed.
  // So in async jobs; elsewhere the answer may wait for what they change.
  bool begins_ahead() const;

  // Waits, this long at most, until the shards have acknowledged all that this program has pushed: what it
  // pulls then is computed on it. Returns whether they have.
  bool settle_for(std::chrono::duration<double> time);

  // Saves the job in the middle of its work, to a directory of the master's host (relative to where this
  // program runs), and returns when that is done: as Admin::checkpoint(), whose errors it throws. What
  // waits to be leased by this program, or (with a window) has not begun, does not hold it up; other
  // minibatches do, until they are pushed or given back. Readers may do it, too.
  void save(const std::string& directory);

  // Ends the job, which fails with this error, as when its data or its model are wrong: no other worker would
  // get any further. Waits until the master knows. Workers only.
  void fail_job(const Error& why);

  // With WorkerOptions::owner: asks the master to save and end the job, also while close() waits for its end,
  // as for a program that is to end soon. Returns at once.
  void stop_job() noexcept;

  // Leaves the job: gives back what is leased and not pushed, and waits until the shards have acknowledged
  // what is; with WorkerOptions::owner, until the job has ended. Later calls do nothing. Throws nothing; how
  // the session had ended is what calls before it threw.
  void close() noexcept;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace embers::client
