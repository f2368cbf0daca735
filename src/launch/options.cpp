#include "launch/options.hpp"

#include <fmt/format.h>

#include <array>

namespace shardstream::launch {
namespace {

constexpr std::array rows = {
    OptionRow{"launch.expect-ranks", OptionKind::count, "auto", "auto|1..",
              "The job script's number of ranks; another number is refused."},
    OptionRow{"launch.bind", OptionKind::choice, "auto", "auto|none",
              "auto binds each rank to CPUs near its GPU and apart from those of other ranks, "
              "never beyond the launcher's; none leaves it on all of the launcher's."},
    OptionRow{"launch.cpus-per-rank", OptionKind::count, "auto", "auto|1..65536",
              "The most CPUs that a rank takes; auto takes its share of all. A scaling study gives "
              "ranks the same at every size."},
};

}  // namespace

std::span<const OptionRow> launch_options() {
  return rows;
}

void check_expected_ranks(const Session& session, const Options& options) {
  if (options.is_auto("launch.expect-ranks")) return;
  const std::uint64_t expected = options.count("launch.expect-ranks");
  if (expected == static_cast<std::uint64_t>(session.size())) return;
  const std::string mpi = Session::library_version();  // "Open MPI v4.1.4, package: ..."
  throw UsageError(fmt::format(
      "--launch.expect-ranks is {}, but MPI sees {} rank{}: start that many, with the mpirun of "
      "this program's MPI ({}) or with srun --mpi=pmix (another launcher makes each process a "
      "world of its own)",
      expected, session.size(), session.size() == 1 ? "" : "s", mpi.substr(0, mpi.find(','))));
}

bool may_bind(const Options& options) {
  return options.text("launch.bind") != "none";
}

}  // namespace shardstream::launch
