#include "ranks/session.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/failure.hpp"
#include "core/log.hpp"

extern char** environ;

namespace shardstream::ranks {
namespace {

constexpr std::array rows = {
    OptionRow{"launch.expect-ranks", OptionKind::count, "auto", "auto|1..",
              "The number of ranks that the job script expects; the run stops at once if the "
              "launcher starts another number."},
    OptionRow{"launch.bind", OptionKind::choice, "auto", "auto|none",
              "auto binds each rank to its own CPUs near its GPU, among the CPUs that the launcher "
              "allows; none leaves each rank on all of these."},
    OptionRow{"launch.cpus-per-rank", OptionKind::count, "auto", "auto|1..65536",
              "The maximum number of CPUs of a rank; auto is an equal share of the host's CPUs. "
              "scale sets the same number at every size."},
};

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// The cells one after another: 8 bytes for a number; for a text its size in 8 bytes, then the
/// text.
std::string packed(const Table& table) {
  std::string bytes;
  for (const Row& row : table.rows()) {
    for (const Cell& cell : row.cells()) {
      if (const auto* const text = std::get_if<std::string>(&cell)) {
        append(bytes, text->size());
        bytes += *text;
      } else {
        std::visit([&](const auto& number) { append(bytes, number); }, cell);
      }
    }
  }
  return bytes;
}

template <class T>
T taken(std::string_view& bytes) {
  static_assert(std::is_arithmetic_v<T>);
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

Cell take_cell(std::string_view& bytes, ColumnType type) {
  if (type == ColumnType::integer) return taken<std::int64_t>(bytes);
  if (type == ColumnType::real) return taken<double>(bytes);
  const auto size = taken<std::size_t>(bytes);
  std::string text(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return text;
}

/// Whether this host has a network that MPI needs a driver library for.
bool has_fast_network() {
  std::error_code none;
  for (const char* folder : {"/sys/class/infiniband", "/sys/class/cxi"}) {
    if (std::filesystem::directory_iterator(folder, none) != std::filesystem::directory_iterator())
      return true;
  }
  return false;
}

/// Whether the user has chosen how Open MPI sends messages.
bool has_chosen_transport() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (variable.starts_with("OMPI_MCA_pml") || variable.starts_with("OMPI_MCA_mtl")) return true;
  }
  return false;
}

/// Open MPI loads the driver libraries of all networks that it knows, to find out which of them
/// there are. Those for Omni-Path measure the processor's clock meanwhile, for 0.1 s each. If all
/// ranks are on this host, and it has no such network, then Open MPI selects "ob1" in the end. This
/// function requests "ob1" at once, unless the user has requested another one. Other MPIs ignore
/// it.
void spare_network_drivers() {
  const auto started = launched();
  const bool one_host = started ? started->ranks == started->ranks_on_host : !under_launcher();
  if (!one_host || has_fast_network() || has_chosen_transport()) return;
  setenv("OMPI_MCA_pml", "ob1", 0);  // no other thread runs yet
}

/// A process that no launcher has started would make Open MPI start a daemon, for processes that it
/// may start later, which takes 0.2 s. This program starts none through MPI. Without the daemon,
/// all such processes would share a folder, so they get none. Other MPIs ignore it.
class SparedDaemon {
 public:
  SparedDaemon() {
    if (under_launcher()) return;
    for (const auto& [name, value] : variables) {
      if (std::getenv(name) != nullptr) continue;
      if (setenv(name, value, 0) == 0) set_.push_back(name);  // no other thread runs yet
    }
  }
  /// The launchers of helper processes must not see the variables.
  ~SparedDaemon() {
    for (const char* const name : set_) unsetenv(name);
  }
  SparedDaemon(const SparedDaemon&) = delete;
  SparedDaemon& operator=(const SparedDaemon&) = delete;

 private:
  static constexpr std::array<std::pair<const char*, const char*>, 2> variables{
      {{"OMPI_MCA_ess_singleton_isolated", "1"}, {"OMPI_MCA_orte_create_session_dirs", "0"}}};
  std::vector<const char*> set_;
};

}  // namespace

void check_mpi(int status, const char* call, std::source_location where) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw Error(fmt::format("{} failed ({})", call, text.data()), where);
}

bool under_launcher() {
  // Open MPI, MPICH and its derivatives, PMIx, Slurm's srun. SLURM_PROCID does not suffice, since
  // Slurm sets it in every job.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
                           "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS", "PALS_RANKID"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

std::optional<std::uint64_t> launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PALS_RANKID"}) {
    if (const char* const rank = std::getenv(name)) return std::strtoull(rank, nullptr, 10);
  }
  const char* const task = std::getenv("SLURM_PROCID");
  if (std::getenv("SLURM_STEP_NUM_TASKS") == nullptr || task == nullptr) return std::nullopt;
  return std::strtoull(task, nullptr, 10);
}

std::optional<Launched> launched() {
  // Slurm writes the tasks of its nodes as "4(x2),3"; the first number is used.
  const auto number = [](const char* name) -> std::uint64_t {
    const char* const text = std::getenv(name);
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  };
  for (const auto& [all, on_host] :
       {std::pair("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        {"PMI_SIZE", "MPI_LOCALNRANKS"},
        {"SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"}}) {
    const std::uint64_t ranks = number(all), here = number(on_host);
    if (ranks > 0) return Launched{ranks, here > 0 ? here : ranks, all};
  }
  return std::nullopt;
}

std::vector<std::string> environment_without_launcher(const char* const* environment) {
  constexpr std::array prefixes = {"OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_ess",
                                   "OMPI_MCA_orte_",   "OMPI_MCA_pmix",      "PMI",
                                   "SLURM_STEP",       "SLURM_PROCID",       "SLURM_LOCALID",
                                   "SLURM_NODEID",     "SLURM_GTIDS",        "SLURM_LAUNCH_",
                                   "SLURM_SRUN_COMM_", "SLURM_TASK_PID",     "SLURM_CPU_BIND",
                                   "SLURM_MEM_"};
  std::vector<std::string> kept;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const bool is_left_out =
        std::ranges::any_of(prefixes, [&](const char* each) { return entry.starts_with(each); });
    if (!is_left_out) kept.emplace_back(entry);
  }
  return kept;
}

Session::Session(std::string_view memory_remedy) : memory_remedy_(memory_remedy) {
  spare_network_drivers();
  const SparedDaemon no_daemon;
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED) {
    throw UsageError(
        "this MPI does not support threads (MPI_THREAD_FUNNELED): use another MPI library");
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  reject_silent_singleton();
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(node, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &local_size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  host_.assign(name.data(), static_cast<std::size_t>(length));
  ready_ = std::chrono::steady_clock::now();
}

/// With the wrong PMI, each of N processes would be an MPI world of its own.
void Session::reject_silent_singleton() const {
  if (size_ > 1) return;
  const auto started = launched();
  if (!started || started->ranks <= 1) return;
  MPI_Finalize();
  throw UsageError(
      fmt::format("{} processes were started ({}), but MPI sees one: use the mpirun of this "
                  "program's MPI, or srun --mpi=pmix",
                  started->ranks, started->variable));
}

Session::~Session() {
  if (MPI_Finalize() != MPI_SUCCESS) warn_plainly("MPI_Finalize failed");
}

void Session::collectively(const std::function<void()>& step) const {
  constexpr int none = std::numeric_limits<int>::max();
  int first = none, code = static_cast<int>(ExitCode::failed);
  std::string message;
  try {
    step();
  } catch (const std::exception& e) {
    first = rank_;
    message = message_of(e, memory_remedy_);
    code = static_cast<int>(code_of(e));
  }
  const auto waiting = heartbeat_.waiting();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
            "MPI_Allreduce");
  if (first == none) return;
  check_mpi(MPI_Bcast(&code, 1, MPI_INT, first, MPI_COMM_WORLD), "MPI_Bcast");
  throw AgreedError(static_cast<ExitCode>(code), message, first == rank_);
}

void Session::barrier() const {
  const auto waiting = heartbeat_.waiting();
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

double Session::max(double value) const {
  const auto waiting = heartbeat_.waiting();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
            "MPI_Allreduce");
  return value;
}

std::uint64_t Session::sum(std::uint64_t value) const {
  const auto waiting = heartbeat_.waiting();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD),
            "MPI_Allreduce");
  return value;
}

std::vector<std::string> Session::gather(const std::string& text) const {
  const std::vector<int> lengths = gather_counts(text.size());
  std::string all(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}), '\0');
  gather_elements(text.data(), 1, lengths, all.data());
  std::vector<std::string> texts;
  std::size_t start = 0;
  for (const int length : lengths) {
    texts.push_back(all.substr(start, static_cast<std::size_t>(length)));
    start += static_cast<std::size_t>(length);
  }
  return texts;
}

/// The number of elements of each rank.
std::vector<int> Session::gather_counts(std::size_t mine) const {
  const auto waiting = heartbeat_.waiting();
  const int count = static_cast<int>(mine);
  std::vector<int> counts(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD),
            "MPI_Allgather");
  return counts;
}

/// MPI counts with an int. This function counts elements instead of bytes, so that more than 2 GiB
/// can be gathered.
void Session::gather_elements(const void* mine, std::size_t element_bytes,
                              const std::vector<int>& counts, void* all) const {
  const auto waiting = heartbeat_.waiting();
  std::vector<int> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
  MPI_Datatype element = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(static_cast<int>(element_bytes), MPI_BYTE, &element),
            "MPI_Type_contiguous");
  check_mpi(MPI_Type_commit(&element), "MPI_Type_commit");
  check_mpi(MPI_Allgatherv(mine, counts[static_cast<std::size_t>(rank_)], element, all,
                           counts.data(), starts.data(), element, MPI_COMM_WORLD),
            "MPI_Allgatherv");
  check_mpi(MPI_Type_free(&element), "MPI_Type_free");
}

/// The number of bytes of each rank, on rank 0; nothing on the others.
std::vector<std::size_t> Session::collect_sizes(std::size_t mine) const {
  const auto waiting = heartbeat_.waiting();
  const std::uint64_t size = mine;
  std::vector<std::uint64_t> sizes(rank_ == 0 ? static_cast<std::size_t>(size_) : 0);
  check_mpi(MPI_Gather(&size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, 0, MPI_COMM_WORLD),
            "MPI_Gather");
  return sizes;
}

void Session::collect_bytes(const void* mine, std::size_t size,
                            const std::vector<std::size_t>& sizes, void* all) const {
  const auto waiting = heartbeat_.waiting();
  constexpr std::size_t max_piece = std::size_t{1} << 30;  // MPI counts with an int
  constexpr int tag = 2;
  const auto in_pieces = [&](std::size_t whole, const auto& move) {
    for (std::size_t at = 0; at < whole; at += max_piece) {
      move(at, static_cast<int>(std::min(max_piece, whole - at)));
    }
  };
  if (rank_ != 0) {
    in_pieces(size, [&](std::size_t at, int count) {
      check_mpi(
          MPI_Send(static_cast<const char*>(mine) + at, count, MPI_CHAR, 0, tag, MPI_COMM_WORLD),
          "MPI_Send");
    });
    return;
  }
  char* to = static_cast<char*>(all);
  if (size > 0) std::memcpy(to, mine, size);
  for (int rank = 1; rank < size_; ++rank) {
    to += sizes[static_cast<std::size_t>(rank) - 1];
    in_pieces(sizes[static_cast<std::size_t>(rank)], [&](std::size_t at, int count) {
      check_mpi(MPI_Recv(to + at, count, MPI_CHAR, rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                "MPI_Recv");
    });
  }
}

std::string Session::broadcast(std::string text) const {
  const auto waiting = heartbeat_.waiting();
  auto length = static_cast<unsigned long>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD), "MPI_Bcast");
  text.resize(length);
  check_mpi(MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD),
            "MPI_Bcast");
  return text;
}

void Session::abort(ExitCode code) {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::abort();  // never reached; MPI_Abort is not declared [[noreturn]]
}

std::string Session::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  std::string version(text.data());
  return version.substr(0, version.find_first_of("\n\r"));
}

std::span<const OptionRow> launch_options() {
  return rows;
}

void check_expected_ranks(const Session& session, const Options& options) {
  if (options.is_auto("launch.expect-ranks")) return;
  const std::uint64_t expected = options.count("launch.expect-ranks");
  if (expected == static_cast<std::uint64_t>(session.size())) return;
  const std::string mpi = Session::library_version();  // "Open MPI v4.1.4, package: ..."
  throw UsageError(fmt::format(
      "--launch.expect-ranks is {}, but MPI sees {} rank{}: start {}, with the mpirun of this "
      "program's MPI ({}) or with srun --mpi=pmix (with another launcher, each process would be an "
      "MPI world of its own)",
      expected, session.size(), session.size() == 1 ? "" : "s", expected,
      mpi.substr(0, mpi.find(','))));
}

bool may_bind(const Options& options) {
  return options.text("launch.bind") != "none";
}

Table concatenate(const Session& session, const Table& mine) {
  Table all(mine.name(), mine.columns());
  for (const std::string& theirs : session.gather(packed(mine))) {
    for (std::string_view bytes = theirs; !bytes.empty();) {
      std::vector<Cell> row;
      for (const Column& column : mine.columns()) row.push_back(take_cell(bytes, column.type));
      all.add(std::move(row));
    }
  }
  return all;
}

Table gather(const Session& session, const Table& mine) {
  std::vector<Column> columns = mine.columns();
  columns.insert(columns.begin(), {"rank", ColumnType::integer});
  Table with_rank(mine.name(), std::move(columns));
  for (const Row& row : mine.rows()) {
    std::vector<Cell> cells{std::int64_t{session.rank()}};
    cells.insert(cells.end(), row.cells().begin(), row.cells().end());
    with_rank.add(std::move(cells));
  }
  return concatenate(session, with_rank);
}

}  // namespace shardstream::ranks
