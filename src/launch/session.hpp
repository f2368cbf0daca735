// The MPI session: who this rank is, how ranks agree and share tables, and the [launch] options.
// One thread makes all MPI calls.
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
#include "launch/heartbeat.hpp"

namespace shardstream::launch {

/// Throws Error naming `call` and MPI's own words unless `status` is success.
void check_mpi(int status, const char* call,
               std::source_location where = std::source_location::current());

/// True if a launcher (mpirun, srun) has started this process as one of its ranks. Reads the
/// environment only.
bool under_launcher();
/// Whether this process is the only one, or the first of those that a launcher has started. Reads
/// the environment only; for what starts no MPI.
bool first_of_launcher();

/// What the innermost launcher has started, as its variables tell; for what starts no MPI.
struct Launched {
  std::uint64_t ranks;
  std::uint64_t ranks_on_host;  ///< on this one; `ranks` if that is not told
  const char* variable;         ///< that says how many
};
/// None where no launcher has started this process, or it does not tell how many.
std::optional<Launched> launched();

/// An error that all ranks know of, so that each can end in good order; one of them speaks.
class AgreedError : public Error {
 public:
  AgreedError(ExitCode code, const std::string& message, bool speaks)
      : Error(code, message, std::source_location::current()), speaks_(speaks) {}
  bool speaks() const { return speaks_; }

 private:
  bool speaks_;
};

/// MPI from MPI_Init_thread (FUNNELED) to MPI_Finalize. Not copyable; one a process. Collective
/// members are called by every rank in the same order, by the thread that made the session.
class Session {
 public:
  Session();
  /// Finalizes, which waits for the other ranks: an error that they do not know of ends in abort().
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// When MPI was ready, on all ranks.
  std::chrono::steady_clock::time_point ready() const { return ready_; }

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Rank and number of ranks on this host.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }

  /// This rank's. The collective members mark it as waiting; other waits do so themselves.
  Heartbeat& heartbeat() const { return heartbeat_; }

  /// Calls `step` on every rank. If it throws anywhere, all ranks throw AgreedError with the
  /// message and the code of the lowest rank at fault, which is the one that speaks.
  void collectively(const std::function<void()>& step) const;

  void barrier() const;
  double max(double value) const;                ///< the greatest of all ranks', on every rank
  std::uint64_t sum(std::uint64_t value) const;  ///< of all ranks', on every rank
  /// Every rank's text, in rank order, on every rank.
  std::vector<std::string> gather(const std::string& text) const;
  /// Every rank's elements, in rank order, on every rank. Ranks may have different numbers of them.
  template <class T>
  std::vector<T> gather(const std::vector<T>& mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<int> counts = gather_counts(mine.size());
    std::vector<T> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    gather_elements(mine.data(), sizeof(T), counts, all.data());
    return all;
  }
  /// The same on rank 0 alone, and nothing on the others: for many elements.
  template <class T>
  std::vector<T> collect(const std::vector<T>& mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<std::size_t> sizes = collect_sizes(mine.size() * sizeof(T));
    std::vector<T> all(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) / sizeof(T));
    collect_bytes(mine.data(), mine.size() * sizeof(T), sizes, all.data());
    return all;
  }
  std::string broadcast(std::string text) const;  ///< rank 0's, on every rank

  /// Ends all ranks at once with `code`.
  [[noreturn]] static void abort(ExitCode code);

  /// "Open MPI v4.1.4, ..." on one line.
  static std::string library_version();

 private:
  void refuse_silent_singleton() const;
  std::vector<int> gather_counts(std::size_t mine) const;
  void gather_elements(const void* mine, std::size_t element_bytes, const std::vector<int>& counts,
                       void* all) const;
  std::vector<std::size_t> collect_sizes(std::size_t mine) const;
  void collect_bytes(const void* mine, std::size_t size, const std::vector<std::size_t>& sizes,
                     void* all) const;

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::string host_;
  std::chrono::steady_clock::time_point ready_;
  mutable Heartbeat heartbeat_;
};

/// The rows of [launch]: expect-ranks, bind.
std::span<const OptionRow> launch_options();

/// Throws UsageError if launch.expect-ranks is a number and the session has another one.
void check_expected_ranks(const Session& session, const Options& options);

/// Whether launch.bind allows that ranks are bound to a part of their CPUs.
bool may_bind(const Options& options);

/// The rows of all ranks' tables in rank order, the same on every rank; the first column is `rank`.
/// Every cell arrives bit for bit. All ranks' tables have the same columns. Collective.
Table gather(const Session& session, const Table& mine);

}  // namespace shardstream::launch
