#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace embers {

// A "host" of this machine: namespaces of its own for its network, its name and its mounts, and a TUN device
// that is its only network card. It has the names and the boot id of a machine of its own. Ends with this
// process.
class Host {
 public:
  // Before each packet of the device: virtio's, so that large packets pass whole, as through a network card.
  static constexpr size_t kHeaderBytes = 10;
  static constexpr char kDevice[] = "link0";
  static constexpr int kMost = 9;  // hosts of a network

  // The `number`th of so many, from 0 on. Throws what forbids it.
  Host(int number, int hosts);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  int device() const { return device_; }      // its packets
  std::string task() const { return task_; }  // of /proc, with its namespaces
  bool has_ipv6() const { return has_ipv6_; }
  void set_up(bool up);  // its network card

  static std::string name(int number) { return std::string("host-") + static_cast<char>('a' + number); }
  static std::string ipv4(int number) { return "10.77.0." + std::to_string(number + 1); }
  static std::string ipv6(int number) { return "fd77::" + std::to_string(number + 1); }
  // The host that a packet of a device is for; none: not one of these.
  static std::optional<int> receiver(std::span<const char> packet);

 private:
  void make();
  void make_names() const;
  void make_network();
  void add_ipv6();

  const int number_, hosts_;
  int device_ = -1, control_ = -1, control6_ = -1;  // control: sockets in its network
  bool has_ipv6_ = false;
  std::string task_;
};

// Before the first host, in a process with one thread: where this user may not make namespaces, a user
// namespace in which it may. Returns whether one was made.
bool become_root();

}  // namespace embers
