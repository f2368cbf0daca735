// The rate of copies over the host link, by the kind of host memory, direction and size. The GPU
// reads pinned memory directly; the processor must first copy pageable memory into a pinned buffer.
#include <array>
#include <limits>
#include <memory>
#include <string>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"
#include "experiments/link/rates.hpp"
#include "measure/ceilings.hpp"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"transfer.most", OptionKind::size, "1GiB", "4KiB..",
     "The largest copy. With --quick the default is 64 MiB."},
};
constexpr Axis axes[] = {
    {.name = "memory",
     .unit = "",
     .values = "pageable|pinned|write-combined|registered|registered, huge pages",
     .sentence = "The kind of host memory."},
    {.name = "way",
     .unit = "",
     .values = "up|down|both",
     .sentence = "The direction of the copies."},
    {.name = "bytes",
     .unit = "B",
     .values = "4KiB..*16",
     .range = "4..",
     .most = "transfer.most",
     .sentence =
         "The size of a copy; only pageable and pinned memory has copies below the largest."},
};

Table transfer(Bench& bench);

namespace {

/// Pinned memory takes the time of the smallest copy, and the other bytes at the rate of the link.
/// Pageable memory takes both times for both ways.
double expected_rate(const MeasuredRow& row) {
  const std::string memory = row.text("memory"), way = row.text("way");
  if (memory == "pinned") {
    constexpr double smallest = 4096;  // bytes; GB/s are bytes per nanosecond
    const double rate = row.measured({{"memory", "pinned"}, {"bytes", "4096"}}, {"way", "at_once"});
    const double others = (row["bytes"] - smallest) / row.ceiling("link_" + way);
    return row["bytes"] / (smallest / rate + others);
  }
  if (memory != "pageable") {
    return row.measured({{"memory", "pinned"}}, {"way", "at_once", "bytes"});
  }
  if (way != "both") return std::numeric_limits<double>::quiet_NaN();
  const double up = row.measured({{"memory", memory}, {"way", "up"}}, {"at_once", "bytes"});
  const double down = row.measured({{"memory", memory}, {"way", "down"}}, {"at_once", "bytes"});
  return 1 / (1 / up + 1 / down);
}

}  // namespace

extern const Experiment about_transfer = {
    .name = "transfer",
    .group = "link",
    .summary =
        "Copies of pinned memory reach the rate of the link; copies of pageable memory do not.",
    .explanation =
        {
            .question =
                "How fast do copies between host and device become, and what kind of host memory "
                "do they need?",
            .varies =
                "Copies between host and device are measured for five kinds of host memory: "
                "pageable, pinned, write-combined, registered, and registered in huge pages. They "
                "go up, down and both ways at once. Pageable and pinned memory is copied in pieces "
                "of 4 KiB to transfer.most bytes, the other kinds with the largest size alone. "
                "With several ranks, each rank measures alone, and then all measure at once.",
            .expectation =
                "Expect 0.8 to 0.9 of the theoretical rate of PCIe for large copies of pinned "
                "memory. Small copies take a few microseconds whatever their size, and larger ones "
                "also the time of their bytes on the link. The GPU reads pinned memory directly. "
                "Pageable memory may be moved by the system during a copy, so one thread of the "
                "driver first copies it into a pinned buffer. For both ways it makes both copies: "
                "expect the sum of their times. Expect uploads of it to become slower if the data "
                "no longer fits in the caches of the processor. Write-combined and registered "
                "memory is pinned, too: expect it to differ from `pinned` only in the time to "
                "allocate it (see `allocation`). The difference between ranks alone and at once "
                "shows what they share, such as a part of the link or the memory of the host.",
            .pitfalls =
                "For both ways, a share above 1 is possible, because the rate of the link is that "
                "of large copies, and smaller ones may be faster. The rate of one thread that "
                "copies is not known before, so most rows of pageable memory have no expected "
                "value. Small copies of it take less than the sum for both ways: the upload is "
                "still on its way when the download begins.",
        },
    .read_on = {{Guide::best_practices, "Data Transfer Between Host and Device"},
                {Guide::best_practices, "Pinned Memory"}},
    .reference = "PCIe 3 x16: about 12 of 16 GB/s with pinned memory.",
    .share = "of the rate of the link in the same direction",
    .options = options,
    .axes = axes,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in GB/s of uploads of 64 KiB, 1 MiB and 16 MiB from "
                         "pinned memory, and of 16 MiB for both ways, if a copy of 4 KiB takes 3 "
                         "us and the link carries 55 GB/s (PCIe 5 x16).",
                 .rows = {{{"memory", "pinned"}, {"way", "up"}, {"bytes", "65536"}},
                          {{"memory", "pinned"}, {"way", "up"}, {"bytes", "1048576"}},
                          {{"memory", "pinned"}, {"way", "up"}, {"bytes", "16777216"}},
                          {{"memory", "pinned"}, {"way", "both"}, {"bytes", "16777216"}}}},
    .figure = {.look = Look::lines,
               .x = "bytes",
               .y = "rate",
               .series = "memory",
               .panel = "way",
               .log_x = true,
               .log_y = true},
    .needs = {.ceilings = {"link_up", "link_down", "link_both"}},
    .turns = Turns::both,
    .run = with_cuda<transfer>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

using measure::LinkDirection;

constexpr std::array kinds = {HostKind::pageable, HostKind::pinned, HostKind::write_combined,
                              HostKind::registered, HostKind::registered_huge};
constexpr std::array ways = {LinkDirection::up, LinkDirection::down, LinkDirection::both};

const char* ceiling_of(LinkDirection way) {
  return way == LinkDirection::up     ? "link_up"
         : way == LinkDirection::down ? "link_down"
                                      : "link_both";
}

constexpr std::uint64_t salt_of_host = 0, salt_of_device = 1'000'000'007;

/// Host buffers of one kind of memory, one per direction, and their copies to and from the device.
class Copies {
 public:
  Copies(HostKind kind, std::uint64_t bytes, Gpu& gpu)
      : kind_(kind),
        gpu_(gpu),
        sent_(kind, bytes),
        received_(kind, bytes),
        up_(bytes),
        down_(bytes),
        side_(1) {}

  HostKind kind() const { return kind_; }
  /// Whether copies are only enqueued. The driver makes copies of pageable memory before it
  /// returns, so the host's clock must time them.
  bool is_enqueued() const { return kind_ != HostKind::pageable; }

  /// Copies `bytes` bytes; with LinkDirection::both, that many in each direction.
  void copy(LinkDirection way, std::uint64_t bytes) const {
    if (way == LinkDirection::up) return up(bytes, gpu_.stream());
    if (way == LinkDirection::down) return down(bytes, gpu_.stream());
    side_.fork(gpu_.stream());
    up(bytes, gpu_.stream());
    down(bytes, side_[0]);
    side_.join(gpu_.stream());
  }

  /// Whether copies of all bytes in both directions arrive unchanged.
  bool are_right() const {
    const std::uint64_t count = sent_.bytes() / sizeof(float);
    write_numbers(sent_.as<float>(), count, salt_of_host);
    write_numbers_on_device(reinterpret_cast<float*>(down_.data()), count, salt_of_device,
                            gpu_.stream());
    copy(LinkDirection::both, sent_.bytes());
    gpu_.synchronize();
    return has_numbers(received_.as<float>(), count, salt_of_device) &&
           device_has_numbers(reinterpret_cast<const float*>(up_.data()), count, salt_of_host);
  }

 private:
  void up(std::uint64_t bytes, cudaStream_t stream) const {
    check(cudaMemcpyAsync(up_.data(), sent_.as(), bytes, cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }
  void down(std::uint64_t bytes, cudaStream_t stream) const {
    check(cudaMemcpyAsync(received_.as(), down_.data(), bytes, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
  }

  HostKind kind_;
  Gpu& gpu_;
  HostMemory sent_, received_;
  DeviceArray<std::byte> up_, down_;
  SideStreams side_;
};

}  // namespace

Table transfer(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t usual = std::uint64_t{bench.is_quick() ? 64U : 1024U} << 20;
  const std::uint64_t max_bytes =
      bench.bytes("transfer.most", {.of_host = 0.3}, usual) / sizeof(float) * sizeof(float);
  Measurements rows({{"memory", ColumnType::text},
                     {"way", ColumnType::text},
                     {"at_once", ColumnType::integer, "ranks"},
                     {"bytes", ColumnType::integer, "B"}},
                    {"rate", ColumnType::real, "GB/s"});
  std::unique_ptr<Copies> copies;  // of one kind of memory after the other
  for (const Point& point : bench.points({{"bytes", max_bytes}})) {
    const HostKind kind = kinds.at(point["memory"]);
    const LinkDirection way = ways.at(point["way"]);
    const std::uint64_t bytes = point["bytes"];
    const bool has_all_sizes = kind == HostKind::pageable || kind == HostKind::pinned;
    if (!has_all_sizes && bytes < max_bytes) continue;
    if (!copies || copies->kind() != kind) {
      copies.reset();  // before the next ones take memory
      copies = std::make_unique<Copies>(kind, max_bytes, gpu);
      bench.verify(copies->are_right(),
                   formatted("copies of {} memory", std::string(word_of(kind))));
    }
    const auto copy = [&] { copies->copy(way, bytes); };
    const Timing time = copies->is_enqueued() ? gpu.time(copy) : gpu.time_call(copy);
    const Measured rate = time.rate(static_cast<double>(bytes));
    rows.add({point.cell("memory"), point.cell("way"), std::int64_t{bench.at_once()},
              point.cell("bytes")},
             rate, rate.value / bench.ceiling(ceiling_of(way)), share_of_link(bench, rate.value));
  }
  bench.note(
      "For both ways, the rate is that of one direction while the other one is equally busy. The "
      "host's clock times pageable memory, including the call and the wait for its end.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
