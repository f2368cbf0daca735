// Overlap of copies with a kernel. The work is split into n parts, each in its own stream: while
// one part is copied, the kernel processes another one. One part of the shorter stage never
// overlaps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/overlap_model.hpp"
#include "experiments/link/parts.cuh"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"overlap.size", OptionKind::size, "256MiB", "1MiB..", "Data that is copied."},
};

Table overlap(Bench& bench);

extern const Experiment about_overlap = {
    .name = "overlap",
    .group = "link",
    .summary = "Work that is split over several streams overlaps copies with kernels.",
    .explanation =
        "An upload and a kernel (one way), or an upload, a kernel and a download (two ways), are "
        "split into 1 to 16 parts, each on its own stream. The kernel takes 0.25 to 4 times as "
        "long as the upload. Depth first enqueues all work of one stream before that of the next "
        "one; breadth first enqueues all uploads, then all kernels, then all downloads. "
        "`no_overlap` is the sum of all stages, `bound` is the longest stage, and `predicted` is "
        "a model: one of n parts passes through all stages alone, and each of the other n - 1 "
        "parts adds its share of the longest stage. For one way, with copy time t_T and kernel "
        "time t_E, this is t_E + t_T/n if the kernel takes longer, else t_T + t_E/n. For two "
        "ways, uploads and downloads share the link. Expect times within 5 % of the model, and "
        "no difference between the orders: only early GPUs had one queue for all streams. CUDA "
        "C++ Best Practices Guide, section Asynchronous and Overlapping Transfers with "
        "Computation.",
    .share = "the predicted time over the measured one",
    .options = options,
    .figure = {.look = Look::lines,
               .x = "streams",
               .y = "time",
               .series = "kernel",
               .panel = "case",
               .reference_lines = {"predicted", "bound"},
               .log_x = true,
               .more_is_better = false},
    .run = with_cuda<overlap>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned max_streams = 16;
constexpr double not_timed = std::numeric_limits<double>::infinity();  // above every minimum

/// The order in which stages are enqueued: all stages of one part after the other, or all uploads,
/// then all kernels, then all downloads.
enum class Order { depth_first, breadth_first };

/// The work, split over streams.
class Staged {
 public:
  Staged(std::uint64_t count, Gpu& gpu) : gpu_(gpu), data_(count), side_(max_streams) {}

  const Parts& data() const { return data_; }

  /// All of the work in `parts` parts, each on its own stream.
  void enqueue(Ways ways, Order order, unsigned parts, unsigned steps) const {
    side_.fork(gpu_.stream());
    const auto stage = [&](unsigned number, unsigned part) {
      if (number == 0) data_.upload(part, parts, side_[part]);
      if (number == 1) data_.compute(part, parts, steps, side_[part]);
      if (number == 2) data_.download(part, parts, side_[part]);
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

  /// An upload and a download of all data at the same time.
  void copy_both_ways() const {
    side_.fork(gpu_.stream());
    data_.upload(0, 1, side_[0]);
    data_.download(0, 1, side_[1]);
    side_.join(gpu_.stream());
  }

 private:
  Gpu& gpu_;
  Parts data_;
  SideStreams side_;
};

/// One way to split the work, with its time.
struct Case {
  Ways ways;
  Order order;
  unsigned parts;
  Measured seconds;
};

/// Measures the cases for each length of the kernel. Each stage is also timed alone, before and
/// after the cases, and its minimum is kept: a disturbance only makes a stage longer, and a stage
/// that seems too long would put the bound above the measured times.
class Overlap {
 public:
  Overlap(Bench& bench, Gpu& gpu, const Staged& data) : bench_(bench), gpu_(gpu), data_(data) {}

  void calibrate_copies() {
    keep_min(copies_.up, [&] { data_.data().upload(0, 1, gpu_.stream()); });
    keep_min(copies_.down, [&] { data_.data().download(0, 1, gpu_.stream()); });
    keep_min(copies_.both, [&] { data_.copy_both_ways(); });
  }

  void measure(double ratio) {
    const unsigned steps = steps_for(ratio * copies_.up, data_.data(), gpu_);
    Group group{ratio, not_timed, {}};
    const auto calibrate = [&] {
      calibrate_copies();
      keep_min(group.kernel, [&] { data_.data().compute(0, 1, steps, gpu_.stream()); });
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

  /// Call it after all measurements, since the last calibration may be the best one.
  Table table();

 private:
  struct Group {
    double ratio, kernel;  ///< kernel time over upload time; seconds of the kernel
    std::vector<Case> cases;
  };

  void keep_min(double& seconds, const std::function<void()>& enqueue) {
    seconds = std::min(seconds, gpu_.time(enqueue).seconds.value);
  }
  Case measure_case(Ways ways, Order order, unsigned parts, unsigned steps) {
    data_.data().clear(gpu_.stream());
    data_.enqueue(ways, order, parts, steps);
    bench_.verify(data_.data().are_right(steps, ways == Ways::two), formatted("{} parts", parts));
    return {ways, order, parts,
            gpu_.time([&] { data_.enqueue(ways, order, parts, steps); }).seconds};
  }

  Bench& bench_;
  Gpu& gpu_;
  const Staged& data_;
  Stages copies_{not_timed, not_timed, not_timed, not_timed};
  std::vector<Group> groups_;
};

std::string remark(double seconds, double predicted, double bound) {
  const double share = predicted / seconds;
  if (seconds < 0.98 * bound)
    return "below the bound: a stage was disturbed when it was timed alone";
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
      const double predicted = model(t, each.ways, each.parts), longest = bound(t, each.ways);
      const double share = predicted / each.seconds.value;
      ++cases;
      fitting += std::abs(share - 1) < 0.05 ? 1 : 0;
      rows.add({formatted("{}, {} first", std::string(each.ways == Ways::one ? "1 way" : "2 ways"),
                          std::string(each.order == Order::depth_first ? "depth" : "breadth")),
                formatted("{:g} x the copy", group.ratio), std::int64_t{each.parts},
                model(t, each.ways, 1) * 1e3, longest * 1e3, predicted * 1e3},
               each.seconds.times(1e3), share, remark(each.seconds.value, predicted, longest));
    }
  }
  bench_.note(formatted("{} of {} cases are within 5 % of the prediction.", fitting, cases));
  bench_.note(
      formatted("The upload alone takes {:.3g} ms, the download {:.3g} ms, both at once {:.3g} ms "
                "(the minimum of several calibrations).",
                copies_.up * 1e3, copies_.down * 1e3, copies_.both * 1e3));
  return std::move(rows).table();
}

}  // namespace

Table overlap(Bench& bench) {
  Gpu gpu(bench);
  // The host holds the sent and the received data, and a copy of the latter for the check.
  const Staged data(bench.bytes("overlap.size", {.of_host = 0.25}) / sizeof(float), gpu);
  Overlap overlap(bench, gpu, data);
  overlap.calibrate_copies();
  for (const double ratio : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    if (bench.is_quick() && (ratio == 0.5 || ratio == 2.0)) continue;
    overlap.measure(ratio);
  }
  return overlap.table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
