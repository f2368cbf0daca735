// The proof that every wait of the pipeline is needed and that a missing one would be seen: this
// program runs itself once without a fault, which must be clean, and once for each wait that was
// met then, left out, where ThreadSanitizer must stop it. Without ThreadSanitizer it is skipped.
//
//   dropped_waits                        the proof
//   dropped_waits MODE WAITER NUMBER SLOW   one run, with that fault
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "contract/faulty_device.hpp"
#include "contract/pipeline_inputs.hpp"
#include "pipeline/feed.hpp"

namespace {

using namespace shardstream;
using test::Fault;
using test::FaultyDevice;
using test::Waiter;

#ifdef __SANITIZE_THREAD__
constexpr bool sees_races = true;
#else
constexpr bool sees_races = false;
#endif

// How a run ends; the last is ThreadSanitizer's.
constexpr int right = 0, wrong_sums = 1, race_found = 66;

struct SumArgs {
  const std::int64_t* values;
  std::uint64_t count;
  std::int64_t* sum;
};
void sum_values(const SumArgs& args, unsigned part, unsigned) {
  if (part != 0) return;
  *args.sum = 0;
  for (std::uint64_t i = 0; i < args.count; ++i) *args.sum += args.values[i];
}
constexpr Kernel<SumArgs> sum_kernel{"sum", sum_values, nullptr};

/// Two passes over a small shard, the second close behind the first; the batches' sums come back to
/// the host at the end. True if they are right.
bool passes_twice(device::Device& device, const pipeline::Sizes& sizes, test::Plan& plan) {
  constexpr std::uint64_t count = 4096 * 14 + 100;
  constexpr std::uint64_t rounds = 2;
  const test::RampSource source(count);
  measure::Recorder recorder;
  pipeline::Feed feed(device, recorder, source, {0, count}, sizes);
  const auto keep = [](Range, const std::byte*) {};
  feed.load(keep);
  const device::Buffer<std::int64_t> sums(device, device::Memory::device, rounds * feed.batches());
  const device::Buffer<std::int64_t> seen(device, device::Memory::pinned, sums.size());
  plan.arm(true);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    feed.run(
        [&](device::Stream& compute, const pipeline::Batch& batch) {
          compute.launch(sum_kernel,
                         {reinterpret_cast<const std::int64_t*>(batch.data), batch.elements.count,
                          sums.data() + round * feed.batches() + batch.number});
        },
        keep);
  }
  feed.compute().download(seen.data(), sums.data(), sums.bytes());
  feed.compute().synchronize();
  std::int64_t total = 0, wanted = 0;
  for (std::uint64_t i = 0; i < seen.size(); ++i) total += seen[i];
  plan.arm(false);
  for (std::uint64_t i = 0; i < count; ++i) wanted += test::RampSource::value(i);
  return total == static_cast<std::int64_t>(rounds) * wanted;
}

pipeline::Sizes sizes_of(pipeline::Mode mode) {
  return {.mode = mode,
          .slot = 4096,
          .slots = 3,
          .batch = 4 * 4096,
          .batches = mode == pipeline::Mode::resident ? 4U : 2U,
          .readers = 2};
}

/// One run; says which waits it met, one a line.
int run_once(pipeline::Mode mode, Fault fault) {
  FaultyDevice device(fault);
  const bool sums_are_right = passes_twice(device, sizes_of(mode), device.plan());
  for (const auto& met : device.plan().met()) {
    fmt::print("{} {} {}\n", static_cast<int>(met.waiter), met.number, met.signaller);
  }
  return sums_are_right ? right : wrong_sums;
}

struct Outcome {
  int code;
  std::string output;
};

Outcome run_child(const std::string& program, int mode, Fault fault) {
  const std::string command = fmt::format("'{}' {} {} {} {} 2>/dev/null", program, mode,
                                          static_cast<int>(fault.waiter), fault.number, fault.slow);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, ""};
  std::string output;
  for (char part[256]; fgets(part, sizeof(part), pipe) != nullptr;) output += part;
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

/// True if leaving the wait out shows in one of a few tries. `last` is how the last one ended.
bool shows(const std::string& program, int mode, Fault fault, int& last) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    last = run_child(program, mode, fault).code;
    if (last == race_found || last == wrong_sums) return true;
    if (last != right) return false;  // it neither ran nor raced: not what is looked for
  }
  return false;
}

/// The modes with a schedule of their own: write-combined has that of pinned, mapped has no waits.
struct Proven {
  pipeline::Mode mode;
  const char* name;
};
constexpr std::array proven = {
    Proven{pipeline::Mode::stream, "stream"}, Proven{pipeline::Mode::pageable, "pageable"},
    Proven{pipeline::Mode::pinned, "pinned"}, Proven{pipeline::Mode::resident, "resident"}};

/// Every wait of one mode, left out in turn; the number of those that nobody noticed.
int prove(const std::string& program, const Proven& what) {
  const int mode = static_cast<int>(what.mode);
  const Outcome clean = run_child(program, mode, {});
  if (clean.code != right) {
    fmt::print("{}: the run without a fault ended with {}\n", what.name, clean.code);
    return 1;
  }
  int met = 0, unseen = 0;
  for (std::size_t line = 0; line < clean.output.size(); line = clean.output.find('\n', line) + 1) {
    int waiter = 0, number = 0, signaller = 0;
    if (std::sscanf(clean.output.c_str() + line, "%d %d %d", &waiter, &number, &signaller) != 3) {
      break;
    }
    ++met;
    int code = 0;
    if (shows(program, mode, {static_cast<Waiter>(waiter), number, signaller}, code)) continue;
    ++unseen;
    fmt::print("{}: wait {} of waiter {} for stream {} was left out, and the run ended with {}\n",
               what.name, number, waiter, signaller, code);
  }
  fmt::print("{}: {} of {} left-out waits were seen\n", what.name, met - unseen, met);
  return unseen + (met == 0 ? 1 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (!sees_races) {
    fmt::print("SKIP: only ThreadSanitizer sees a missing wait (preset tsan)\n");
    return 77;
  }
  if (argc == 5) {
    return run_once(
        static_cast<pipeline::Mode>(std::atoi(argv[1])),
        {static_cast<Waiter>(std::atoi(argv[2])), std::atoi(argv[3]), std::atoi(argv[4])});
  }
  int failures = 0;
  for (const Proven& what : proven) failures += prove(argv[0], what);
  return failures == 0 ? 0 : 1;
}
