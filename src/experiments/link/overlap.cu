// How much of a copy hides behind a kernel. Cut into n parts, each in a stream of its own, the copy
// of one part runs while the kernel works on another. One part of the shorter stage never overlaps.
#include <algorithm>
#include <array>
#include <string>

#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"
#include "experiments/link/link.hpp"

namespace shardstream::experiments::link {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned most_streams = 16;

/// Adds `addend` to each number `steps` times, one multiply-add after the other.
__global__ void work(float* x, std::uint64_t count, float factor, float addend, unsigned steps) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= count) return;
  float value = x[i];
  for (unsigned step = 0; step < steps; ++step) value = fmaf(value, factor, addend);
  x[i] = value;
}

enum class Ways { one, two };  ///< upload and kernel; then a download as well
/// Whether each stream gets all of its work before the next one gets any, or first its uploads,
/// then the kernels, then the downloads.
enum class Order { depth_first, breadth_first };

/// Numbers that are uploaded, worked on and, with two ways, downloaded in parts.
class Staged {
 public:
  Staged(std::uint64_t count, Gpu& gpu)
      : count_(count), gpu_(gpu), sent_(count), received_(count), x_(count), side_(most_streams) {
    std::fill_n(sent_.data(), count, 1.0F);
  }

  void upload(unsigned part, unsigned parts, cudaStream_t stream) const {
    const std::uint64_t first = begin_of(part, parts), size = begin_of(part + 1, parts) - first;
    check(cudaMemcpyAsync(x_.data() + first, sent_.data() + first, size * sizeof(float),
                          cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }
  void compute(unsigned part, unsigned parts, unsigned steps, cudaStream_t stream) const {
    const std::uint64_t first = begin_of(part, parts), size = begin_of(part + 1, parts) - first;
    work<<<blocks_for(size, threads), threads, 0, stream>>>(x_.data() + first, size, 1, 1, steps);
    check_launch("work");
  }
  void download(unsigned part, unsigned parts, cudaStream_t stream) const {
    const std::uint64_t first = begin_of(part, parts), size = begin_of(part + 1, parts) - first;
    check(cudaMemcpyAsync(received_.data() + first, x_.data() + first, size * sizeof(float),
                          cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
  }

  /// All of it in `parts` parts.
  void enqueue(Ways ways, Order order, unsigned parts, unsigned steps) const {
    side_.fork(gpu_.stream());
    const auto stage = [&](unsigned number, unsigned part) {
      if (number == 0) upload(part, parts, side_[part]);
      if (number == 1) compute(part, parts, steps, side_[part]);
      if (number == 2) download(part, parts, side_[part]);
    };
    const unsigned stages = ways == Ways::one ? 2 : 3;
    for (unsigned i = 0; i < stages * parts; ++i) {
      if (order == Order::depth_first) {
        stage(i % stages, i / stages);
      } else {
        stage(i / parts, i % parts);
      }
    }
    side_.join(gpu_.stream());
  }

  /// An upload and a download of everything, at the same time.
  void copy_both_ways() const {
    side_.fork(gpu_.stream());
    upload(0, 1, side_[0]);
    download(0, 1, side_[1]);
    side_.join(gpu_.stream());
  }

  void clear() const {
    x_.clear(gpu_.stream());
    std::fill_n(received_.data(), count_, 0.0F);
  }
  /// Whether each number has become 1 + `steps`, on the device and, with two ways, on the host.
  bool is_right(Ways ways, unsigned steps) const {
    const auto is_wrong = [&](float value) { return value != 1 + static_cast<float>(steps); };
    const std::vector<float> x = x_.read();
    if (std::ranges::any_of(x, is_wrong)) return false;
    return ways == Ways::one || std::none_of(received_.data(), received_.data() + count_, is_wrong);
  }

 private:
  std::uint64_t begin_of(unsigned part, unsigned parts) const { return count_ * part / parts; }

  std::uint64_t count_;
  Gpu& gpu_;
  PinnedArray<float> sent_, received_;
  DeviceArray<float> x_;
  SideStreams side_;
};

/// Seconds of each stage alone, of all data at once.
struct Stages {
  double up, down, both, kernel;
};

/// What no number of parts can beat.
double bound(const Stages& t, Ways ways) {
  return std::max(ways == Ways::one ? t.up : t.both, t.kernel);
}

/// What to expect of `parts` parts in seconds. One part passes all stages alone; while it does, or
/// after that, the longest stage handles the others. With one way this is t_T + t_E/n or
/// t_E + t_T/n (CUDA C++ Best Practices Guide, section Asynchronous and Overlapping Transfers with
/// Computation).
double model(const Stages& t, Ways ways, unsigned parts) {
  const double alone = t.up + t.kernel + (ways == Ways::two ? t.down : 0);
  return (alone + (parts - 1) * bound(t, ways)) / parts;
}

/// Steps that let the kernel take `wanted` seconds.
unsigned steps_for(double wanted, const Staged& data, Gpu& gpu) {
  const auto seconds = [&](unsigned steps) {
    return gpu.time([&] { data.compute(0, 1, steps, gpu.stream()); }).seconds.value;
  };
  constexpr unsigned few = 64, many = 1024;
  const double start = seconds(few), step = (seconds(many) - start) / (many - few);
  return static_cast<unsigned>(std::clamp((wanted - start) / step + few, 1.0, 1e6));
}

class Overlap {
 public:
  Overlap(Bench& bench, Gpu& gpu, const Staged& data, Measurements& rows)
      : bench_(bench), gpu_(gpu), data_(data), rows_(rows) {}

  void add(Ways ways, Order order, unsigned parts, unsigned steps, const Stages& t, double ratio) {
    data_.clear();
    data_.enqueue(ways, order, parts, steps);
    bench_.verify(data_.is_right(ways, steps), formatted("{} parts", parts));
    const Estimate seconds = gpu_.time([&] { data_.enqueue(ways, order, parts, steps); }).seconds;
    const double expected = model(t, ways, parts), share = expected / seconds.value;
    const bool fits = std::abs(share - 1) < 0.05;
    ++cases_;
    fitting_ += fits ? 1 : 0;
    const std::string name = formatted(
        "{} way{}, {} first", ways == Ways::one ? 1 : 2, std::string(ways == Ways::one ? "" : "s"),
        std::string(order == Order::depth_first ? "depth" : "breadth"));
    rows_.add({name, formatted("{:g} x the copy", ratio), std::int64_t{parts},
               model(t, ways, 1) * 1e3, bound(t, ways) * 1e3, expected * 1e3},
              {seconds.value * 1e3, seconds.lo * 1e3, seconds.hi * 1e3}, share,
              fits        ? "as the model says"
              : share > 1 ? "faster than the model"
                          : "slower than the model: small parts do not fill the link or the GPU");
  }
  std::string note() const {
    return formatted("{} of {} cases are within 5 % of the model, the share.", fitting_, cases_);
  }

 private:
  Bench& bench_;
  Gpu& gpu_;
  const Staged& data_;
  Measurements& rows_;
  int cases_ = 0, fitting_ = 0;
};

}  // namespace

Table overlap(Bench& bench) {
  Gpu gpu(bench);
  const Staged data(bench.bytes("overlap.size") / sizeof(float), gpu);
  Measurements rows({{"case", ColumnType::text},
                     {"kernel", ColumnType::text},
                     {"streams", ColumnType::integer},
                     {"no_overlap", ColumnType::real, "ms"},
                     {"bound", ColumnType::real, "ms"},
                     {"predicted", ColumnType::real, "ms"}},
                    {"time", ColumnType::real, "ms"});
  Overlap overlap(bench, gpu, data, rows);
  const auto seconds = [&](const std::function<void()>& enqueue) {
    return gpu.time(enqueue).seconds.value;
  };
  Stages t{};
  t.up = seconds([&] { data.upload(0, 1, gpu.stream()); });
  t.down = seconds([&] { data.download(0, 1, gpu.stream()); });
  t.both = seconds([&] { data.copy_both_ways(); });
  for (const double ratio : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    if (bench.is_quick() && (ratio == 0.5 || ratio == 2.0)) continue;
    const unsigned steps = steps_for(ratio * t.up, data, gpu);
    t.kernel = seconds([&] { data.compute(0, 1, steps, gpu.stream()); });
    for (const Ways ways : {Ways::one, Ways::two}) {
      for (const Order order : {Order::depth_first, Order::breadth_first}) {
        for (unsigned parts = 1; parts <= most_streams; parts *= bench.is_quick() ? 4 : 2) {
          overlap.add(ways, order, parts, steps, t, ratio);
        }
      }
    }
  }
  bench.note(overlap.note());
  bench.note(
      formatted("The upload alone takes {:.3g} ms, the download {:.3g} ms, both at once "
                "{:.3g} ms.",
                t.up * 1e3, t.down * 1e3, t.both * 1e3));
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::link
