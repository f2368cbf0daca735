// The main of GPU tests: without a usable GPU they are skipped, visibly, or, with
// SHARDSTREAM_REQUIRE_GPU=1 in the environment, fail; they never pass.
#include <gtest/gtest.h>

#include "gpu/need_gpus.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const auto code = shardstream::test::exit_code_without_gpus(1)) return *code;
  return RUN_ALL_TESTS();
}
