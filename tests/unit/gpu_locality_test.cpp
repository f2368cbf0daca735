// The locality of GPUs according to hwloc, on a machine described in a file.
#include "ranks/gpu_locality.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "ranks/cpus.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::ranks {
namespace {

/// One object of hwloc's XML; the sets are masks.
std::string object(const char* type, int index, unsigned cpus, unsigned nodes,
                   const std::string& children = "") {
  static int unique = 1000;
  return fmt::format(
      R"(<object type="{}" os_index="{}" cpuset="0x{:08x}" complete_cpuset="0x{:08x}" )"
      R"(nodeset="0x{:08x}" complete_nodeset="0x{:08x}" gp_index="{}">{}</object>)",
      type, index, cpus, cpus, nodes, nodes, unique++, children);
}

/// A bridge with one display controller.
std::string gpu(const char* domain, const char* bus) {
  static int unique = 1;
  const int bridge = unique++, device = unique++;
  return fmt::format(
      R"(<object type="Bridge" gp_index="{}" bridge_type="0-1" depth="0" bridge_pci="{}:[{}-{}]">)"
      R"(<object type="PCIDev" gp_index="{}" pci_busid="{}:{}:00.0" )"
      R"(pci_type="0302 [10de:2335] [10de:18be] a1" pci_link_speed="0.0"/></object>)",
      bridge, domain, bus, bus, device, domain, bus);
}

/// A core with two threads, CPUs `index` and `index` + 4.
std::string core(int index, unsigned nodes) {
  const unsigned first = 1U << index, second = 16U << index;
  const std::string threads =
      object("PU", index, first, nodes) + object("PU", index + 4, second, nodes);
  return object("Core", index, first | second, nodes, threads);
}

/// Two sockets of two cores with two threads: CPUs 0, 1, 4, 5 and 2, 3, 6, 7. Memory without CPUs
/// is node 2, of the second socket's GPU, and node 3, of the machine.
std::string machine() {
  constexpr unsigned no_cpus = 0, cpus0 = 0x33, cpus1 = 0xcc;
  const std::string first = object("NUMANode", 0, cpus0, 1) + core(0, 1) + core(1, 1);
  const std::string second =
      object("NUMANode", 2, no_cpus, 4) + object("NUMANode", 1, cpus1, 2) + core(2, 6) + core(3, 6);
  const std::string all = object("NUMANode", 3, no_cpus, 8) +
                          object("Package", 0, cpus0, 1, first + gpu("0000", "1b")) +
                          object("Package", 1, cpus1, 6, second + gpu("0001", "c1")) +
                          gpu("0000", "f0");
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">{}</topology>\n",
      object("Machine", 0, cpus0 | cpus1, 15, all));
}

class GpuLocality : public ::testing::Test {
 protected:
  /// Call it before the first call of the tested functions, which loads the topology.
  static void SetUpTestSuite() {
    const test::TemporaryFolder folder;
    const auto path = folder / "machine.xml";
    std::ofstream(path) << machine();
    setenv("HWLOC_XMLFILE", path.c_str(), 1);
    locality_of("0000:1b:00.0");
    unsetenv("HWLOC_XMLFILE");
  }
};

TEST_F(GpuLocality, NearCpusAndTheNodeThatHasThem) {
  const Locality first = locality_of("0000:1b:00.0"), second = locality_of("0001:c1:00.0");
  EXPECT_EQ(list_of(first.cpus), "0-1,4-5");
  EXPECT_EQ(first.numa_node, 0);
  EXPECT_EQ(list_of(second.cpus), "2-3,6-7");
  EXPECT_EQ(second.numa_node, 1);
}

TEST_F(GpuLocality, TheWholeMachineHasNoNode) {
  const Locality anywhere = locality_of("0000:f0:00.0");
  EXPECT_EQ(list_of(anywhere.cpus), "0-7");
  EXPECT_EQ(anywhere.numa_node, -1);
}

TEST_F(GpuLocality, MissingGpusAreUnknown) {
  for (const char* pci : {"0000:1b:00.1", "0000:c1:00.0", "", "GPU-1"}) {
    EXPECT_EQ(locality_of(pci).numa_node, -1) << pci;
    EXPECT_EQ(locality_of(pci).cpus, Cpus{}) << pci;
  }
}

TEST_F(GpuLocality, ThreadsOfACoreAreAdjacent) {
  EXPECT_EQ(neighbours_together(cpus_of("0-7")), (Cpus{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(neighbours_together(cpus_of("1,3-5")), (Cpus{4, 1, 5, 3}));
  EXPECT_EQ(neighbours_together(cpus_of("6-9")), cpus_of("6-9"));  // some are unknown
}

TEST(MemoryNodes, CountTouchedPages) {
  constexpr std::size_t bytes = std::size_t{32} << 20;
  const std::vector<char> memory(bytes, 1);
  const std::string nodes = numa_nodes_of(memory.data(), memory.size());
  if (nodes == "unknown") GTEST_SKIP() << "SKIP: this system does not tell where memory is";
  std::size_t pages = 0;
  for (std::size_t at = 0; (at = nodes.find(':', at)) != nodes.npos; ++at) {
    pages += std::stoul(nodes.substr(at + 1));
  }
  EXPECT_EQ(pages, 4096U) << nodes;
  EXPECT_EQ(numa_nodes_of(memory.data(), 0), "unknown");
}

}  // namespace
}  // namespace shardstream::ranks
