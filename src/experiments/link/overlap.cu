// How much of a copy hides behind a kernel. Cut into n parts, each in a stream of its own, the copy
// of one part runs while the kernel works on another. One part of the shorter stage never overlaps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"
#include "experiments/link/link.hpp"
#include "experiments/link/overlap_model.hpp"

namespace shardstream::experiments::link {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned max_streams = 16;

/// Adds `addend` to each number `steps` times, one multiply-add after the other.
__global__ void work(float* x, std::uint64_t count, float factor, float addend, unsigned steps) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= count) return;
  float value = x[i];
  for (unsigned step = 0; step < steps; ++step) value = fmaf(value, factor, addend);
  x[i] = value;
}

/// Whether each stream gets all of its work before the next one gets any, or first its uploads,
/// then the kernels, then the downloads.
enum class Order { depth_first, breadth_first };

/// Numbers that are uploaded, worked on and, with two ways, downloaded in parts.
class Staged {
 public:
  Staged(std::uint64_t count, Gpu& gpu)
      : count_(count), gpu_(gpu), sent_(count), received_(count), x_(count), side_(max_streams) {
    std::fill_n(sent_.data(), count, 1.0F);
  }

  void upload(unsigned part, unsigned parts, cudaStream_t stream) const {
    const auto [first, size] = range_of(part, parts);
    check(cudaMemcpyAsync(x_.data() + first, sent_.data() + first, size * sizeof(float),
                          cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }
  void compute(unsigned part, unsigned parts, unsigned steps, cudaStream_t stream) const {
    const auto [first, size] = range_of(part, parts);
    work<<<blocks_for(size, threads), threads, 0, stream>>>(x_.data() + first, size, 1, 1, steps);
    check_launch("work");
  }
  void download(unsigned part, unsigned parts, cudaStream_t stream) const {
    const auto [first, size] = range_of(part, parts);
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
  struct Range {
    std::uint64_t first, size;
  };
  Range range_of(unsigned part, unsigned parts) const {
    const std::uint64_t first = count_ * part / parts;
    return {first, count_ * (part + 1) / parts - first};
  }

  std::uint64_t count_;
  Gpu& gpu_;
  PinnedArray<float> sent_, received_;
  DeviceArray<float> x_;
  SideStreams side_;
};

/// Steps that let the kernel take `wanted` seconds.
unsigned steps_for(double wanted, const Staged& data, Gpu& gpu) {
  const auto seconds = [&](unsigned steps) {
    return gpu.time([&] { data.compute(0, 1, steps, gpu.stream()); }).seconds.value;
  };
  constexpr unsigned few = 64, many = 1024;
  const double start = seconds(few), step = (seconds(many) - start) / (many - few);
  return static_cast<unsigned>(std::clamp((wanted - start) / step + few, 1.0, 1e6));
}

/// A measured way to split the work.
struct Case {
  Ways ways;
  Order order;
  unsigned parts;
  Estimate seconds;
};

/// Measures all cases with one length of the kernel. The stages alone are measured before and after
/// the cases and their least times kept: a disturbance only makes a stage longer, and a stage that
/// seems too long would put the bound above the measured times.
class Overlap {
 public:
  Overlap(Bench& bench, Gpu& gpu, const Staged& data) : bench_(bench), gpu_(gpu), data_(data) {}

  void calibrate_copies() {
    keep_min(copies_.up, [&] { data_.upload(0, 1, gpu_.stream()); });
    keep_min(copies_.down, [&] { data_.download(0, 1, gpu_.stream()); });
    keep_min(copies_.both, [&] { data_.copy_both_ways(); });
  }

  void measure(double ratio) {
    const unsigned steps = steps_for(ratio * copies_.up, data_, gpu_);
    Group group{ratio, std::numeric_limits<double>::infinity(), {}};
    const auto calibrate = [&] {
      calibrate_copies();
      keep_min(group.kernel, [&] { data_.compute(0, 1, steps, gpu_.stream()); });
    };
    calibrate();
    for (const Ways ways : {Ways::one, Ways::two}) {
      for (const Order order : {Order::depth_first, Order::breadth_first}) {
        for (unsigned parts = 1; parts <= max_streams; parts *= bench_.is_quick() ? 4 : 2) {
          group.cases.push_back(measure_case(ways, order, parts, steps));
        }
      }
    }
    calibrate();
    groups_.push_back(std::move(group));
  }

  /// After all measurements, since the last calibration may be the best.
  Table table();

 private:
  struct Group {
    double ratio, kernel;  ///< of the kernel to the upload; seconds of the kernel
    std::vector<Case> cases;
  };

  void keep_min(double& seconds, const std::function<void()>& enqueue) {
    seconds = std::min(seconds, gpu_.time(enqueue).seconds.value);
  }
  Case measure_case(Ways ways, Order order, unsigned parts, unsigned steps) {
    data_.clear();
    data_.enqueue(ways, order, parts, steps);
    bench_.verify(data_.is_right(ways, steps), formatted("{} parts", parts));
    return {ways, order, parts,
            gpu_.time([&] { data_.enqueue(ways, order, parts, steps); }).seconds};
  }

  Bench& bench_;
  Gpu& gpu_;
  const Staged& data_;
  Stages copies_{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
                 std::numeric_limits<double>::infinity(), 0};
  std::vector<Group> groups_;
};

std::string remark(double seconds, double predicted, double bound) {
  const double share = predicted / seconds;
  if (seconds < 0.98 * bound) return "below the bound: a stage was disturbed when measured alone";
  if (std::abs(share - 1) < 0.05) return "as predicted";
  if (share > 1) return "faster than predicted";
  return "slower than predicted: small parts do not fill the link or the GPU";
}

Table Overlap::table() {
  Measurements rows({{"case", ColumnType::text},
                     {"kernel", ColumnType::text},
                     {"streams", ColumnType::integer},
                     {"no_overlap", ColumnType::real, "ms"},
                     {"bound", ColumnType::real, "ms"},
                     {"predicted", ColumnType::real, "ms"}},
                    {"time", ColumnType::real, "ms"});
  int cases = 0, fitting = 0;
  for (const Group& group : groups_) {
    Stages t = copies_;
    t.kernel = group.kernel;
    for (const Case& each : group.cases) {
      const double predicted = model(t, each.ways, each.parts), min = bound(t, each.ways);
      const double share = predicted / each.seconds.value;
      ++cases;
      fitting += std::abs(share - 1) < 0.05 ? 1 : 0;
      rows.add({formatted("{}, {} first", std::string(each.ways == Ways::one ? "1 way" : "2 ways"),
                          std::string(each.order == Order::depth_first ? "depth" : "breadth")),
                formatted("{:g} x the copy", group.ratio), std::int64_t{each.parts},
                model(t, each.ways, 1) * 1e3, min * 1e3, predicted * 1e3},
               {each.seconds.value * 1e3, each.seconds.lo * 1e3, each.seconds.hi * 1e3}, share,
               remark(each.seconds.value, predicted, min));
    }
  }
  bench_.note(formatted("{} of {} cases are within 5 % of the prediction.", fitting, cases));
  bench_.note(
      formatted("The upload alone takes {:.3g} ms, the download {:.3g} ms, both at once {:.3g} ms: "
                "the least of several calibrations.",
                copies_.up * 1e3, copies_.down * 1e3, copies_.both * 1e3));
  return std::move(rows).table();
}

}  // namespace

Table overlap(Bench& bench) {
  Gpu gpu(bench);
  const Staged data(bench.bytes("overlap.size") / sizeof(float), gpu);
  Overlap overlap(bench, gpu, data);
  overlap.calibrate_copies();
  for (const double ratio : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    if (bench.is_quick() && (ratio == 0.5 || ratio == 2.0)) continue;
    overlap.measure(ratio);
  }
  return overlap.table();
}

}  // namespace shardstream::experiments::link
