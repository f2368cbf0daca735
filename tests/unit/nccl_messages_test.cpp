// The interpretation of NCCL's messages, with lines as several versions of NCCL have written them.
#include "comm/nccl_messages.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/errors.hpp"

namespace shardstream::comm {
namespace {

using test::names;

using namespace std::string_literals;

constexpr std::string_view start_without_fabric =
    "node1:22555:22555 [0] NCCL INFO cudaDriverVersion 12040\n"
    "node1:22555:22555 [0] NCCL INFO Bootstrap: Using eth0:10.10.7.109<0>\n"
    "node1:22555:22583 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal "
    "network plugin.\n"
    "node1:22555:22583 [0] NCCL INFO NET/IB : No device found.\n"
    "node1:22555:22583 [0] NCCL INFO NET/Socket : Using [0]eth0:10.10.7.109<0>\n"
    "node1:22555:22583 [0] NCCL INFO Using network Socket\n"
    "node1:22555:22583 [0] NCCL INFO ncclCommInitRankConfig comm 0x55 rank 1 nranks 4\n";

constexpr std::string_view full_shared_memory =
    "node1:9621:9688 [3] NCCL INFO Using network IB\n"
    "\n[2025-04-22 21:34:20] node1:9621:9688 [3] misc/shmutils.cc:88 NCCL WARN Error: failed to "
    "extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)\n"
    "\n[2025-04-22 21:34:20] node1:9621:9688 [3] misc/shmutils.cc:132 NCCL WARN Error while "
    "creating shared memory segment /dev/shm/nccl-WU88OE (size 9637888), error: No space left on "
    "device (28)\n"
    "node1:9621:9688 [3] NCCL INFO transport/shm.cc:551 -> 2\n"
    "\n[2025-04-22 21:34:20] node1:9621:9690 [3] proxy.cc:1326 NCCL WARN Socket recv failed while "
    "polling for opId=0x7f6dd4098d40\n";

TEST(NcclMessages, NameTheNetwork) {
  EXPECT_EQ(network_in(start_without_fabric), "Socket");
  EXPECT_EQ(network_in("nid006352:34610:34631 [0] NCCL INFO Using network AWS Libfabric\n"),
            "AWS Libfabric");
  EXPECT_EQ(network_in("a:1:1 [0] NCCL INFO Using network IB\n"
                       "a:1:9 [0] NCCL INFO Using network Socket"),
            "Socket");  // the communicator that was made last
  EXPECT_EQ(network_in("a:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"), "");
  EXPECT_EQ(network_in(""), "");
}

TEST(NcclMessages, AWarningWithAKnownRemedyIsTheMainMessage) {
  EXPECT_EQ(main_message(full_shared_memory, "Socket recv failed while polling"),
            "Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left "
            "on device (28)");
  EXPECT_EQ(main_message(start_without_fabric, "the last"), "the last");
  EXPECT_EQ(main_message("", ""), "");
}

TEST(NcclMessages, FullSharedMemoryHasARemedy) {
  for (const auto* message :
       {"Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left (28)",
        "Error while creating shared memory segment /dev/shm/nccl-KWfVyt (size 5967872)",
        "Error while creating shared memory segment nccl-shm-recv-146-1-2-3 (size 9637888)",
        "Error: failed to create shared memory file /dev/shm/nccl-x, error Permission denied (13)",
        "Call to posix_fallocate failed : No space left on device"}) {
    const std::string remedy = nccl_remedy(message, std::uint64_t{60} << 20);
    EXPECT_TRUE(names(remedy, "/dev/shm", "60 MiB", "--comm.transport mpi")) << message;
  }
  EXPECT_FALSE(names(nccl_remedy("posix_fallocate", std::nullopt), "MiB"));
}

TEST(NcclMessages, OtherErrorsAreNotTakenForFullSharedMemory) {
  for (const auto* message :
       {"Error while attaching to shared memory segment /dev/shm/nccl- (size 192814336), error: No "
        "such file or directory (2)",
        "cuMem host allocations do not appear to be working; falling back to a /dev/shm/ based "
        "implementation.",
        "Cuda failure 'out of memory'", ""}) {
    EXPECT_FALSE(names(nccl_remedy(message, 1), "/dev/shm")) << message;
    EXPECT_TRUE(names(nccl_remedy(message, 1), "NCCL_DEBUG")) << message;
  }
  const auto twice = "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000";
  EXPECT_TRUE(names(nccl_remedy(twice, 1), "rank", "GPU"));
  EXPECT_FALSE(names(nccl_remedy(twice, 1), "NCCL_DEBUG"));
}

TEST(NcclMessages, TheRankAtFaultIsFound) {
  const auto remote = "ncclAllGather failed (remote process exited or there was a network error)"s;
  const auto other = "ncclAllGather failed (unhandled cuda error: Cuda failure 'out of memory')"s;
  const auto full = "ncclAllGather failed (Error while creating shared memory segment x)"s;
  EXPECT_EQ(first_cause(std::vector{remote, other, full}), 2U);
  EXPECT_EQ(first_cause(std::vector{""s, remote, other, other}), 2U);
  EXPECT_EQ(first_cause(std::vector{""s, other, remote}), 1U);
  EXPECT_EQ(first_cause(std::vector{""s, ""s}), 2U);
}

TEST(NcclMessages, ASlowNetworkCausesAWarning) {
  for (const auto* fine : {"IB", "AWS Libfabric", "within one host", "unknown"}) {
    EXPECT_EQ(network_warning(fine), "") << fine;
  }
  for (const auto* slow : {"Socket", "IB, Socket"}) {
    EXPECT_TRUE(names(network_warning(slow), "NCCL_IB_HCA")) << slow;
  }
}

}  // namespace
}  // namespace shardstream::comm
