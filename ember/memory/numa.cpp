#include "ember/memory/numa.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <cstdio>

#include "ember/base/file.h"

namespace ember::inline v0::memory::numa {
namespace {

/// The first line of a small file; empty if there is none.
std::string line_of(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t bytes = file ? ::read(file.get(), text, sizeof text) : 0;
  const std::string_view all(text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return std::string(all.substr(0, all.find('\n')));
}

/// Takes a number from the front of a text; false if there is none.
bool take(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

int node_of(const driver::DeviceProperties& device, const std::string& system) {
  char name[32];
  std::snprintf(name, sizeof name, "%04x:%02x:%02x.0", static_cast<unsigned>(device.pci_domain_id),
                static_cast<unsigned>(device.pci_bus_id),
                static_cast<unsigned>(device.pci_device_id));
  const std::string line = line_of(system + "/bus/pci/devices/" + name + "/numa_node");
  std::string_view text = line;
  int node = kNone;
  return take(text, node) && text.empty() && node >= 0 ? node : kNone;
}

std::vector<int> numbers_in(std::string_view list) {
  std::vector<int> numbers;
  while (!list.empty()) {
    int first = 0;
    if (!take(list, first)) return {};
    int last = first;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      if (!take(list, last)) return {};
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return {};
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    if (list.empty()) break;
    if (!list.starts_with(',') || list.size() == 1) return {};
    list.remove_prefix(1);
  }
  return numbers;
}

std::vector<int> processors_of(int node, const std::string& system) {
  if (node < 0) return {};
  return numbers_in(
      line_of(system + "/devices/system/node/node" + std::to_string(node) + "/cpulist"));
}

bool prefer(void* data, std::size_t bytes, int node) noexcept {
  constexpr int kPreferred = 1;  // MPOL_PREFERRED
  constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 16> nodes{};
  const int most = static_cast<int>(nodes.size()) * kBits;
  if (node < 0 || node >= most) return false;
  nodes[static_cast<std::size_t>(node / kBits)] = 1UL << (node % kBits);
  return syscall(SYS_mbind, data, bytes, kPreferred, nodes.data(),
                 static_cast<unsigned long>(most) + 1, 0U) == 0;
}

Bound::Bound(const std::vector<int>& processors) noexcept {
  if (processors.empty() || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int each : processors) CPU_SET(each, &wanted);
  bound_ = sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

Bound::~Bound() {
  if (bound_) (void)sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace ember::inline v0::memory::numa
