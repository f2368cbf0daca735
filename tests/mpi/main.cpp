// The main of MPI tests: every rank runs all tests, rank 0 alone prints their progress. A rank
// whose test failed ends all ranks at once: others may be waiting for it in a collective call.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <memory>

#include "support/session.hpp"

namespace shardstream::test {
namespace {
const ranks::Session* the_session = nullptr;
}
const ranks::Session& session() {
  return *the_session;
}
}  // namespace shardstream::test

namespace {

class AbortOnFailure : public testing::EmptyTestEventListener {
 public:
  explicit AbortOnFailure(int rank) : rank_(rank) {}

 private:
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    const char* file = part.file_name() == nullptr ? "?" : part.file_name();
    std::printf("rank %d: %s:%d: %s\n", rank_, file, part.line_number(), part.summary());
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    std::printf("rank %d: FAILED %s.%s\n", rank_, test.test_suite_name(), test.name());
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  const shardstream::ranks::Session session;
  shardstream::test::the_session = &session;
  testing::InitGoogleTest(&argc, argv);
  if (const auto code = shardstream::test::exit_code_without_hardware()) return *code;

  // The listeners own what is appended to them.
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (session.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(std::make_unique<AbortOnFailure>(session.rank()).release());
  return RUN_ALL_TESTS();
}
