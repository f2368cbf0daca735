// What comm.transport comes to.
#include "comm/transport.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace shardstream::comm {
namespace {

constexpr Circumstances four_gpus{
    .on_gpus = true, .shared_gpus = false, .has_nccl = true, .ranks = 4};

std::string complaint(const Circumstances& here) {
  try {
    choose_transport("nccl", here);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
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

TEST(Transport, WhatIsAskedForIsTaken) {
  EXPECT_EQ(choose_transport("mpi", four_gpus), Transport::mpi);
  EXPECT_EQ(choose_transport("nccl", four_gpus), Transport::nccl);
  Circumstances one = four_gpus;
  one.ranks = 1;
  EXPECT_EQ(choose_transport("nccl", one), Transport::nccl);
}

TEST(Transport, NcclThatCannotBeIsRefusedWithTheRemedy) {
  Circumstances host = four_gpus, shared = four_gpus, without = four_gpus;
  host.on_gpus = false;
  shared.shared_gpus = true;
  without.has_nccl = false;
  EXPECT_NE(complaint(host).find("--comm.transport auto"), std::string::npos);
  EXPECT_NE(complaint(shared).find("--comm.transport mpi"), std::string::npos);
  EXPECT_NE(complaint(without).find("without NCCL"), std::string::npos);
}

}  // namespace
}  // namespace shardstream::comm
