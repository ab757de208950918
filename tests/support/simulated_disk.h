#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/files/disk.h"

namespace embers::testing_support {

// From the call at which a simulated process died, and from all its later ones.
struct Died : std::runtime_error {
  Died() : std::runtime_error("this process is dead") {}
};

// A host with a disk in memory, on which processes start and die. What a process has written outlives it.
// When the host dies, what was not synced is lost but for its beginning: of each file some of the writes, the
// last of them perhaps in part, and of each directory some of what was created, renamed and removed in it. A
// seed decides how much. *Thread safety*: none.
class SimulatedHost {
 public:
  class Process;
  using ProcessPtr = std::shared_ptr<Process>;

  explicit SimulatedHost(uint64_t seed) : random_(seed) {}
  ~SimulatedHost();
  ProcessPtr start();
  // With all its processes, and starts again: from now on, processes may.
  void die();
  // 0 ... below - 1
  uint64_t pick(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_); }

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct Node {
    explicit Node(bool directory) : is_directory(directory) {}

    // What is not synced yet, in order: a file got shorter, then longer; names in a directory got other
    // nodes, or none.
    struct Change {
      uint64_t size = 0;
      std::string bytes;
      std::vector<std::pair<std::string, NodePtr>> names;
    };

    void resize(uint64_t size) {
      bytes.resize(size);
      changes.push_back({size, "", {}});
    }
    void append(std::string_view more) {
      changes.push_back({bytes.size(), std::string(more), {}});
      bytes += more;
    }
    void rename(std::vector<std::pair<std::string, NodePtr>> to) {
      apply(names, to);
      changes.push_back({0, "", std::move(to)});
    }
    static void apply(std::map<std::string, NodePtr>& to,
                      const std::vector<std::pair<std::string, NodePtr>>& change) {
      for (const auto& [name, node] : change) node ? void(to[name] = node) : void(to.erase(name));
    }
    void sync() {
      synced_bytes = bytes;
      synced_names = names;
      changes.clear();
    }
    void lose(SimulatedHost& host) {
      const size_t kept = host.pick(changes.size() + 1);
      for (size_t i = 0; i < kept; ++i) {
        synced_bytes.resize(changes[i].size);
        synced_bytes += changes[i].bytes;
        apply(synced_names, changes[i].names);
      }
      if (kept < changes.size() && !changes[kept].bytes.empty() && host.pick(2) == 0)
        synced_bytes += changes[kept].bytes.substr(0, host.pick(changes[kept].bytes.size()));
      bytes = synced_bytes;
      names = synced_names;
      changes.clear();
      for (const auto& [name, node] : names) node->lose(host);
    }

    const bool is_directory;
    std::string bytes, synced_bytes;
    std::map<std::string, NodePtr> names, synced_names;
    std::vector<Change> changes;
    const Process* alone = nullptr;       // who has the lock
    std::vector<const Process*> sharing;  // one entry per LockFile
  };

  std::mt19937_64 random_;
  uint64_t deaths_ = 0;
  const NodePtr root_ = std::make_shared<Node>(true);
  std::vector<ProcessPtr> processes_;
};

// The disk of a host as one of its processes has it.
class SimulatedHost::Process final : public Disk, public std::enable_shared_from_this<Process> {
 public:
  bool alive() const { return alive_; }
  // A SIGKILL.
  void kill() {
    if (!std::exchange(alive_, false)) return;
    for (const NodePtr& node : locked_) {
      if (node->alone == this) node->alone = nullptr;
      std::erase(node->sharing, this);
    }
    if (on_death) std::exchange(on_death, nullptr)();
  }
  // A SIGKILL when it is about to change something once more after so many times. Of what it writes then,
  // some may be there.
  void kill_after(uint64_t changes) { dies_at_ = changes_ + std::min(changes, UINT64_MAX - changes_); }
  std::function<void()> on_death;
  // For what it changes elsewhere, which it may die of, too.
  bool dies_next() const { return changes_ >= dies_at_; }
  uint64_t pick(uint64_t below) { return host_->pick(below); }
  void change() {
    check();
    if (dies_next()) {
      kill();
      throw Died();
    }
    ++changes_;
  }

  std::unique_ptr<File> create(const std::string& path) override {
    const auto [directory, name] = split(path, "create");
    const auto found = directory->names.find(name);
    if (found == directory->names.end()) return add_file(directory, name, path);
    if (found->second->is_directory) fail_to("create", path, std::errc::is_a_directory);
    change();
    found->second->resize(0);
    return file(found->second, path);
  }
  std::unique_ptr<File> append(const std::string& path) override {
    const auto [directory, name] = split(path, "write to");
    const auto found = directory->names.find(name);
    if (found == directory->names.end()) return add_file(directory, name, path);
    if (found->second->is_directory) fail_to("write to", path, std::errc::is_a_directory);
    return file(found->second, path);
  }
  std::unique_ptr<File> open(const std::string& path) override { return file(get(path, "open"), path); }
  void truncate(const std::string& path, uint64_t size) override {
    const NodePtr node = get(path, "truncate");
    if (node->is_directory) fail_to("truncate", path, std::errc::is_a_directory);
    change();
    node->resize(size);
  }

  bool exists(const std::string& path) override { return find(path) != nullptr; }
  std::vector<std::string> names_in(const std::string& directory) override {
    const NodePtr node = get(directory, "list");
    if (!node->is_directory) fail_to("list", directory, std::errc::not_a_directory);
    std::vector<std::string> names;
    for (const auto& [name, named] : node->names) names.push_back(name);
    return names;
  }
  void create_directories(const std::string& path) override {
    NodePtr at = host_->root_;
    for (const std::string& name : parts(path)) {
      if (!at->names.contains(name)) {
        change();
        at->rename({{name, std::make_shared<Node>(true)}});
      }
      at = at->names.at(name);
      if (!at->is_directory) fail_to("create directory", path, std::errc::not_a_directory);
    }
  }
  // Within a directory: what a journal or a checkpoint needs, and a single change.
  void rename(const std::string& from, const std::string& to) override {
    const auto [directory, name] = split(from, "rename to");
    const auto [other, other_name] = split(to, "rename to");
    if (directory != other) throw std::logic_error("rename to another directory");
    const NodePtr node = get(from, "rename to");
    if (const auto there = other->names.find(other_name);
        there != other->names.end() && there->second != node) {
      if (there->second->is_directory && !node->is_directory)
        fail_to("rename to", to, std::errc::is_a_directory);
      if (!there->second->is_directory && node->is_directory)
        fail_to("rename to", to, std::errc::not_a_directory);
      if (!there->second->names.empty()) fail_to("rename to", to, std::errc::directory_not_empty);
    }
    change();
    directory->rename({{name, nullptr}, {other_name, node}});
  }
  void remove(const std::string& path) override {
    const NodePtr node = find_to_remove(path);
    if (!node) return;
    if (!node->names.empty()) fail_to("remove", path, std::errc::directory_not_empty);
    const auto [directory, name] = split(path, "remove");
    change();
    directory->rename({{name, nullptr}});
  }
  void remove_all(const std::string& path) override {
    const NodePtr node = find_to_remove(path);
    if (!node) return;
    if (node->is_directory)
      for (const std::string& name : names_in(path)) remove_all(path + "/" + name);
    remove(path);
  }

  std::unique_ptr<LockFile> lock_file(const std::string& path) override {
    const auto opened = append(path);
    return std::make_unique<Lock>(shared_from_this(), get(path, "lock"));
  }
  std::string boot() override { return std::to_string(host_->deaths_); }

 private:
  friend class SimulatedHost;
  explicit Process(SimulatedHost* host) : host_(host) {}

  class OpenFile final : public File {
   public:
    OpenFile(std::shared_ptr<Process> process, NodePtr node, const std::string& path)
        : File(path), process_(std::move(process)), node_(std::move(node)) {}

    uint64_t size() const override {
      process_->check();
      return node_->bytes.size();
    }
    void write(std::string_view bytes) override {
      process_->check();
      if (process_->dies_next() && !bytes.empty())
        node_->append(bytes.substr(0, process_->host_->pick(bytes.size())));
      process_->change();
      node_->append(bytes);
    }
    size_t read_at(uint64_t offset, void* to, size_t n) const override {
      process_->check();
      if (node_->is_directory) fail_to("read", path(), std::errc::is_a_directory);
      if (offset >= node_->bytes.size()) return 0;
      n = std::min<size_t>(n, node_->bytes.size() - offset);
      std::memcpy(to, node_->bytes.data() + offset, n);
      return n;
    }
    void sync() const override {
      process_->change();
      node_->sync();
    }
    std::unique_ptr<File> open_in(const std::string& name) const override {
      const NodePtr node = process_->find_from(node_, name);
      if (!node) fail_to("open", path() + "/" + name, std::errc::no_such_file_or_directory);
      return process_->file(node, path() + "/" + name);
    }

   private:
    const std::shared_ptr<Process> process_;
    const NodePtr node_;
  };

  class Lock final : public LockFile {
   public:
    Lock(std::shared_ptr<Process> process, NodePtr node)
        : process_(std::move(process)), node_(std::move(node)) {
      process_->locked_.push_back(node_);
    }
    ~Lock() override {
      if (has_ == Has::kAlone && node_->alone == process_.get()) node_->alone = nullptr;
      if (has_ == Has::kShared) drop_share();
    }
    bool try_lock() override {
      process_->check();
      const size_t mine = has_ == Has::kShared;
      if (has_ != Has::kAlone && (node_->alone != nullptr || node_->sharing.size() > mine)) return false;
      if (has_ == Has::kShared) drop_share();
      node_->alone = process_.get();
      has_ = Has::kAlone;
      return true;
    }
    void share() override {
      process_->check();
      if (has_ == Has::kShared) return;
      if (has_ == Has::kAlone) node_->alone = nullptr;
      if (node_->alone != nullptr) throw std::logic_error("would wait for a lock for ever");
      node_->sharing.push_back(process_.get());
      has_ = Has::kShared;
    }
    std::string holder() const override { return node_->bytes; }
    void sign(const std::string& holder) override {
      process_->change();
      node_->resize(0);
      process_->change();
      node_->append(holder);
    }

   private:
    void drop_share() {
      const auto mine = std::find(node_->sharing.begin(), node_->sharing.end(), process_.get());
      if (mine != node_->sharing.end()) node_->sharing.erase(mine);
    }
    const std::shared_ptr<Process> process_;
    const NodePtr node_;
    enum class Has { kNothing, kShared, kAlone } has_ = Has::kNothing;
  };

  void check() const {
    if (!alive_) throw Died();
  }

  static std::vector<std::string> parts(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& part : std::filesystem::path(path).lexically_normal())
      if (part != "/" && part != "." && !part.empty()) names.push_back(part.string());
    return names;
  }
  NodePtr find_from(NodePtr at, const std::string& path) const {
    check();
    for (const std::string& name : parts(path)) {
      const auto found = at->names.find(name);
      if (found == at->names.end()) return nullptr;
      at = found->second;
    }
    return at;
  }
  NodePtr find(const std::string& path) const { return find_from(host_->root_, path); }
  NodePtr find_to_remove(const std::string& path) const {
    check();
    NodePtr at = host_->root_;
    for (const std::string& name : parts(path)) {
      if (!at->is_directory) fail_to("remove", path, std::errc::not_a_directory);
      const auto found = at->names.find(name);
      if (found == at->names.end()) return nullptr;
      at = found->second;
    }
    return at;
  }
  NodePtr get(const std::string& path, const char* verb) const {
    const NodePtr node = find(path);
    if (!node) fail_to(verb, path, std::errc::no_such_file_or_directory);
    return node;
  }
  std::pair<NodePtr, std::string> split(const std::string& path, const char* verb) const {
    const std::filesystem::path whole(path);
    const NodePtr directory = find(whole.parent_path().string());
    if (!directory) fail_to(verb, path, std::errc::no_such_file_or_directory);
    if (!directory->is_directory) fail_to(verb, path, std::errc::not_a_directory);
    return {directory, whole.filename().string()};
  }
  std::unique_ptr<File> file(const NodePtr& node, const std::string& path) {
    return std::make_unique<OpenFile>(shared_from_this(), node, path);
  }
  std::unique_ptr<File> add_file(const NodePtr& directory, const std::string& name, const std::string& path) {
    change();
    const auto node = std::make_shared<Node>(false);
    directory->rename({{name, node}});
    return file(node, path);
  }
  [[noreturn]] static void fail_to(const char* verb, const std::string& path, std::errc why) {
    const auto code = std::make_error_code(why);
    fail(file_error_code(code.value()), "cannot {} '{}': {}", verb, path, code.message());
  }

  SimulatedHost* const host_;
  bool alive_ = true;
  uint64_t changes_ = 0, dies_at_ = UINT64_MAX;
  std::vector<NodePtr> locked_;
};

inline SimulatedHost::~SimulatedHost() {
  for (const ProcessPtr& process : processes_) process->on_death = nullptr;
}

inline SimulatedHost::ProcessPtr SimulatedHost::start() {
  processes_.push_back(ProcessPtr(new Process(this)));
  return processes_.back();
}

inline void SimulatedHost::die() {
  for (const ProcessPtr& process : processes_) process->kill();
  root_->lose(*this);
  ++deaths_;
}

}  // namespace embers::testing_support
