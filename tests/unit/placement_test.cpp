// The GPU and the CPUs of each rank in recorded situations: pure arithmetic.
#include "ranks/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "ranks/situation.hpp"
#include "support/errors.hpp"

namespace shardstream::ranks {
namespace {

using test::error_of;
using test::names;

constexpr auto a100 = "NVIDIA A100-SXM4-80GB";
constexpr auto h100 = "NVIDIA H100 80GB HBM3";

/// A host with two sockets of 16 cores with two threads each (CPUs c and c + 32) and four GPUs, two
/// near each socket.
const Cpus first_socket = cpus_of("0-15,32-47"), second_socket = cpus_of("16-31,48-63");
/// In the order of the topology, in which the threads of a core are adjacent.
Cpus all_cpus() {
  Cpus cpus;
  for (int core = 0; core < 32; ++core) cpus.insert(cpus.end(), {core, core + 32});
  return cpus;
}

VisibleGpu gpu(const std::string& host, int number, const std::string& name = h100) {
  const bool second = number >= 2;
  return {"GPU-" + host + std::to_string(number), "0000:" + std::to_string(10 + number) + ":00.0",
          name, second ? 1 : 0, second ? second_socket : first_socket};
}

Situation rank_on(const std::string& host, std::vector<VisibleGpu> gpus, Cpus cpus = all_cpus()) {
  return {.host = host,
          .cpus = std::move(cpus),
          .host_cpus = 64,
          .built_with_cuda = true,
          .gpus = std::move(gpus),
          .problem = "",
          .environment = {}};
}

std::vector<VisibleGpu> gpus_of(const std::string& host, int count) {
  std::vector<VisibleGpu> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(gpu(host, i));
  return gpus;
}

/// `ranks` ranks that all see the host's `gpus` GPUs.
std::vector<Situation> like(const std::string& host, int ranks, int gpus) {
  return std::vector<Situation>(static_cast<std::size_t>(ranks),
                                rank_on(host, gpus_of(host, gpus)));
}

std::vector<Situation> joined(std::vector<Situation> a, const std::vector<Situation>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<int> ordinals(const Placement& plan) {
  std::vector<int> gpus;
  for (const RankPlacement& p : plan.places) gpus.push_back(p.gpu);
  return gpus;
}

/// Every rank's CPUs as a list.
std::vector<std::string> lists(const Placement& plan) {
  std::vector<std::string> cpus;
  for (const RankPlacement& p : plan.places) cpus.push_back(list_of(p.cpus));
  return cpus;
}

std::string refusal(const std::vector<Situation>& ranks, const PlacementRequest& request = {}) {
  return error_of([&] { place(ranks, request); });
}

using Ints = std::vector<int>;
using Texts = std::vector<std::string>;

// ---------------------------------------------------------------- GPUs

struct Choice {
  const char* what;
  std::vector<Situation> ranks;
  Ints gpus;
  bool shares = false;
  bool oversubscribe = false;
};

std::vector<Choice> choices() {
  const auto g = [](int number) { return gpu("a", number); };
  const auto one_each = [&](Ints numbers) {
    std::vector<Situation> ranks;
    for (const int number : numbers) ranks.push_back(rank_on("a", {g(number)}));
    return ranks;
  };
  return {
      {"alone, no GPU", like("a", 1, 0), {-1}},
      {"alone, one GPU", like("a", 1, 1), {0}},
      {"all visible: the local rank's", like("a", 4, 4), {0, 1, 2, 3}},
      {"more GPUs than ranks", like("a", 2, 4), {0, 1}},
      {"Slurm shows one each", one_each({0, 1, 2, 3}), {0, 0, 0, 0}},
      {"two of its own each", {rank_on("a", {g(0), g(1)}), rank_on("a", {g(2), g(3)})}, {0, 0}},
      {"a wrapper that rotates", {rank_on("a", {g(0), g(1)}), rank_on("a", {g(1), g(0)})}, {0, 0}},
      {"hosts", joined(like("a", 4, 4), like("b", 4, 4)), {0, 1, 2, 3, 0, 1, 2, 3}},
      {"hosts, ranks dealt in turn",
       {like("a", 1, 2)[0], like("b", 1, 2)[0], like("a", 1, 2)[0], like("b", 1, 2)[0]},
       {0, 0, 1, 1}},
      {"clones with one uuid", joined(like("a", 1, 1), {rank_on("b", {g(0)})}), {0, 0}},
      {"spread evenly", like("a", 5, 2), {0, 1, 0, 1, 0}, true, true},
      {"one for two", like("a", 2, 1), {0, 0}, true, true},
      {"allowed, but not needed", like("a", 2, 2), {0, 1}, false, true},
      {"the one seen is shared", one_each({0, 0}), {0, 0}, true, true},
  };
}

TEST(Placement, EachRankTakesOneGpu) {
  for (const Choice& choice : choices()) {
    const Placement plan = place(choice.ranks, {.oversubscribe = choice.oversubscribe});
    EXPECT_EQ(ordinals(plan), choice.gpus) << choice.what;
    EXPECT_EQ(plan.shares_gpu(), choice.shares) << choice.what;
    for (std::size_t r = 0; r < plan.places.size(); ++r) {
      const auto& sharers = plan.places[r].sharers;
      const auto itself = std::ranges::count(sharers, static_cast<int>(r));
      EXPECT_EQ(itself, choice.gpus[r] < 0 ? 0 : 1) << choice.what;
      EXPECT_TRUE(choice.shares || sharers.size() <= 1) << choice.what;
    }
  }
}

TEST(Placement, SharersAreNamed) {
  const Placement plan = place(joined(like("a", 5, 2), like("b", 1, 2)), {.oversubscribe = true});
  EXPECT_EQ(plan.places[0].sharers, (Ints{0, 2, 4}));
  EXPECT_EQ(plan.places[3].sharers, (Ints{1, 3}));
  EXPECT_EQ(plan.places[5].sharers, (Ints{5}));
}

/// MIG devices of one GPU have its PCI address; CUDA shows one to each process.
TEST(Placement, MigDevicesAreDevices) {
  VisibleGpu first = gpu("a", 0, "NVIDIA A100-SXM4-80GB MIG 3g.40gb"), second = first;
  first.uuid = "MIG-1";
  second.uuid = "MIG-2";
  const Placement plan = place(std::vector{rank_on("a", {first}), rank_on("a", {second})}, {});
  EXPECT_EQ(ordinals(plan), (Ints{0, 0}));
  EXPECT_FALSE(plan.shares_gpu());
  EXPECT_EQ(plan.warnings, Texts{});  // there is no NVLink between them that could be hidden
  EXPECT_TRUE(names(refusal({rank_on("a", {first}), rank_on("a", {first})}),
                    "2 ranks on a see 1 GPU", "MIG", "CUDA_VISIBLE_DEVICES"));
}

TEST(Placement, TheHostBackendIgnoresGpus) {
  auto ranks = like("a", 2, 1);
  ranks[1].problem = "nobody looks";
  const Placement plan = place(ranks, {.backend = "host"});
  EXPECT_EQ(ordinals(plan), (Ints{-1, -1}));
  EXPECT_EQ(plan.places[0].sharers, Ints{});
  EXPECT_FALSE(plan.shares_gpu());
}

TEST(Placement, ErrorsNameTheRemedy) {
  const std::string host = "--device.backend host", share = "--device.oversubscribe true";
  EXPECT_TRUE(names(refusal(like("a", 2, 1)), "2 ranks on a", "1 GPU", "-np 1", host, share));
  EXPECT_TRUE(names(refusal(like("a", 3, 2)), "3 ranks on a", "2 GPUs", "-np 2", host, share));
  EXPECT_TRUE(names(refusal(joined(like("a", 2, 2), like("b", 3, 2))), "3 ranks on b", "2 GPUs",
                    "ppr:2:node"));
  // There is a second GPU, but both ranks only see the first one.
  EXPECT_TRUE(names(refusal({rank_on("a", {gpu("a", 0)}), rank_on("a", {gpu("a", 0)}),
                             rank_on("a", {gpu("a", 1), gpu("a", 2)})}),
                    "ranks 0 and 1 on a", "GPU-a0", share));
  EXPECT_TRUE(
      names(refusal(like("a", 1, 0), {.backend = "cuda"}), "on a", "CUDA_VISIBLE_DEVICES", host));
  auto without = like("a", 1, 0);
  without[0].built_with_cuda = false;
  EXPECT_TRUE(names(refusal(without, {.backend = "cuda"}), "built without CUDA", host));
}

TEST(Placement, OneBackendForAll) {
  const auto mixed = joined(like("a", 2, 2), like("b", 1, 0));
  EXPECT_TRUE(
      names(refusal(mixed), "rank 0 on a", "cuda", "rank 2 on b", "host", "--device.backend host"));
  EXPECT_TRUE(names(refusal(mixed, {.backend = "cuda"}), "on b", "CUDA_VISIBLE_DEVICES"));
  EXPECT_EQ(ordinals(place(mixed, {.backend = "host"})), (Ints{-1, -1, -1}));
}

TEST(Placement, AProblemOfOneRankIsAnError) {
  auto ranks = joined(like("a", 2, 2), like("b", 2, 2));
  ranks[3].gpus.clear();
  ranks[3].problem = "cudaErrorInsufficientDriver: too old";
  EXPECT_TRUE(names(refusal(ranks), "of b", "rank 3", "cudaErrorInsufficientDriver: too old",
                    "--device.backend host"));
}

// ---------------------------------------------------------------- warnings

TEST(Placement, GoodPlacementsHaveNoWarnings) {
  for (const auto& ranks : {like("a", 1, 1), like("a", 4, 4), like("a", 2, 0),
                            joined(like("a", 4, 4), like("b", 4, 4))}) {
    const Placement plan = place(ranks, {});
    EXPECT_EQ(plan.warnings, Texts{});
    EXPECT_EQ(plan.notes, Texts{});
  }
}

TEST(Placement, DifferentModelsAreNamed) {
  auto ranks = like("a", 2, 2);
  ranks.push_back(rank_on("b", {gpu("b", 0, a100)}));
  const Placement plan = place(ranks, {});
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_TRUE(names(plan.warnings[0], "1 of NVIDIA A100-SXM4-80GB", "2 of NVIDIA H100"));
  // GPUs that no rank takes do not count.
  auto spare = rank_on("a", {gpu("a", 0), gpu("a", 1, a100)});
  EXPECT_EQ(place(std::vector{spare}, {}).warnings, Texts{});
}

TEST(Placement, HiddenPeersAreWarnedAbout) {
  std::vector<Situation> ranks;
  for (const std::string host : {"a", "b"}) {
    for (int i = 0; i < 4; ++i) ranks.push_back(rank_on(host, {gpu(host, i)}));
  }
  Placement plan = place(ranks, {});
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_TRUE(names(plan.warnings[0], "NVLink"));
  for (auto& rank : ranks) {
    rank.environment = {"CUDA_VISIBLE_DEVICES=0", "SLURM_GPUS_PER_TASK=1", "SLURM_JOB_ID=7"};
  }
  plan = place(ranks, {});
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_TRUE(names(plan.warnings[0], "NVLink", "CUDA_VISIBLE_DEVICES=0", "SLURM_GPUS_PER_TASK=1",
                    "--gpus-per-node=4 --ntasks-per-node=4 --gpu-bind=none"));
  // A single rank with the only GPU of its host hides nothing.
  EXPECT_EQ(place(joined(like("a", 1, 1), like("b", 1, 1)), {}).warnings, Texts{});
}

TEST(Placement, IdleGpusGiveANoteAndUnevenRanksAWarning) {
  Placement plan = place(like("a", 1, 4), {});
  EXPECT_EQ(plan.warnings, Texts{});
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_TRUE(names(plan.notes[0], "3 of 4 GPUs on a", "idle", "4 ranks"));
  plan = place(joined(like("a", 4, 4), like("b", 1, 4)), {});
  EXPECT_EQ(plan.notes, Texts{});
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_TRUE(names(plan.warnings[0], "3 of 4 GPUs on b", "idle", "4 ranks on a"));
}

TEST(Placement, FewOfManyCpusAreTooFew) {
  const auto one_core = [](int core) { return rank_on("a", {}, {core}); };
  const Placement plan = place(std::vector{one_core(0), one_core(1)}, {});
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_TRUE(names(plan.warnings[0], "64 CPUs", "--bind-to none"));
  auto small = one_core(0);
  small.host_cpus = 1;
  EXPECT_EQ(place(std::vector{small}, {}).warnings, Texts{});
}

// ---------------------------------------------------------------- CPUs

struct Sharing {
  const char* what;
  std::vector<Situation> ranks;
  Texts cpus;
  std::vector<unsigned> threads;
};

/// Ranks without GPUs that were all granted `cpus`.
std::vector<Situation> granted(int ranks, Cpus cpus) {
  return std::vector<Situation>(static_cast<std::size_t>(ranks), rank_on("a", {}, std::move(cpus)));
}

/// One rank with GPU 0, changed by `change`.
template <class Change>
std::vector<Situation> one(Cpus cpus, const Change& change) {
  Situation rank = rank_on("a", {gpu("a", 0)}, std::move(cpus));
  change(rank.gpus[0]);
  return {rank};
}

std::vector<Sharing> sharings() {
  const Cpus all = all_cpus();
  const auto as_it_is = [](VisibleGpu&) {};
  auto no_gpu_cpus = like("a", 2, 2);
  no_gpu_cpus[1].gpus[1].cpus.clear();
  no_gpu_cpus[1].gpus[1].numa_node = -1;
  return {
      {"near its GPU", one(all, as_it_is), {"0-15,32-47"}, {32}},
      {"what the launcher gave, near its GPU", one(cpus_of("8-23"), as_it_is), {"8-15"}, {8}},
      {"too few near it", one(cpus_of("14-29"), as_it_is), {"14-29"}, {16}},
      {"few in all, most near it", one(cpus_of("13-16"), as_it_is), {"13-16"}, {4}},
      {"no NUMA node", one(all, [](VisibleGpu& g) { g.numa_node = -1; }), {"0-63"}, {64}},
      {"no CPUs known",
       one(all,
           [](VisibleGpu& g) {
             g.numa_node = 0;
             g.cpus.clear();
           }),
       {"0-63"},
       {64}},
      {"all CPUs seem near",
       one(cpus_of("20-40"), [](VisibleGpu& g) { g.cpus = cpus_of("0-63"); }),
       {"20-40"},
       {21}},
      {"a node without CPUs",
       one(all,
           [](VisibleGpu& g) {
             g = {g.uuid, g.pci, g.name, 4, {}};
           }),
       {"0-63"},
       {64}},
      {"no mask known", one({}, as_it_is), {""}, {64}},
      // Threads of one core stay together, and each half goes to its own GPUs.
      {"four with four GPUs",
       like("a", 4, 4),
       {"0-7,32-39", "8-15,40-47", "16-23,48-55", "24-31,56-63"},
       {16, 16, 16, 16}},
      {"of two with four GPUs, both on the first socket",
       like("a", 2, 4),
       {"0-7,32-39", "8-15,40-47"},
       {16, 16}},
      {"one of two knows nothing: halves of all",
       no_gpu_cpus,
       {"0-15,32-47", "16-31,48-63"},
       {32, 32}},
      {"hosts apart",
       joined(like("a", 2, 2), like("b", 1, 2)),
       {"0-7,32-39", "8-15,40-47", "0-15,32-47"},
       {16, 16, 32}},
      {"each was given its own",
       {rank_on("a", {}, {4, 5}), rank_on("a", {}, {6, 7})},
       {"4-5", "6-7"},
       {2, 2}},
      {"no GPUs", granted(2, all), {"0-15,32-47", "16-31,48-63"}, {32, 32}},
      {"odd counts", granted(3, cpus_of("0-6,9")), {"0-2", "3-5", "6,9"}, {3, 3, 2}},
      {"as many as CPUs", granted(2, cpus_of("3,5")), {"3", "5"}, {1, 1}},
      {"more ranks than CPUs", granted(3, cpus_of("3,5")), {"3,5", "3,5", "3,5"}, {1, 1, 1}},
  };
}

TEST(Placement, CpusNearTheGpuAndApartFromOthers) {
  for (const Sharing& sharing : sharings()) {
    const Placement plan = place(sharing.ranks, {});
    EXPECT_EQ(lists(plan), sharing.cpus) << sharing.what;
    for (std::size_t r = 0; r < sharing.ranks.size(); ++r) {
      EXPECT_EQ(plan.places[r].threads, sharing.threads[r]) << sharing.what;
      const Cpus& given = sharing.ranks[r].cpus;  // and no others
      EXPECT_EQ(common(plan.places[r].cpus, given), plan.places[r].cpus) << sharing.what;
    }
  }
}

TEST(Placement, MemoryIsNearTheGpuIfItsNodeIsKnown) {
  auto ranks = like("a", 4, 4);
  ranks[0].cpus = second_socket;  // the launcher has bound it far from its GPU
  ranks[1].gpus[1].numa_node = -1;
  const auto nodes = [&](const PlacementRequest& request) {
    Cpus found;
    for (const RankPlacement& p : place(ranks, request).places) found.push_back(p.memory_node);
    return found;
  };
  EXPECT_EQ(nodes({}), (Cpus{0, -1, 1, 1}));
  EXPECT_EQ(nodes({.bind = false}), (Cpus{-1, -1, -1, -1}));
  EXPECT_EQ(nodes({.backend = "host"}), (Cpus{-1, -1, -1, -1}));
  auto& everywhere = ranks[2].gpus[2].cpus;  // as in a virtual machine, and on hosts with one node
  everywhere.clear();
  for (int cpu = 0; cpu < 64; ++cpu) everywhere.push_back(cpu);
  EXPECT_EQ(nodes({}), (Cpus{0, -1, -1, 1}));
}

TEST(Placement, BindingCanBeTurnedOff) {
  for (const Sharing& sharing : sharings()) {
    const Placement plan = place(sharing.ranks, {.bind = false});
    for (std::size_t r = 0; r < sharing.ranks.size(); ++r) {
      Cpus given = sharing.ranks[r].cpus;
      std::ranges::sort(given);
      EXPECT_EQ(plan.places[r].cpus, given) << sharing.what;
    }
  }
  EXPECT_EQ(place(like("a", 4, 4), {.bind = false}).places[3].threads, 16U);
}

TEST(Placement, DistantCpusAreKeptWithAWarning) {
  std::vector<Situation> ranks;
  for (int i = 0; i < 4; ++i) ranks.push_back(rank_on("a", gpus_of("a", 4), {16 + i, 48 + i}));
  const Placement plan = place(ranks, {});
  EXPECT_EQ(lists(plan), (Texts{"16,48", "17,49", "18,50", "19,51"}));
  ASSERT_GE(plan.warnings.size(), 1U);
  EXPECT_TRUE(names(plan.warnings[0], "ranks 0-1 far", "rank 0 on a has CPUs 16,48", "0000:10:00.0",
                    "0-15,32-47", "NUMA node 0", "--bind-to none"));
}

// ---------------------------------------------------------------- as text

TEST(Cpus, ListsAreReadAsTheyAreWritten) {
  for (const char* list : {"", "0", "0-7,16-23", "0,64,1,65", "5,3-4"}) {
    EXPECT_EQ(list_of(cpus_of(list)), list);
  }
  EXPECT_EQ(cpus_of("2-4,9\n"), (Ints{2, 3, 4, 9}));
  for (const char* wrong : {"a", "1-", "-1", "1,,2", "1 2"}) EXPECT_THROW(cpus_of(wrong), Error);
}

TEST(Placement, TheFirstGpuCanBeChosen) {
  const auto gpus_taken = [](int ranks, std::size_t first) {
    const Placement plan = place(like("a", ranks, 4), {.first_gpu = first});
    std::vector<int> taken;
    for (const RankPlacement& each : plan.places) taken.push_back(each.gpu);
    return taken;
  };
  EXPECT_EQ(gpus_taken(1, 2), (std::vector{2}));
  EXPECT_EQ(gpus_taken(3, 2), (std::vector{2, 3, 0}));
  EXPECT_EQ(gpus_taken(4, 5), (std::vector{1, 2, 3, 0}));
}

}  // namespace
}  // namespace shardstream::ranks
