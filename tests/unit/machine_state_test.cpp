// The warnings about the state of the machine, and the policy for new memory.
#include "runtime/machine_state.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "ranks/cpus.hpp"
#include "ranks/memory_policy.hpp"
#include "result/tables.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::runtime {
namespace {

using test::names;

/// A machine with GPUs that a rank each uses, described as far as the warnings need.
struct Machine {
  std::int64_t rank = 0, utilization = 0, others = 0, nodes = 2, memory_node = -1;
  std::string balancing = "off", uuid = "GPU-1";

  std::vector<std::string> warnings(int ranks = 1) const {
    Topology topology;
    for (int i = 0; i < ranks; ++i) {
      topology.ranks.push_back({.host = "tiger",
                                .gpu_uuid = uuid,
                                .numa_nodes = nodes,
                                .memory_node = memory_node,
                                .numa_balancing = balancing});
      result::Gpu gpu;
      gpu.host = "tiger";
      gpu.pci = "0000:1b:00." + std::to_string(i);
      gpu.rank = rank;
      gpu.utilization = utilization;
      gpu.other_processes = others;
      topology.gpus.push_back(gpu);
    }
    return warnings_on_state(topology);
  }
};

TEST(BusyGpus, AreThoseThatOthersUse) {
  const auto warned = Machine{.utilization = 93, .others = 2}.warnings();
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_TRUE(names(warned[0], "0000:1b:00.0", "tiger", "rank 0", "93 %", "2 other processes",
                    "--device.first"));
  EXPECT_EQ((Machine{.utilization = 10, .others = 1}.warnings().size()), 1U);
  EXPECT_TRUE((Machine{.utilization = 9, .others = 1}.warnings().empty()));
  EXPECT_TRUE((Machine{.utilization = -1, .others = 1}.warnings().empty()));
  EXPECT_TRUE((Machine{.utilization = 100, .others = 0}.warnings().empty()));  // an earlier run
  EXPECT_TRUE((Machine{.rank = -1, .utilization = 99, .others = 1}.warnings().empty()));
}

TEST(BusyGpus, WithHiddenProcessesAreVeryBusy) {
  EXPECT_EQ((Machine{.utilization = 50, .others = -1}.warnings().size()), 1U);
  EXPECT_TRUE((Machine{.utilization = 49, .others = -1}.warnings().empty()));
}

TEST(BusyGpus, AreNamedUpToFour) {
  EXPECT_EQ((Machine{.utilization = 99, .others = 1}.warnings(8).size()), 4U);
}

TEST(NumaBalancing, IsAWarningIfItMayMoveMemory) {
  const auto warned = Machine{.balancing = "on"}.warnings(8);
  ASSERT_EQ(warned.size(), 1U);  // of the host
  EXPECT_TRUE(names(warned[0], "tiger", "sysctl kernel.numa_balancing=0", "numactl --membind"));
  EXPECT_TRUE((Machine{.nodes = 1, .balancing = "on"}.warnings().empty()));
  EXPECT_TRUE((Machine{.memory_node = 1, .balancing = "on"}.warnings().empty()));
  EXPECT_TRUE((Machine{.balancing = "on", .uuid = ""}.warnings().empty()));  // no GPU
  EXPECT_TRUE((Machine{.balancing = ""}.warnings().empty()));
}

TEST(NumaBalancing, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto file = folder / "numa_balancing";
  EXPECT_EQ(ranks::numa_balancing(file), "");
  for (const auto& [mode, word] : {std::pair("0\n", "off"), {"1\n", "on"}, {"2\n", "on"}}) {
    std::ofstream(file) << mode;
    EXPECT_EQ(ranks::numa_balancing(file), word) << mode;
  }
}

TEST(MemoryPolicy, IsThatOfTheThread) {
  const auto before = ranks::MemoryPolicy::of_this_thread();
  if (!before) GTEST_SKIP() << "this container forbids policies";
  const int node = ranks::numa_nodes().back();
  const auto wanted = ranks::MemoryPolicy::preferring(node);
  EXPECT_FALSE(wanted.is_default());
  EXPECT_EQ(wanted.node(), node);
  EXPECT_EQ(ranks::MemoryPolicy::preferring(67).node(), 67);
  if (const std::string problem = wanted.apply(); !problem.empty()) GTEST_SKIP() << problem;
  EXPECT_EQ(ranks::MemoryPolicy::of_this_thread()->node(), node);
  EXPECT_EQ(before->apply(), "");
  EXPECT_EQ(ranks::MemoryPolicy::of_this_thread()->node(), before->node());
}

}  // namespace
}  // namespace shardstream::runtime
