// The random signs of Freivalds' check.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "kernels/gemm/check.hpp"

namespace shardstream::gemm {
namespace {

TEST(Signs, AreBalancedAndUnrelated) {
  constexpr int count = 1 << 20;
  for (const std::uint64_t one : {0, 1, 77}) {
    int sum = 0, neighbours = 0, seeds = 0, words = 0;
    for (std::uint64_t c = 0; c < count; ++c) {
      ASSERT_EQ(std::abs(sign_of(one, c)), 1);
      sum += sign_of(one, c);
      neighbours += sign_of(one, c) * sign_of(one, c + 1);
      words += sign_of(one, c) * sign_of(one, c + 64);
      seeds += sign_of(one, c) * sign_of(one + 1, c);
    }
    for (const int total : {sum, neighbours, words, seeds}) EXPECT_LT(std::abs(total), 5 << 10);
  }
}

}  // namespace
}  // namespace shardstream::gemm
