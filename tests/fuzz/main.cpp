// Passes damaged inputs to the program's readers, and fails unless each of them succeeds or ends
// with one sentence.
//
//   fuzz_tests [--seconds N] [--seed S] [--target NAME] [--case N] [--keep FOLDER]
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "fuzz/driver.hpp"
#include "support/temporary_folder.hpp"

// A report has a separate exit code. Large allocations fail, as on a machine with less memory.
extern "C" const char* __asan_default_options();
extern "C" const char* __ubsan_default_options();
extern "C" const char* __asan_default_options() {
  return "exitcode=99:detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024";
}
extern "C" const char* __ubsan_default_options() {
  return "exitcode=99:print_stacktrace=1";
}

namespace {

namespace fs = std::filesystem;
using namespace shardstream::fuzz;

#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t default_seconds = 40;
#else
constexpr std::uint64_t default_seconds = 10;  // crashes and wrong errors are found quickly
#endif

struct Arguments {
  std::uint64_t seconds = default_seconds, seed = 1;
  std::optional<std::uint64_t> number;
  std::string target;
  fs::path keep = "fuzz-findings";
};

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument(fmt::format("'{}' is no whole number", text));
  }
  return number;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(fmt::format("{} needs a value", name));
    const std::string_view value = argv[i + 1];
    if (name == "--seconds") {
      arguments.seconds = number_of(value);
    } else if (name == "--seed") {
      arguments.seed = number_of(value);
    } else if (name == "--case") {
      arguments.number = number_of(value);
    } else if (name == "--target") {
      arguments.target = value;
    } else if (name == "--keep") {
      arguments.keep = value;
    } else {
      throw std::invalid_argument(
          fmt::format("{} is unknown: --seconds, --seed, --target, --case, --keep", name));
    }
  }
  return arguments;
}

std::vector<std::unique_ptr<Target>> targets_in(const fs::path& folder) {
  const auto own = [&](const char* name) {
    fs::create_directory(folder / name);
    return folder / name;
  };
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(ini_target());
  targets.push_back(units_target());
  targets.push_back(selections_target());
  targets.push_back(journals_target(own("journals")));
  targets.push_back(rates_target(own("rates")));
  targets.push_back(studies_target(own("studies")));
  targets.push_back(hdf5_target(own("hdf5")));
  return targets;
}

/// The share of the time for a target: texts have the fewest states, HDF5 the most.
unsigned weight_of(std::string_view target) {
  return target == "hdf5" ? 4 : target == "rates" || target == "studies" ? 2 : 1;
}

void print(std::string_view target, const Report& report) {
  fmt::print("{}: {} cases, {:.0f} cases/s", target, report.cases,
             static_cast<double>(report.cases) / report.seconds);
  for (const auto& [outcome, count] : report.outcomes) {
    if (count > 0) fmt::print("; {}: {}", outcome, count);
  }
  fmt::print("\n");
  for (const auto& [kind, count] : report.findings) fmt::print("  {} times {}\n", count, kind);
  std::fflush(stdout);
}

int fuzz(const Arguments& arguments) {
  const shardstream::test::TemporaryFolder folder;
  const auto all = targets_in(folder.path());
  unsigned weights = 0;
  for (const auto& target : all) {
    if (arguments.target.empty() || arguments.target == target->name()) {
      weights += weight_of(target->name());
    }
  }
  if (weights == 0) throw std::invalid_argument("there is no target " + arguments.target);
  int code = 0;
  for (const auto& target : all) {
    if (!arguments.target.empty() && arguments.target != target->name()) continue;
    const fs::path work = folder.path() / "work" / target->name();
    fs::create_directories(work);
    const Report report =
        run_cases(*target, {.seed = arguments.seed,
                            .first = arguments.number.value_or(0),
                            .last = arguments.number,
                            .time = std::chrono::milliseconds(1000 * arguments.seconds *
                                                              weight_of(target->name()) / weights),
                            .work = work,
                            .findings = fs::absolute(arguments.keep)});
    print(target->name(), report);
    if (!report.findings.empty()) code = 1;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return fuzz(parse(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "fuzz_tests: {}\n", error.what());
    return 1;
  }
}
