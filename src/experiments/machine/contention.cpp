// Link traffic of one, several and all ranks of a host at the same time. Each GPU has a link of its
// own, but GPUs may share a PCIe switch, the link between sockets, or the memory of the host.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/buffer.hpp"
#include "experiments/bench.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/machine/advice.hpp"
#include "measure/ceilings.hpp"
#include "ranks/session.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments::machine {

constexpr OptionRow options[] = {
    {"contention.size", OptionKind::size, "256MiB", "1MiB..",
     "Data of one copy in each direction. The default with --quick is 64 MiB; on CPUs it is 16 "
     "MiB, with --quick 4 MiB."},
};

Table contention(Bench& bench);

extern const Experiment about_contention = {
    .name = "contention",
    .group = "machine",
    .summary = "GPUs that use their links at the same time may share a part of the way.",
    .explanation =
        {
            .question =
                "How much does each GPU lose if several GPUs copy over their host links at the "
                "same time?",
            .varies =
                "On each host, 1, 2, ... all ranks copy at the same time between pinned memory and "
                "their GPU, up, down and both ways, while the other ranks wait. With --quick, the "
                "numbers are 1, 2, 4, ... and all. The ranks take part in the order of their "
                "numbers on the host. `rate` is that of the slowest rank, in GB/s of one "
                "direction, and `slowest` its number. `total` is the sum over the ranks of rank "
                "0's host. The rows with one rank have each rank alone, and `share` compares with "
                "them.",
            .expectation =
                "Expect the rate alone from every GPU if each has a root port of its own and the "
                "memory of the host is fast enough. Expect half of it as soon as two ranks behind "
                "the same PCIe switch are busy, and less when the copies of all ranks exceed the "
                "rate of the host's memory, which both directions share. The sentences below the "
                "table say what this means for the number of ranks per host.",
            .pitfalls =
                "The expected values are the rates alone, so a lower rate shows that ranks share a "
                "part of the way. On CPUs, the copies are those of ranks in the memory of the "
                "host.",
        },
    .read_on = {{Guide::best_practices, "Data Transfer Between Host and Device"},
                {Guide::project, "jobs/README.md"}},
    .share = "of the rate of the most disturbed rank alone",
    .options = options,
    .expected =
        [](const MeasuredRow& row) {
          return row.measured({{"ranks", "1"}}, {"way"});
        },
    .exercise = {.task = "Predict the rate in GB/s of the slowest of one and of two ranks that "
                         "upload, and of one and of two that copy both ways, if a link carries 55 "
                         "GB/s.",
                 .rows = {{{"way", "up"}, {"ranks", "1"}},
                          {{"way", "up"}, {"ranks", "2"}},
                          {{"way", "both"}, {"ranks", "1"}},
                          {{"way", "both"}, {"ranks", "2"}}}},
    .figure = {.look = Look::lines, .x = "ranks", .y = "rate", .series = "way"},
    .needs = {.ranks = 2},
    .scope = Scope::all_ranks,
    .run = contention,
    .run_host = contention,
};

namespace {

using device::Buffer;
using device::Memory;
using measure::LinkDirection;

struct LinkTraffic {
  LinkDirection direction;
  const char* name;
  const char* traffic;
};
constexpr std::array ways = {LinkTraffic{LinkDirection::up, "up", "uploads"},
                             LinkTraffic{LinkDirection::down, "down", "downloads"},
                             LinkTraffic{LinkDirection::both, "both", "copies in both directions"}};

/// Buffers of one rank, and copies between them.
class Copies {
 public:
  Copies(device::Device& device, std::uint64_t bytes, int rank)
      : sent_(device, Memory::pinned, bytes),
        received_(device, Memory::pinned, bytes),
        up_(device, Memory::device, bytes),
        down_(device, Memory::device, bytes),
        uploads_(device.make_stream()),
        downloads_(device.make_stream()) {
    for (std::uint64_t i = 0; i < bytes; ++i) {
      sent_[i] = static_cast<std::byte>((i ^ (i >> 8) ^ (i >> 16)) + static_cast<unsigned>(rank));
    }
    uploads_->upload(down_.data(), sent_.data(), bytes);
    uploads_->synchronize();
  }

  /// `calls` copies in each direction of `way`. Returns when they have ended.
  void copy(LinkDirection way, unsigned calls) const {
    for (unsigned i = 0; i < calls; ++i) {
      if (way != LinkDirection::down) uploads_->upload(up_.data(), sent_.data(), sent_.bytes());
      if (way != LinkDirection::up) {
        downloads_->download(received_.data(), down_.data(), received_.bytes());
      }
    }
    uploads_->synchronize();
    downloads_->synchronize();
  }

  /// Whether copies in both directions at the same time arrive unchanged.
  bool are_right() const {
    std::fill_n(received_.data(), received_.size(), std::byte{0});
    copy(LinkDirection::both, 1);
    const bool down_is_right = is_received();
    downloads_->download(received_.data(), up_.data(), received_.bytes());
    downloads_->synchronize();
    return down_is_right && is_received();
  }
  std::uint64_t bytes() const { return sent_.bytes(); }

 private:
  bool is_received() const {
    return std::memcmp(received_.data(), sent_.data(), sent_.bytes()) == 0;
  }

  Buffer<std::byte> sent_, received_, up_, down_;
  std::unique_ptr<device::Stream> uploads_, downloads_;
};

/// Measures the links of some ranks of each host at a time.
class Links {
 public:
  Links(Bench& bench, const Copies& copies, Measurements& rows)
      : bench_(bench),
        session_(bench.together().session),
        copies_(copies),
        rows_(rows),
        hosts_(session_.gather(session_.host())),
        places_(session_.gather(std::vector{session_.local_rank()})),
        ranks_on_host_(static_cast<int>(session_.max(session_.local_size()))) {}

  void add(const LinkTraffic& way) {
    const std::vector<double> alone = rates_alone(way);
    std::vector<BusyLinks> busy;
    for (const int ranks : numbers_of_ranks()) busy.push_back(add_row(way, ranks, alone));
    if (busy.size() > 1) bench_.note(advice_on(way.traffic, busy));
  }

 private:
  /// 1, 2, 3, ... ranks per host; with --quick 1, 2, 4, ... and all.
  std::vector<int> numbers_of_ranks() const {
    std::vector<int> numbers;
    for (int ranks = 1; ranks < ranks_on_host_; ranks += bench_.is_quick() ? ranks : 1) {
      numbers.push_back(ranks);
    }
    numbers.push_back(ranks_on_host_);
    return numbers;
  }

  bool is_busy(std::size_t rank, int first, int last) const {
    return first <= places_[rank] && places_[rank] < last;
  }

  /// The time of one copy of the ranks whose number on their host is in [first, last).
  Timing time(const LinkTraffic& way, int first, int last) {
    const bool takes_part = is_busy(static_cast<std::size_t>(bench_.rank()), first, last);
    const auto seconds_of = [&](unsigned calls) {
      if (!takes_part) return 0.0;
      const auto begin = Clock::now();
      copies_.copy(way.direction, calls);
      return seconds_since(begin);
    };
    constexpr double sample_length = 20e-3, max_calls = 200;
    session_.barrier();
    const double once = bench_.max_of_ranks(seconds_of(1));
    const auto calls =
        static_cast<unsigned>(std::clamp(std::ceil(sample_length / once), 1.0, max_calls));
    Timing timing = bench_.sample([&] { return seconds_of(calls); });
    timing.seconds = timing.seconds.times(1.0 / calls);
    for (Measured& rank : timing.by_rank) rank = rank.times(1.0 / calls);
    return timing;
  }

  double rate(const Measured& seconds) const {
    return static_cast<double>(copies_.bytes()) / seconds.value / 1e9;
  }

  /// The rate of each rank while the others of its host wait.
  std::vector<double> rates_alone(const LinkTraffic& way) {
    std::vector<double> rates(places_.size());
    slowest_alone_.reset();
    for (int place = 0; place < ranks_on_host_; ++place) {
      const Timing timing = time(way, place, place + 1);
      for (std::size_t rank = 0; rank < rates.size(); ++rank) {
        if (is_busy(rank, place, place + 1)) rates[rank] = rate(timing.by_rank[rank]);
      }
      if (!slowest_alone_ || timing.seconds.value > slowest_alone_->seconds.value) {
        slowest_alone_ = timing;
      }
    }
    return rates;
  }

  BusyLinks add_row(const LinkTraffic& way, int ranks, const std::vector<double>& alone) {
    const bool is_alone = ranks == 1;
    const Timing timing = is_alone ? *slowest_alone_ : time(way, 0, ranks);
    BusyLinks links{ranks, 0, std::numeric_limits<double>::infinity(), 0};
    std::size_t slowest = 0;
    double slowest_rate = std::numeric_limits<double>::infinity();
    for (std::size_t rank = 0; rank < places_.size(); ++rank) {
      if (!is_alone && !is_busy(rank, 0, ranks)) continue;
      const double own = is_alone ? alone[rank] : rate(timing.by_rank[rank]);
      if (own < slowest_rate) {
        slowest = rank;
        slowest_rate = own;
      }
      if (hosts_[rank] == hosts_[0] && is_busy(rank, 0, ranks)) links.total += own;
      links.min_share = std::min(links.min_share, own / alone[rank]);
      links.max_share = std::max(links.max_share, own / alone[rank]);
    }
    if (bench_.rank() == 0) {
      rows_.add({way.name, std::int64_t{ranks}, links.total, static_cast<std::int64_t>(slowest)},
                timing.rate(static_cast<double>(copies_.bytes())),
                is_alone ? std::numeric_limits<double>::quiet_NaN() : links.min_share,
                remark(links, is_alone));
    }
    return links;
  }

  static std::string remark(const BusyLinks& links, bool is_alone) {
    if (is_alone) return "each rank alone";
    return fmt::format("{:.2f} to {:.2f} of the rates alone", links.min_share, links.max_share);
  }

  Bench& bench_;
  const ranks::Session& session_;
  const Copies& copies_;
  Measurements& rows_;
  std::vector<std::string> hosts_;  ///< by rank
  std::vector<int> places_;         ///< the number of each rank on its host
  int ranks_on_host_;               ///< the largest number of any host
  std::optional<Timing> slowest_alone_;
};

std::uint64_t bytes_of_copy(Bench& bench) {
  constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
  const bool on_host = bench.resources().backend == Backend::host;
  const std::uint64_t usual =
      on_host ? (bench.is_quick() ? 4 : 16) * MiB : (bench.is_quick() ? 64 : 256) * MiB;
  return bench.bytes("contention.size", {.of_device = 0.2, .of_host = 0.2}, usual);
}

}  // namespace

Table contention(Bench& bench) {
  const std::uint64_t bytes = bytes_of_copy(bench);
  std::optional<Copies> copies;
  bool are_right = false;
  bench.agree([&] {
    copies.emplace(bench.device(), bytes, bench.rank());
    are_right = copies->are_right();
  });
  bench.verify(are_right, "copies of all ranks at once");
  Measurements rows({{"way", ColumnType::text},
                     {"ranks", ColumnType::integer},
                     {"total", ColumnType::real, "GB/s"},
                     {"slowest", ColumnType::integer}},
                    {"rate", ColumnType::real, "GB/s"});
  Links links(bench, *copies, rows);
  for (const LinkTraffic& way : ways) links.add(way);
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::machine
