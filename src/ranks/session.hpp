// The MPI session of this rank, collective operations on errors and tables, and the [launch]
// options. One thread makes all MPI calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "core/options.hpp"
#include "core/table.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::ranks {

/// Throws Error with `call` and MPI's error text unless `status` is MPI_SUCCESS.
void check_mpi(int status, const char* call,
               std::source_location where = std::source_location::current());

// These functions only read the environment. Code that does not start MPI can use them.

/// Whether a launcher (mpirun, srun) has started this process as one of its ranks.
bool under_launcher();
/// The number of this process among those of its launcher, from the launcher's environment
/// variables; nothing without a launcher.
std::optional<std::uint64_t> launched_rank();

/// The ranks that the innermost launcher has started, from its environment variables.
struct Launched {
  std::uint64_t ranks;
  std::uint64_t ranks_on_host;  ///< on this host; equal to `ranks` if unknown
  const char* variable;         ///< the variable with the number of ranks
};
/// Nothing if no launcher has started this process or the number of ranks is unknown.
std::optional<Launched> launched();

/// `environment` (NAME=value, with a null pointer at the end) without the variables that make a
/// process a rank of mpirun or a step of srun. For programs that this process starts.
std::vector<std::string> environment_without_launcher(const char* const* environment);

/// An error that all ranks have been informed of, so that each can end in good order. One of them
/// prints it.
class AgreedError : public Error {
 public:
  AgreedError(ExitCode code, const std::string& message, bool prints)
      : Error(code, message, std::source_location::current()), prints_(prints) {}
  /// Whether this rank prints the error.
  bool prints() const { return prints_; }

 private:
  bool prints_;
};

/// MPI from MPI_Init_thread (FUNNELED) to MPI_Finalize. There is one session per process. Every
/// rank calls collective members in the same order, from the thread that made the session.
class Session {
 public:
  /// `memory_remedy` is for the errors of collectively(); see core/failure.hpp.
  explicit Session(std::string_view memory_remedy = {});
  /// Calls MPI_Finalize, which waits for the other ranks. After an error that the other ranks do
  /// not know of, call abort() instead.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The time at which MPI was ready on this rank.
  std::chrono::steady_clock::time_point ready() const { return ready_; }

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Rank and number of ranks on this host.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  const std::string& memory_remedy() const { return memory_remedy_; }

  /// The heartbeat of this rank. Collective members mark it as waiting; code that waits for other
  /// ranks in another way must do so itself.
  Heartbeat& heartbeat() const { return heartbeat_; }

  /// Calls `step` on every rank. If it throws on any rank, all ranks throw AgreedError with the
  /// message and the exit code of the lowest failed rank, which is the one that prints it.
  void collectively(const std::function<void()>& step) const;

  void barrier() const;
  double max(double value) const;                ///< the maximum of all ranks, on every rank
  std::uint64_t sum(std::uint64_t value) const;  ///< the sum over all ranks, on every rank
  /// Every rank's text, in rank order, on every rank.
  std::vector<std::string> gather(const std::string& text) const;
  /// Every rank's elements, in rank order, on every rank. The number of elements may differ between
  /// ranks.
  template <class T>
  std::vector<T> gather(const std::vector<T>& mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<int> counts = gather_counts(mine.size());
    std::vector<T> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    gather_elements(mine.data(), sizeof(T), counts, all.data());
    return all;
  }
  /// The same, but only on rank 0; the others get nothing. For many elements.
  template <class T>
  std::vector<T> collect(const std::vector<T>& mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<std::size_t> sizes = collect_sizes(mine.size() * sizeof(T));
    std::vector<T> all(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) / sizeof(T));
    collect_bytes(mine.data(), mine.size() * sizeof(T), sizes, all.data());
    return all;
  }
  std::string broadcast(std::string text) const;  ///< the text of rank 0, on every rank

  /// Ends all ranks at once with `code`.
  [[noreturn]] static void abort(ExitCode code);

  /// "Open MPI v4.1.4, ..." on one line.
  static std::string library_version();

 private:
  void reject_silent_singleton() const;
  std::vector<int> gather_counts(std::size_t mine) const;
  void gather_elements(const void* mine, std::size_t element_bytes, const std::vector<int>& counts,
                       void* all) const;
  std::vector<std::size_t> collect_sizes(std::size_t mine) const;
  void collect_bytes(const void* mine, std::size_t size, const std::vector<std::size_t>& sizes,
                     void* all) const;

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::string host_;
  std::string memory_remedy_;
  std::chrono::steady_clock::time_point ready_;
  mutable Heartbeat heartbeat_;
};

/// The rows of [launch].
std::span<const OptionRow> launch_options();

/// Throws UsageError unless launch.expect-ranks is auto or the number of ranks.
void check_expected_ranks(const Session& session, const Options& options);

/// Whether launch.bind allows binding ranks to a part of their CPUs.
bool may_bind(const Options& options);

/// The rows of all ranks' tables in rank order, the same on every rank. Cells are transferred bit
/// for bit. All ranks' tables must have the same columns. Collective.
Table concatenate(const Session& session, const Table& mine);
/// The same with `rank` as another column, the first one.
Table gather(const Session& session, const Table& mine);

}  // namespace shardstream::ranks
