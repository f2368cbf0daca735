// Collectives of all ranks: NCCL between GPUs, and MPI through host memory. Small ones cost
// latency, large ones the bandwidth of the links; a busy device or link slows both. The calls of
// the program's communicator are compared with a plain loop of NCCL's calls, as nccl-tests has it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "device/buffer.hpp"
#include "experiments/bench.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/machine/collective_calls.hpp"
#include "experiments/machine/load.hpp"
#include "experiments/machine/messages.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments::machine {

constexpr OptionRow options[] = {
    {"collectives.most", OptionKind::size, "1GiB", "4KiB..",
     "The largest message. The default with --quick is 64 MiB; on CPUs it is 64 MiB, with --quick "
     "1 MiB."},
};

Table collectives(Bench& bench);

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// NCCL alone: the time of the smallest all-reduce, and that of the bytes at the bus bandwidth of a
/// large one. In a run, each call takes longer than in the plain loop by the same time.
double expected_rate(const MeasuredRow& row) {
  const std::string way = row.text("way"), collective = row.text("collective");
  const auto of_all_reduce = [&](std::string_view column, std::string_view of_way,
                                 std::string_view bytes) {
    return row.of_row(column, {{"collective", "all-reduce"}, {"way", of_way}, {"bytes", bytes}});
  };
  const double small = of_all_reduce("time", nccl_plain_loop, "4");  // us
  if (way == nccl_in_a_run) {
    const auto plain = [&](std::string_view column) {
      return row.of_row(column, {{"way", nccl_plain_loop}}, {"collective", "bytes", "beside"});
    };
    const double added = of_all_reduce("time", nccl_in_a_run, "4") - small;
    return plain("rate") * plain("time") / (plain("time") + added);
  }
  if (way != nccl_plain_loop) return none;
  const double of_reduction = of_all_reduce("rate", nccl_plain_loop, "4") /
                              of_all_reduce("algorithm", nccl_plain_loop, "4");  // 2 (P - 1) / P
  const double on_links = row["bytes"] * (collective == "broadcast"    ? 1
                                          : collective == "all-reduce" ? of_reduction
                                                                       : of_reduction / 2);
  constexpr double bytes_per_us = 1e3;  // at 1 GB/s
  const double large = of_all_reduce("rate", nccl_plain_loop, "67108864");
  return on_links / (small + on_links / (large * bytes_per_us)) / bytes_per_us;
}

}  // namespace

extern const Experiment about_collectives = {
    .name = "collectives",
    .group = "machine",
    .summary = "Small collectives cost latency, large ones the bandwidth of the links.",
    .explanation =
        {
            .question =
                "From which size on is a collective limited by the links, what does a run add to "
                "a plain call of NCCL, and what does memory gain that NCCL knows?",
            .varies =
                "All ranks together call all-reduce on floats, from 4 bytes to collectives.most, "
                "and reduce-scatter, all-gather and broadcast of 4 bytes and of 64 MiB. The ways "
                "are a plain loop of NCCL's calls, NCCL as a run calls it, and MPI through pinned "
                "host memory (staged, up to 64 MiB beside NCCL). Up to 64 MiB, the plain loop is "
                "also measured on memory of ncclMemAlloc: `registered` with the communicator "
                "(ncclCommRegister), and in `windows` (ncclCommWindowRegister), which have the "
                "same layout on all ranks; windows have no rows of broadcasts. `own kernel` is a "
                "kernel of this program, for all-reduces of up to 256 KiB: after a barrier of "
                "NCCL's device functions, each GPU loads the data of all GPUs from their windows "
                "and adds them up, and another barrier ends it. Some all-reduces are measured "
                "beside matrix products (a GEMM) or beside copies over the host link in both "
                "directions. `bytes` is the larger of the buffers that a rank sends and receives. "
                "`algorithm` is `bytes` over the time of a call. The rate is the bus bandwidth as "
                "nccl-tests defines it: for P ranks it is `algorithm` times 2 (P - 1) / P for "
                "all-reduce, (P - 1) / P for reduce-scatter and all-gather, and 1 for broadcast. "
                "So it does not depend on the number of ranks if each has one link of the same "
                "rate.",
            .expectation =
                "Expect a constant time of 10 to 50 us for small messages, and for large ones the "
                "rate of NVLink, of PCIe or of the network. For any size and collective, expect "
                "the time of the smallest all-reduce plus the bytes over the bus bandwidth of an "
                "all-reduce of 64 MiB. A run adds the same few microseconds to each call of NCCL. "
                "Expect large messages in a run within 5 % of the plain loop, except for the "
                "barrier of one byte that a run puts before collectives of 1 MiB and more: in it, "
                "early ranks wait without occupying the GPU. Registered memory can be read without "
                "a copy through "
                "NCCL's own buffers: expect a gain for large messages at most. In windows, NCCL "
                "loads and stores in the memory of the other GPUs, instead of sending in steps "
                "around a ring: expect small messages to take less time. The own kernel reads P "
                "times the message, so that its bytes over the links are P - 1 messages instead "
                "of 2 (P - 1) / P: expect it to be fast as long as the two barriers cost more "
                "than the bytes. Expect staged MPI to be several times "
                "slower between GPUs. A GEMM occupies the multiprocessors that NCCL's kernels "
                "need, and copies share the links with staged MPI. On CPUs, all ways are MPI.",
            .pitfalls =
                "Ranks may end a collective at different times. The time is that of the slowest "
                "rank. If GPUs have no peer access, or NCCL_CUMEM_ENABLE or NCCL_WIN_ENABLE is 0, "
                "a "
                "window is only registered memory, and NCCL does not say so; the own kernel is "
                "then not available, and a note says why. NCCL may also use the multicast of "
                "NVLink on registered memory, unless NCCL_NVLS_ENABLE is 0. NCCL moves the data of "
                "each collective in its own way, so their bus "
                "bandwidths may differ.",
        },
    .read_on = {{Guide::nccl_performance},
                {Guide::nccl, "Using NCCL"},
                {Guide::nccl, "User Buffer Registration"},
                {Guide::best_practices, "Parallel Libraries"},
                {Guide::programming, "Multi-Device System"}},
    .share = "of the bus bandwidth of a plain loop of NCCL's calls, alone",
    .options = options,
    .expected = expected_rate,
    .exercise =
        {.task = "Predict the rate (bus bandwidth) in GB/s of a plain loop of all-reduces "
                 "of 1 KiB, 256 KiB and 64 MiB and of broadcasts of 64 MiB by 4 ranks, if a small "
                 "one takes 9 us and the links carry 300 GB/s.",
         .rows =
             {{{"collective", "all-reduce"}, {"way", "NCCL, plain loop"}, {"bytes", "1024"}},
              {{"collective", "all-reduce"}, {"way", "NCCL, plain loop"}, {"bytes", "262144"}},
              {{"collective", "all-reduce"}, {"way", "NCCL, plain loop"}, {"bytes", "67108864"}},
              {{"collective", "broadcast"}, {"way", "NCCL, plain loop"}, {"bytes", "67108864"}}}},
    .figure = {.look = Look::lines,
               .x = "bytes",
               .y = "rate",
               .series = "way",
               .panel = "collective",
               .log_x = true,
               .log_y = true},
    .needs = {.ranks = 2},
    .scope = Scope::all_ranks,
    .run = collectives,
    .run_host = collectives,
};

namespace {

using device::Buffer;
using device::Memory;

/// The floats in up to `pieces` equal pieces of an array, from its beginning to its end, that a
/// check reads.
class Sampled {
 public:
  explicit Sampled(std::uint64_t count)
      : count_(count), length_(count <= pieces * max_length ? count : max_length) {}

  static constexpr std::uint64_t max_floats() { return pieces * max_length; }
  std::uint64_t length() const { return length_; }
  std::uint64_t number() const { return length_ == count_ ? 1 : pieces; }
  /// The index in the array of the first float of piece `i`.
  std::uint64_t first(std::uint64_t i) const {
    return number() == 1 ? 0 : (count_ - length_) / (pieces - 1) * i;
  }

 private:
  static constexpr std::uint64_t pieces = 32, max_length = 1024;
  std::uint64_t count_, length_;
};

/// The buffers of this rank, and the check of what it has received.
class Data {
 public:
  /// In `memory`, which must outlive the object. Waits for `stream`.
  Data(Bench& bench, device::Stream& stream, const WayMemory& memory)
      : stream_(stream),
        rank_(static_cast<std::uint64_t>(bench.rank())),
        buffers_(memory.buffers),
        sample_(bench.device(), Memory::pinned, Sampled::max_floats()) {
    const Buffer<float> repeated(bench.device(), Memory::pinned, period);
    for (std::uint64_t i = 0; i < period; ++i) repeated[i] = sent_by(rank_, i);
    for (std::uint64_t first = 0; first < memory.count; first += period) {
      const std::uint64_t count = std::min(period, memory.count - first);
      stream_.upload(buffers_.send + first, repeated.data(), count * sizeof(float));
      stream_.upload(buffers_.receive + first, repeated.data(), count * sizeof(float));
    }
    stream_.synchronize();
  }

  Buffers buffers() const { return buffers_; }

  /// Overwrites the floats that is_right() reads.
  void spoil(const Message& message) const {
    if (is_root_of(message)) return;
    std::fill_n(sample_.data(), sample_.size(), -1.0F);
    for_each_piece(message, [&](float* remote, float* local, std::uint64_t bytes) {
      stream_.upload(remote, local, bytes);
    });
    stream_.synchronize();
  }
  /// Whether a sample of the received floats is right.
  bool is_right(const Message& message) const {
    if (is_root_of(message)) return true;
    for_each_piece(message, [&](float* remote, float* local, std::uint64_t bytes) {
      stream_.download(local, remote, bytes);
    });
    stream_.synchronize();
    const Sampled sampled(message.received());
    for (std::uint64_t piece = 0; piece < sampled.number(); ++piece) {
      for (std::uint64_t i = 0; i < sampled.length(); ++i) {
        const float found = sample_[piece * sampled.length() + i];
        if (found != received_by(rank_, sampled.first(piece) + i, message)) return false;
      }
    }
    return true;
  }

 private:
  bool is_root_of(const Message& message) const {
    return message.collective == Collective::broadcast && rank_ == 0;
  }
  template <class Copy>
  void for_each_piece(const Message& message, Copy copy) const {
    const Sampled sampled(message.received());
    for (std::uint64_t piece = 0; piece < sampled.number(); ++piece) {
      copy(buffers_.receive + sampled.first(piece), sample_.data() + piece * sampled.length(),
           sampled.length() * sizeof(float));
    }
  }

  device::Stream& stream_;
  std::uint64_t rank_;
  Buffers buffers_;
  Buffer<float> sample_;
};

/// Measures collectives and adds their rows, on rank 0 alone: the figures belong to all ranks.
class Cases {
 public:
  Cases(Bench& bench, std::uint64_t max_bytes, Measurements& rows)
      : bench_(bench), rows_(rows), ranks_(static_cast<std::uint64_t>(bench.at_once())) {
    bench.agree([&] {
      stream_ = bench.device().make_stream();
      const std::size_t count = std::max(max_bytes / sizeof(float), ranks_);
      send_ = {bench.device(), Memory::device, count};
      receive_ = {bench.device(), Memory::device, count};
      data_ = std::make_unique<Data>(bench, *stream_,
                                     WayMemory{{send_.data(), receive_.data()}, count});
    });
  }

  /// The seconds of a barrier of one byte, as a run makes it before large collectives.
  void time_barrier(CollectiveCalls& plain) {
    barrier_ = seconds_of(plain, message_of(Collective::all_gather, 0, ranks_)).value;
  }

  /// Measures the collective, alone if `load` is null. Ways of the same message must be measured in
  /// the same order: first the plain loop alone, if there is one.
  void add(CollectiveCalls& way, const Message& message, Load* load, const std::string& beside) {
    check(way, message);
    std::unique_ptr<BusyGuard> busy;
    if (load != nullptr) {
      bench_.agree([&] { busy = std::make_unique<BusyGuard>(*load); });
    }
    const Measured seconds = seconds_of(way, message);
    if (busy) bench_.agree([&] { busy->end(); });
    const double bytes = static_cast<double>(message.bytes());
    const double factor = bus_factor(message.collective, ranks_);
    const Measured rate = Timing{seconds}.rate(bytes * factor);
    const std::string name =
        std::string(way.name()) + (load != nullptr ? ", beside " + beside : "");
    const std::string remark = load != nullptr ? slowdown(way, message, seconds.value)
                                               : remark_alone(way, message, seconds.value);
    if (load == nullptr) alone_[{std::string(way.name()), key_of(message)}] = seconds.value;
    if (bench_.rank() != 0) return;
    rows_.add(
        {word_of(message.collective), name, beside, static_cast<std::int64_t>(message.bytes()),
         seconds.value * 1e6, bytes / seconds.value / 1e9},
        rate, plain_seconds(message) / seconds.value, remark);
  }

 private:
  using Key = std::pair<Collective, std::uint64_t>;
  static Key key_of(const Message& message) { return {message.collective, message.bytes()}; }

  /// The data that `way` sends and receives, in its own memory if it has some.
  const Data& data_of(const CollectiveCalls& way) {
    const std::optional<WayMemory> memory = way.memory();
    if (!memory) return *data_;
    std::unique_ptr<Data>& data = own_data_[memory->buffers.send];
    if (!data) data = std::make_unique<Data>(bench_, *stream_, *memory);
    return *data;
  }

  void check(CollectiveCalls& way, const Message& message) {
    const Data* data = nullptr;
    bench_.agree([&] {
      data = &data_of(way);
      data->spoil(message);
    });
    way.enqueue(*stream_, message, data->buffers(), 1);
    way.wait(*stream_);
    bool is_right = false;
    bench_.agree([&] { is_right = data->is_right(message); });
    bench_.verify(is_right, fmt::format("{} of {} bytes by {}", word_of(message.collective),
                                        message.bytes(), way.name()));
  }

  /// The time of one call: many calls are enqueued at a time, as nccl-tests does.
  Measured seconds_of(CollectiveCalls& way, const Message& message) {
    Buffers buffers{};
    bench_.agree([&] { buffers = data_of(way).buffers(); });
    const auto seconds_of_calls = [&](unsigned calls) {
      const auto begin = Clock::now();
      way.enqueue(*stream_, message, buffers, calls);
      way.wait(*stream_);
      return seconds_since(begin);
    };
    constexpr double sample_length = 3e-3, max_calls = 200;
    (void)seconds_of_calls(1);  // connects the ranks, if no call has done so
    double once = bench_.max_of_ranks(seconds_of_calls(1));
    if (once < sample_length) once = bench_.max_of_ranks(seconds_of_calls(4)) / 4;
    const auto calls =
        static_cast<unsigned>(std::clamp(std::ceil(sample_length / once), 1.0, max_calls));
    return bench_.sample([&] { return seconds_of_calls(calls); }).seconds.times(1.0 / calls);
  }

  double seconds_alone(std::string_view way, const Message& message) const {
    const auto found = alone_.find({std::string(way), key_of(message)});
    return found == alone_.end() ? none : found->second;
  }
  double plain_seconds(const Message& message) const {
    return seconds_alone(nccl_plain_loop, message);
  }

  std::string slowdown(const CollectiveCalls& way, const Message& message, double seconds) const {
    return fmt::format("{:.2f} times the time alone", seconds / seconds_alone(way.name(), message));
  }

  static constexpr double tolerance = 1.05;

  static std::string compared(double seconds, double plain) {
    if (plain > tolerance * seconds) {
      return fmt::format("{:.2f} times as fast as the plain loop", plain / seconds);
    }
    if (seconds > tolerance * plain) {
      return fmt::format("{:.2f} times as long as the plain loop", seconds / plain);
    }
    return "within 5 % of the plain loop";
  }

  /// Compares with the plain loop, or with the smallest message if there is none.
  std::string remark_alone(const CollectiveCalls& way, const Message& message, double seconds) {
    const double smallest =
        smallest_.emplace(std::pair{message.collective, std::string(way.name())}, seconds)
            .first->second;
    const double plain = plain_seconds(message);
    if (std::isnan(plain)) {
      if (seconds < 2 * smallest) return "mostly latency: the size hardly matters";
      return "mostly bandwidth: the time grows with the size";
    }
    if (way.memory()) return compared(seconds, plain);
    if (way.name() != nccl_in_a_run)
      return fmt::format("{:.1f} times as long as NCCL", seconds / plain);
    constexpr std::uint64_t with_barrier = 1 << 20;  // as in comm/nccl.cpp
    const double barrier = message.bytes() >= with_barrier ? barrier_ : 0;
    if (seconds <= tolerance * plain) return "as expected: within 5 % of the plain loop";
    if (seconds <= tolerance * (plain + barrier)) {
      return fmt::format("as expected: the barrier before it takes {:.1f} us", barrier * 1e6);
    }
    return fmt::format("{:.1f} us longer than the plain loop", (seconds - plain) * 1e6);
  }

  Bench& bench_;
  Measurements& rows_;
  std::uint64_t ranks_;
  std::unique_ptr<device::Stream> stream_;
  Buffer<float> send_, receive_;
  std::unique_ptr<Data> data_;
  std::map<const float*, std::unique_ptr<Data>> own_data_;  ///< of ways, by their memory
  double barrier_ = 0;                                      ///< seconds
  std::map<std::pair<std::string, Key>, double> alone_;     ///< seconds, by way
  /// Seconds of the smallest message alone, by way.
  std::map<std::pair<Collective, std::string>, double> smallest_;
};

constexpr std::uint64_t large = std::uint64_t{64} << 20;  // one of the sizes of all-reduce

/// The ways of this run: NCCL and staged MPI between GPUs, MPI otherwise.
class Ways {
 public:
  /// For messages of up to `max_bytes` bytes; those on own memory take up to 64 MiB.
  Ways(Bench& bench, std::uint64_t max_bytes) {
    const auto& [session, communicator] = bench.together();
    if (communicator.transport() == "nccl") {
      const auto ranks = static_cast<std::size_t>(session.size());
      nccl_ = make_nccl_calls(session, std::max(std::min(max_bytes, large) / sizeof(float), ranks));
      for (const std::string& sentence : nccl_.missing) bench.note(sentence);
      ways_.push_back(std::make_unique<CommunicatorCalls>(nccl_in_a_run, communicator));
      bench.agree([&] {
        staged_ =
            comm::make_mpi_communicator(bench.device(), session, comm::mpi_piece(session.size()));
      });
      ways_.push_back(std::make_unique<CommunicatorCalls>("MPI, staged", *staged_));
    } else {
      ways_.push_back(std::make_unique<CommunicatorCalls>("MPI, staged", communicator));
    }
  }

  /// Null if there is no NCCL.
  CollectiveCalls* plain() const { return nccl_.plain.get(); }
  /// NCCL's ways for memory of their own, for messages of up to 64 MiB.
  const std::vector<std::unique_ptr<CollectiveCalls>>& on_own_memory() const {
    return nccl_.on_own_memory;
  }
  /// Those that a run may use.
  const std::vector<std::unique_ptr<CollectiveCalls>>& of_a_run() const { return ways_; }

 private:
  std::unique_ptr<comm::Communicator> staged_;
  NcclCalls nccl_;
  std::vector<std::unique_ptr<CollectiveCalls>> ways_;
};

std::uint64_t max_message(Bench& bench) {
  constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
  const bool on_host = bench.resources().backend == Backend::host;
  const std::uint64_t usual =
      on_host ? (bench.is_quick() ? 1 : 64) * MiB : (bench.is_quick() ? 64 : 1024) * MiB;
  return bench.bytes("collectives.most", {.of_device = 0.35}, usual) / sizeof(float) *
         sizeof(float);
}

/// All-reduce, which runs use most, has the curve; the others have its two ends.
std::vector<std::uint64_t> sizes_of(Collective collective, std::uint64_t max_bytes, bool is_quick) {
  if (collective == Collective::all_reduce) return sizes_up_to(4, max_bytes, is_quick ? 256 : 16);
  return {4, std::min(max_bytes, large)};
}

void add_alone(Bench& bench, Cases& cases, const Ways& ways, std::uint64_t max_bytes) {
  const auto ranks = static_cast<std::uint64_t>(bench.at_once());
  for (const Collective collective : all_collectives) {
    std::uint64_t previous = 0;  // many ranks have the same smallest messages
    for (const std::uint64_t bytes : sizes_of(collective, max_bytes, bench.is_quick())) {
      const Message message = message_of(collective, bytes, ranks);
      if (std::exchange(previous, message.bytes()) == message.bytes()) continue;
      if (ways.plain() != nullptr) cases.add(*ways.plain(), message, nullptr, "nothing");
      for (const auto& way : ways.of_a_run()) {
        const bool is_slow = ways.plain() != nullptr && way->name() != nccl_in_a_run;
        if (!is_slow || bytes <= large) cases.add(*way, message, nullptr, "nothing");
      }
      for (const auto& way : ways.on_own_memory()) {
        if (bytes <= large && way->takes(message)) cases.add(*way, message, nullptr, "nothing");
      }
    }
  }
}

/// Beside loads, only a few sizes of all-reduce are measured.
void add_beside_loads(Bench& bench, Cases& cases, const Ways& ways, std::uint64_t max_bytes) {
  std::unique_ptr<Load> products, link;
  bench.agree([&] {
    products = make_product_load(bench.device());
    link = make_link_load(bench.device());
  });
  if (!products) bench.note("There are no rows beside a GEMM: this build has no library for it.");
  const auto ranks = static_cast<std::uint64_t>(bench.at_once());
  const std::uint64_t small = std::uint64_t{256} << 10;  // one of the sizes that are measured alone
  std::vector<std::uint64_t> sizes = {std::min(max_bytes, large)};
  if (!bench.is_quick() && max_bytes > small) sizes.insert(sizes.begin(), small);
  for (const auto& [load, beside] : {std::pair{products.get(), "a GEMM"}, {link.get(), "copies"}}) {
    if (load == nullptr) continue;
    for (const std::uint64_t bytes : sizes) {
      const Message message = message_of(Collective::all_reduce, bytes, ranks);
      for (const auto& way : ways.of_a_run()) cases.add(*way, message, load, beside);
    }
  }
}

}  // namespace

Table collectives(Bench& bench) {
  const std::uint64_t max_bytes = max_message(bench);
  Measurements rows({{"collective", ColumnType::text},
                     {"way", ColumnType::text},
                     {"beside", ColumnType::text},
                     {"bytes", ColumnType::integer, "B"},
                     {"time", ColumnType::real, "us"},
                     {"algorithm", ColumnType::real, "GB/s"}},
                    {"rate", ColumnType::real, "GB/s"});
  const Ways ways(bench, max_bytes);
  Cases cases(bench, max_bytes, rows);
  if (ways.plain() != nullptr) cases.time_barrier(*ways.plain());
  add_alone(bench, cases, ways, max_bytes);
  add_beside_loads(bench, cases, ways, max_bytes);
  bench.note(
      "The time is that of the slowest of all ranks, by the host's clock, over many calls that are "
      "enqueued at a time. The rows are those of all ranks together.");
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::machine
