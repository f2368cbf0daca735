#include "scale/launch/launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "process/child.hpp"
#include "ranks/cpus.hpp"
#include "ranks/session.hpp"
#include "scale/launch/words.hpp"

namespace shardstream::scale {
namespace {

// Without --immediate, a step that does not fit would wait for ever.
constexpr std::string_view srun =
    "--nodes={nodes} --ntasks={ranks} --ntasks-per-node={per-node} --cpus-per-task={cpus} "
    "--exact --gpu-bind=none --mem=0 --immediate=60 --kill-on-bad-exit=1";

std::uint64_t number_of(const char* name) {
  const char* const text = std::getenv(name);
  // Slurm also writes "4(x2)". strtoull() would turn a negative number into a huge one.
  const bool is_number = text != nullptr && *text >= '0' && *text <= '9';
  const std::uint64_t number = is_number ? std::strtoull(text, nullptr, 10) : 0;
  return number <= INT32_MAX ? number : 0;
}

bool in_slurm_job() {
  return std::getenv("SLURM_JOB_ID") != nullptr && process::find_program("srun").has_value();
}

std::string default_template(const StudyRequest& request) {
  if (in_slurm_job()) {
    const char* const mpi = std::getenv("SLURM_MPI_TYPE");  // srun's own variable
    const std::uint64_t gpus = number_of("SLURM_GPUS_ON_NODE");
    return fmt::format("srun --mpi={} {}{}{}", mpi == nullptr ? "pmix" : mpi, srun,
                       gpus > 0 ? fmt::format(" --gpus-per-node={}", gpus) : "",
                       request.oversubscribe ? " --overcommit" : "");
  }
  // A workload binds each rank to its own CPUs near its GPU. Another program gets a core for each
  // rank, since Open MPI's default depends on their number.
  const bool binds = !request.program.command.empty() && !request.oversubscribe;
  return fmt::format("mpirun -np {{ranks}} --bind-to {}{}{}", binds ? "core" : "none",
                     request.ranks_per_node ? " --map-by ppr:{per-node}:node" : "",
                     request.oversubscribe ? " --oversubscribe" : "");
}

bool is_open_mpi() {
  return ranks::Session::library_version().starts_with("Open MPI");
}

/// The cores of this host if Open MPI's mpirun starts at most one rank on each; 0 if an environment
/// variable gives it another limit.
std::uint64_t limiting_cores() {
  constexpr std::array others = {"OMPI_MCA_rmaps_base_oversubscribe",
                                 "OMPI_MCA_hwloc_base_use_hwthreads_as_cpus",
                                 "OMPI_MCA_orte_default_hostfile",
                                 "PBS_NODEFILE",
                                 "LSB_DJOB_HOSTFILE",
                                 "PE_HOSTFILE"};
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (!is_open_mpi() || std::ranges::any_of(others, is_set)) return 0;
  return static_cast<std::uint64_t>(ranks::granted_cores());
}

/// Throws UsageError as root, since Open MPI's mpirun then needs two environment variables.
void reject_root(const std::string& program) {
  if (geteuid() != 0 || !is_open_mpi()) return;
  const auto name = program.substr(program.rfind('/') + 1);
  if (name != "mpirun" && name != "mpiexec") return;
  constexpr std::array names = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"};
  if (std::ranges::all_of(names, [](const char* each) { return std::getenv(each) != nullptr; })) {
    return;
  }
  throw UsageError(
      fmt::format("Open MPI's {} does not run as root: use another account, or set {}=1 and {}=1",
                  name, names[0], names[1]));
}

}  // namespace

Launcher::Launcher(const StudyRequest& request)
    : template_(request.launcher == "auto" ? default_template(request) : request.launcher),
      is_none_(request.launcher == "none") {
  const std::uint64_t max_ranks = request.max_ranks();
  const std::uint64_t nodes = number_of("SLURM_JOB_NUM_NODES");
  const std::uint64_t tasks = number_of("SLURM_NTASKS_PER_NODE");
  per_node_ = request.ranks_per_node.value_or(
      tasks > 0 ? tasks : ceil_div(max_ranks, std::max<std::uint64_t>(1, nodes)));
  why_per_node_ = request.ranks_per_node   ? "from scale.ranks-per-node"
                  : tasks > 0 || nodes > 0 ? "as in this Slurm job"
                                           : "";
  const std::uint64_t cpus_of_node = number_of("SLURM_CPUS_ON_NODE");
  cpus_ = number_of("SLURM_CPUS_PER_TASK");
  if (cpus_ == 0) cpus_ = std::max<std::uint64_t>(1, cpus_of_node / std::min(per_node_, max_ranks));
  if (std::getenv("SLURM_JOB_ID") != nullptr && !request.oversubscribe && !is_none_) {
    tasks_ = number_of("SLURM_NTASKS");
  }
  if (std::getenv("SLURM_JOB_ID") == nullptr && !request.oversubscribe &&
      request.launcher == "auto") {
    cores_ = limiting_cores();
  }
  if (!is_none_ && words(max_ranks).empty()) {
    throw UsageError("scale.launcher is empty: give a command, for example mpirun -np {ranks}");
  }
}

std::string Launcher::warning(std::uint64_t ranks) const {
  if (const std::string problem = shortage(ranks); !problem.empty()) return problem;
  if (cores_ == 0 || ranks <= cores_) return {};
  return fmt::format(
      "scale.ranks: mpirun does not start {} ranks on this host, which has {}: start the study in "
      "a job, name a host file (--scale.launcher), leave out {}, or for a test pass "
      "--scale.oversubscribe",
      ranks, counted(cores_, "core"), ranks);
}

std::string Launcher::shortage(std::uint64_t ranks) const {
  if (tasks_ == 0 || ranks <= tasks_) return {};
  return fmt::format(
      "scale.ranks: {} ranks do not fit into this Slurm job, which has {}: submit a job with more "
      "tasks (sbatch --nodes, --ntasks-per-node), or leave out {}",
      ranks, counted(tasks_, "task"), ranks);
}

void Launcher::check(std::uint64_t ranks) const {
  if (const std::string problem = shortage(ranks); !problem.empty()) throw UsageError(problem);
  if (is_none_) return;
  const std::string program = words(ranks)[0];
  if (!process::find_program(program)) {
    throw UsageError(fmt::format(
        "scale.launcher: there is no program '{}': load the MPI module, or name another "
        "launcher (--scale.launcher 'COMMAND {{ranks}}')",
        program));
  }
  reject_root(program);
}

std::uint64_t Launcher::ranks_on_node(std::uint64_t ranks) const {
  return std::min(ranks, per_node_);
}

Keys Launcher::keys(std::uint64_t ranks) const {
  const std::uint64_t on_node = ranks_on_node(ranks);
  return {{"ranks", std::to_string(ranks)},
          {"nodes", std::to_string(ceil_div(ranks, on_node))},
          {"per-node", std::to_string(on_node)},
          {"cpus", std::to_string(cpus_)}};
}

std::vector<std::string> Launcher::words(std::uint64_t ranks) const {
  constexpr std::string_view option = "scale.launcher";
  if (is_none_) return {};
  std::vector<std::string> words = command_words(option, template_);
  for (std::string& word : words) word = filled(option, word, keys(ranks));
  return words;
}

void reject_many_copies() {
  const auto launched = ranks::launched();
  if (!launched || launched->ranks <= 1) return;
  throw UsageError(
      fmt::format("scale starts the ranks of each run itself, but a launcher has started it {} "
                  "times ({}): start it once, without mpirun or srun",
                  launched->ranks, launched->variable));
}

std::vector<std::string> environment_of_runs(const char* const* environment) {
  std::vector<std::string> kept = ranks::environment_without_launcher(environment);
  std::erase_if(kept, [](const std::string& entry) {
    return entry.starts_with("SLURM_RESTART_COUNT") || entry.starts_with("SHARDSTREAM_");
  });
  return kept;
}

}  // namespace shardstream::scale
