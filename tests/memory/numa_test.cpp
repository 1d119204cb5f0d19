// NUMA nodes: what the system says of them, in folders that look like its own, and what it is asked
// for.
#include "ember/memory/numa.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace ember::memory::numa {
namespace {

using Numbers = std::vector<int>;

TEST(Numa, ListsOfNumbers) {
  EXPECT_EQ(numbers_in("0-3,8"), (Numbers{0, 1, 2, 3, 8}));
  EXPECT_EQ(numbers_in("5"), Numbers{5});
  EXPECT_EQ(numbers_in("7-7,0-1"), (Numbers{7, 0, 1}));
  for (const char* none : {"", "a", "3-1", "1,", "1-", "-1", ",1", "0-3 ", "0--3", "0-99999999",
                           "99999999999999999999", "1;2", "0x3"})
    EXPECT_EQ(numbers_in(none), Numbers()) << none;
}

/// A folder like /sys.
class System {
 public:
  System() : root_(testing::TempDir() + "ember_numa_" + std::to_string(getpid())) {}
  ~System() { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

TEST(Numa, TheNodeOfADevice) {
  const System system;
  driver::DeviceProperties device;
  device.pci_domain_id = 1;
  device.pci_bus_id = 0x1a;
  device.pci_device_id = 2;
  EXPECT_EQ(node_of(device, system.root()), kNone) << "there is no such file";
  for (const auto& [text, node] : std::initializer_list<std::pair<const char*, int>>{
           {"1\n", 1}, {"0\n", 0}, {"-1\n", kNone}, {"", kNone}, {"\n", kNone}, {"1 2\n", kNone}}) {
    system.write("bus/pci/devices/0001:1a:02.0/numa_node", text);
    EXPECT_EQ(node_of(device, system.root()), node) << text;
  }
}

TEST(Numa, TheProcessorsOfANode) {
  const System system;
  system.write("devices/system/node/node1/cpulist", "4-5,12\n");
  EXPECT_EQ(processors_of(1, system.root()), (Numbers{4, 5, 12}));
  EXPECT_EQ(processors_of(0, system.root()), Numbers());
  EXPECT_EQ(processors_of(kNone, system.root()), Numbers());
}

Numbers processors_of_thread() {
  cpu_set_t set;
  Numbers numbers;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return numbers;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) numbers.push_back(i);
  return numbers;
}

TEST(Numa, AThreadIsBoundForAWhile) {
  const Numbers before = processors_of_thread();
  ASSERT_FALSE(before.empty());
  {
    const Bound bound({before.back()});
    EXPECT_EQ(processors_of_thread(), Numbers{before.back()});
    {
      const Bound nowhere({CPU_SETSIZE - 1});
      EXPECT_EQ(processors_of_thread(), Numbers{before.back()}) << "there is no such processor";
    }
    const Bound by_none({});
    EXPECT_EQ(processors_of_thread(), Numbers{before.back()});
  }
  EXPECT_EQ(processors_of_thread(), before);
}

/// The line of /proc/self/numa_maps for an address; empty if there is none.
std::string policy_at(const void* address) {
  std::ostringstream start;
  start << std::hex << reinterpret_cast<std::uintptr_t>(address) << ' ';
  std::ifstream maps("/proc/self/numa_maps");
  for (std::string line; std::getline(maps, line);)
    if (line.rfind(start.str(), 0) == 0) return line;
  return "";
}

TEST(Numa, MemoryPrefersANode) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  void* const data =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_FALSE(prefer(data, kBytes, kNone));
  EXPECT_FALSE(prefer(data, kBytes, 1023)) << "there is no such node";
  EXPECT_FALSE(prefer(data, kBytes, 1 << 20));
  const bool done = prefer(data, kBytes, 0);
  const std::string policy = policy_at(data);
  EXPECT_EQ(munmap(data, kBytes), 0);
  if (!done) GTEST_SKIP() << "this system does not let nodes be chosen";
  if (policy.empty()) GTEST_SKIP() << "this system does not tell where memory lies";
  EXPECT_NE(policy.find(" prefer:0"), std::string::npos) << policy;
}

}  // namespace
}  // namespace ember::memory::numa
