// The choice of the transport by comm.transport.
#include "comm/transport.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "support/errors.hpp"

namespace shardstream::comm {
namespace {

using test::error_of;
using test::names;

constexpr Circumstances four_gpus{
    .on_gpus = true, .shared_gpus = false, .has_nccl = true, .ranks = 4};

std::string refusal(const Circumstances& here) {
  return error_of([&] { choose_transport("nccl", here); });
}

TEST(Transport, AutoIsNcclBetweenGpusAndMpiElsewhere) {
  EXPECT_EQ(choose_transport("auto", four_gpus), Transport::nccl);
  Circumstances one = four_gpus, host = four_gpus, shared = four_gpus, without = four_gpus;
  one.ranks = 1;
  host.on_gpus = false;
  shared.shared_gpus = true;
  without.has_nccl = false;
  for (const auto& here : {one, host, shared, without}) {
    EXPECT_EQ(choose_transport("auto", here), Transport::mpi);
  }
}

TEST(Transport, UsesTheRequestedTransport) {
  EXPECT_EQ(choose_transport("mpi", four_gpus), Transport::mpi);
  EXPECT_EQ(choose_transport("nccl", four_gpus), Transport::nccl);
  Circumstances one = four_gpus;
  one.ranks = 1;
  EXPECT_EQ(choose_transport("nccl", one), Transport::nccl);
}

TEST(Transport, ImpossibleNcclNamesTheRemedy) {
  Circumstances host = four_gpus, shared = four_gpus, without = four_gpus;
  host.on_gpus = false;
  shared.shared_gpus = true;
  without.has_nccl = false;
  EXPECT_TRUE(names(refusal(host), "--comm.transport auto"));
  EXPECT_TRUE(names(refusal(shared), "--comm.transport mpi"));
  EXPECT_TRUE(names(refusal(without), "without NCCL"));
}

}  // namespace
}  // namespace shardstream::comm
