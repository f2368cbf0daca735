// Arithmetic of the experiments on the machine: sizes, bandwidth and data of collectives, the
// advice on busy links, and expressions that are compiled at run time.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "experiments/bench.hpp"
#include "experiments/machine/advice.hpp"
#include "experiments/machine/cache_folder.hpp"
#include "experiments/machine/expression.hpp"
#include "experiments/machine/messages.hpp"
#include "experiments/machine/nccl_features.hpp"
#include "experiments/machine/nvrtc.hpp"
#include "experiments/machine/values.hpp"

namespace shardstream::experiments::machine {
namespace {

TEST(NcclFeatures, NeedTheirVersionInTheHeaderAndInTheLibrary) {
  for (const auto& [feature, needed, text] :
       {std::tuple{NcclFeature::registration, 21900, "2.19.0"},
        {NcclFeature::windows, 22700, "2.27.0"},
        {NcclFeature::device_code, 22800, "2.28.0"}}) {
    EXPECT_EQ(why_without(feature, needed, needed), "");
    const std::string old_header = why_without(feature, needed - 1, needed);
    EXPECT_NE(old_header.find(text), old_header.npos) << old_header;
    EXPECT_NE(old_header.find("built with"), old_header.npos) << old_header;
    const std::string old_library = why_without(feature, needed, 21805);
    EXPECT_NE(old_library.find(text), old_library.npos) << old_library;
    EXPECT_NE(old_library.find("the library is 2.18.5"), old_library.npos) << old_library;
  }
}

TEST(NcclFeatures, NeedTheSameVersionForDeviceCodeAlone) {
  EXPECT_EQ(why_without(NcclFeature::windows, 22809, 22902), "");
  const std::string why = why_without(NcclFeature::device_code, 22809, 22902);
  EXPECT_NE(why.find("2.28.9"), why.npos) << why;
  EXPECT_NE(why.find("2.29.2"), why.npos) << why;
}

TEST(Messages, HaveTheirBytesOrAtLeastOneFloatForEachPart) {
  EXPECT_EQ(message_of(Collective::all_reduce, 4, 8).count, 1U);
  EXPECT_EQ(message_of(Collective::broadcast, 0, 8).count, 1U);
  EXPECT_EQ(message_of(Collective::all_gather, 4, 8).count, 8U);
  EXPECT_EQ(message_of(Collective::reduce_scatter, 1 << 20, 2).bytes(), 1U << 20);
  for (const std::uint64_t ranks : {2U, 3U, 7U}) {
    for (const std::uint64_t bytes :
         {std::uint64_t{4}, std::uint64_t{1000}, std::uint64_t{1} << 30}) {
      const Message message = message_of(Collective::reduce_scatter, bytes, ranks);
      EXPECT_EQ(message.part() * ranks, message.count);
      EXPECT_LE(message.count, std::max(bytes / 4, ranks));
      EXPECT_TRUE(message.part() < 4 || message.part() % 4 == 0) << message.part();
      EXPECT_EQ(message.received(), message.part());
    }
  }
}

/// The factors of nccl-tests, doc/PERFORMANCE.md.
TEST(Messages, HaveTheBusBandwidthOfNcclTests) {
  EXPECT_EQ(bus_factor(Collective::all_reduce, 2), 1);
  EXPECT_EQ(bus_factor(Collective::all_reduce, 8), 1.75);
  EXPECT_EQ(bus_factor(Collective::reduce_scatter, 8), 0.875);
  EXPECT_EQ(bus_factor(Collective::all_gather, 4), 0.75);
  EXPECT_EQ(bus_factor(Collective::broadcast, 8), 1);
}

TEST(Messages, HaveDataOfSmallIntegersThatDifferBetweenRanksAndPlaces) {
  int equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const float value = sent_by(1, i);
    EXPECT_TRUE(value >= 0 && value < 4096 && value == std::floor(value)) << value;
    equal += value == sent_by(2, i) || value == sent_by(1, i + 4096) ? 1 : 0;
  }
  EXPECT_LT(equal, 10);
}

TEST(Messages, AreReceivedAsTheirCollectiveSays) {
  const Message reduced = message_of(Collective::all_reduce, 400, 3);
  EXPECT_EQ(received_by(1, 7, reduced), sent_by(0, 7) + sent_by(1, 7) + sent_by(2, 7));
  const Message scattered = message_of(Collective::reduce_scatter, 480, 3);
  EXPECT_EQ(received_by(2, 7, scattered), received_by(0, 2 * 40 + 7, reduced));
  const Message gathered = message_of(Collective::all_gather, 480, 3);
  EXPECT_EQ(received_by(0, 45, gathered), sent_by(1, 5));
  EXPECT_EQ(received_by(2, 5, message_of(Collective::broadcast, 480, 3)), sent_by(0, 5));
}

/// Whether the advice on these links has all words.
void expect_advice(const std::vector<BusyLinks>& links, const std::vector<std::string>& words) {
  const std::string advice = advice_on("uploads", links);
  for (const std::string& word : words) {
    EXPECT_NE(advice.find(word), std::string::npos) << word << ": " << advice;
  }
}

TEST(Advice, FollowsFromTheRatesOfBusyLinks) {
  // Each rank has a link of its own.
  expect_advice({{1, 50, 1, 1}, {2, 99, 0.98, 1}}, {"uploads of 2 ranks", "use all"});
  // Neighbours share a switch: the total grows with every second rank.
  expect_advice({{1, 25, 1, 1}, {2, 26, 0.5, 0.5}, {3, 50, 0.5, 1}, {4, 51, 0.5, 0.5}},
                {"from 2 ranks", "0.50", "more than 3 ranks"});
  // The rest of the ranks keep their rate.
  expect_advice({{1, 25, 1, 1}, {2, 50, 1, 1}, {3, 51, 0.5, 1}}, {"from 3 ranks", "PCIe switch"});
  // The memory of the host serves two ranks.
  expect_advice({{1, 50, 1, 1}, {2, 90, 0.9, 0.9}, {3, 92, 0.6, 0.6}, {4, 91, 0.45, 0.46}},
                {"from 3 ranks", "memory of the host", "more than 2 ranks"});
  // All ranks lose a little.
  expect_advice({{1, 50, 1, 1}, {2, 80, 0.8, 0.8}}, {"from 2 ranks", "still grows"});
}

TEST(Expressions, AreOneLineOfPrintableCharacters) {
  for (const char* const wrong : {"", "  ", "x\n+1", "x\t", "\xc3\xa9"}) {
    EXPECT_THROW(check_expression(wrong), UsageError) << wrong;
  }
  EXPECT_THROW(check_expression(std::string(4097, 'x')), UsageError);
  EXPECT_NO_THROW(check_expression(std::string(4096, 'x')));
  EXPECT_NO_THROW(check_expression("sqrt(x*x+1) - 0.5f"));
}

/// Logs of NVRTC 13.0.
TEST(Expressions, HaveTheColumnOfTheFirstError) {
  const Complaint inside = first_complaint(
      "expression(1): error: identifier \"y\" is undefined\n  sqrt(x*x+y)\n           ^\n\n"
      "1 error detected in the compilation of \"kernel.cu\".\n",
      "sqrt(x*x+y)");
  EXPECT_EQ(inside.column, 10U);
  EXPECT_EQ(inside.text, "identifier \"y\" is undefined");
  EXPECT_NE(sentence_on(inside, "sqrt(x*x+y)").find("column 10: identifier"), std::string::npos);
  // The compiler finds it in the line after the expression.
  const Complaint after =
      first_complaint("expression(2): error: expected a \")\"\n  );\n   ^\n\n1 error", "x*(x");
  EXPECT_EQ(after.column, 5U);
  EXPECT_EQ(sentence_on(after, "x*(x").find("column"), std::string::npos);
  const Complaint indented = first_complaint(
      "expression(1): warning #174-D: expression has no effect\n    x,,\n    ^\n\n"
      "expression(1): error: expected an expression\n    x,,\n        ^\n",
      "  x,,");
  EXPECT_EQ(indented.column, 7U);
  const Complaint with_notes = first_complaint(
      "expression(1): error: no instance of overloaded function \"pow\" matches the argument list\n"
      "            argument types are: (float)\n  1+pow(x)\n    ^\nNote #3322-D: number of\n",
      "1+pow(x)");
  EXPECT_EQ(with_notes.column, 3U);
}

TEST(Expressions, HaveNoColumnIfTheErrorConcernsAllOfThem) {
  const Complaint whole = first_complaint(
      "kernel.cu(2): error: invalid type conversion\n    return static_cast<float>(\n           "
      "^\n",
      "\"abc\"");
  EXPECT_EQ(whole.column, 0U);
  EXPECT_EQ(whole.text, "invalid type conversion");
  EXPECT_EQ(first_complaint("", "x").column, 0U);
  EXPECT_FALSE(first_complaint("", "x").text.empty());
}

TEST(Expressions, AreKnownWithoutRegardToBlanks) {
  ASSERT_NE(find_known(" sqrt( x*x + 1 )"), nullptr);
  EXPECT_EQ(find_known("sqrt(x*x+1)")->exact(0), 1);
  EXPECT_EQ(find_known("sqrt(x*x+2)"), nullptr);
  for (const char* const each : {"x*x", "sin(x)", "cos(x)", "exp(x)", "tanh(x)"}) {
    EXPECT_NE(find_known(each), nullptr) << each;
  }
}

/// The host computes as the kernel does: each operation rounds to single precision.
TEST(Expressions, HaveErrorsWithinTheirBounds) {
  const std::vector<float> x = elements(1 << 16);
  std::vector<float> squares, roots;
  for (const float each : x) {
    EXPECT_TRUE(each >= -4 && each < 4);
    squares.push_back(each * each);
    roots.push_back(std::sqrt(each * each + 1));
  }
  const KnownFunction &square = *find_known("x*x"), &root = *find_known(default_expression);
  EXPECT_LE(largest_error(x, squares, square), square.max_error);
  EXPECT_LE(largest_error(x, roots, root), root.max_error);
  squares[77] = std::nextafter(std::nextafter(squares[77], 9.0F), 9.0F);
  EXPECT_GT(largest_error(x, squares, square), square.max_error);
  EXPECT_NE(hash_of(roots), hash_of(squares));
  roots[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(largest_error(x, roots, root), std::numeric_limits<double>::infinity());
}

TEST(Targets, AreTheNewestThatTheGpuRuns) {
  const std::vector<int> known = {75, 80, 86, 90, 100, 103};
  const auto cubin = [&](int capability) { return targets_for(known, capability).cubin; };
  EXPECT_EQ(targets_for(known, 90).ptx, 90);
  EXPECT_EQ(cubin(90), 90);
  EXPECT_EQ(cubin(89), 86);
  EXPECT_EQ(cubin(103), 103);
  EXPECT_EQ(targets_for(known, 121).ptx, 103);
  EXPECT_EQ(cubin(121), std::nullopt);  // machine code runs on its own generation alone
  EXPECT_THROW((void)targets_for(known, 70), NotAvailable);
}

TEST(CacheFolder, IsPrivateAndRemovedWithItsContents) {
  ranks::Heartbeat heartbeat;
  std::filesystem::path path;
  {
    const CacheFolder folder(heartbeat);
    path = folder.path();
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
    std::filesystem::create_directories(path / "a/b");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(CacheFolder, IsRemovedIfItsProcessIsKilled) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t process = fork();
  if (process == 0) {
    ranks::Heartbeat heartbeat;
    const CacheFolder folder(heartbeat);
    const std::string path = folder.path().string();
    (void)!write(ends[1], path.data(), path.size());
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  std::string path(4096, '\0');
  const ssize_t bytes = read(ends[0], path.data(), path.size());
  close(ends[0]);
  close(ends[1]);
  ASSERT_GT(bytes, 0);
  path.resize(static_cast<std::size_t>(bytes));
  for (int i = 0; i < 1000 && std::filesystem::exists(path); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << path;
}

}  // namespace
}  // namespace shardstream::experiments::machine
