// Overlap of copies with a kernel. The work is split into n parts, each in its own stream: while
// one part is copied, the kernel processes another one. One part of the shorter stage never
// overlaps. Further cases show what overlaps less, or overlaps otherwise: pageable memory, the
// default stream, copies inside the device, and a function of the host.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/overlap_model.hpp"
#include "experiments/link/parts.cuh"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"overlap.size", OptionKind::size, "256MiB", "1MiB..",
     "Data that is copied; half of it in pageable memory. With --quick the default is 64 MiB."},
};

Table overlap(Bench& bench);

extern const Experiment about_overlap = {
    .name = "overlap",
    .group = "link",
    .summary = "Work that is split over several streams overlaps copies with kernels.",
    .explanation =
        {
            .question =
                "How much time does it save to split a copy and a kernel into parts on several "
                "streams?",
            .varies =
                "An upload and a kernel (one way), or an upload, a kernel and a download (two "
                "ways), are split into 1, 4 or 16 parts, each on its own stream. The kernel takes "
                "0.25 to 4 times as long as the upload. Depth first enqueues all work of one "
                "stream before that of the next one; breadth first, which is measured for a kernel "
                "as long as the upload, enqueues all uploads, then all kernels, then all "
                "downloads. `no_overlap` is the sum of all stages, `bound` is the longest stage, "
                "and `predicted` is a model. Further cases: all parts in the legacy default "
                "stream; pageable memory; a copy inside the device beside a kernel, in one stream "
                "and in two; and a function of the host, after a wait for the GPU and beside its "
                "work.",
            .expectation =
                "In the model, one of n parts passes through all stages alone, and each of the "
                "other n - 1 parts adds its share of the longest stage. For one way, with copy "
                "time t_T and kernel time t_E, this is t_E + t_T/n if the kernel takes longer, "
                "else t_T + t_E/n. For two ways, uploads and downloads share the link. Expect "
                "times within 5 % of the model unless the parts are small, since each copy takes "
                "some microseconds more, and no difference between the orders: only early GPUs had "
                "one queue for all streams. Expect no overlap in the legacy default stream. The "
                "host makes copies of pageable memory while it enqueues them: expect overlap only "
                "depth first, when kernels are enqueued between the copies. The multiprocessors "
                "make a copy inside the device: expect it to be hidden if the kernel uses half of "
                "the GPU, and not if the kernel fills it.",
            .pitfalls =
                "Calls of the further cases may wait, so the host's clock times them, except for "
                "the copies inside the device.",
        },
    .read_on = {{Guide::best_practices, "Asynchronous and Overlapping Transfers with Computation"},
                {Guide::programming, "Concurrent Data Transfers"}},
    .share = "the predicted time over the measured one",
    .options = options,
    .exercise =
        {.task = "Predict the time in ms of an upload of 256 MiB (with --quick 64 MiB) at "
                 "55 GB/s and a kernel that takes as long: depth first in 1, 4 and 16 parts, and "
                 "in 4 parts in the default stream.",
         .rows = {{{"case", "1 way, depth first"}, {"kernel", "1 x the copy"}, {"parts", "1"}},
                  {{"case", "1 way, depth first"}, {"kernel", "1 x the copy"}, {"parts", "4"}},
                  {{"case", "1 way, depth first"}, {"kernel", "1 x the copy"}, {"parts", "16"}},
                  {{"case", "default stream, depth first"}, {"parts", "4"}}}},
    .figure = {.look = Look::lines,
               .x = "parts",
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

constexpr unsigned max_parts = 16;
constexpr double not_timed = std::numeric_limits<double>::infinity();  // above every minimum

/// A row of the table. Times are in seconds.
struct Row {
  std::string name, kernel;
  unsigned parts;
  double no_overlap, bound, predicted;
  Measured seconds;

  /// Whether the time is within 5 % of the prediction.
  bool is_as_predicted() const { return std::abs(predicted / seconds.value - 1) < 0.05; }
};

/// The order in which stages are enqueued: all stages of one part after the other, or all uploads,
/// then all kernels, then all downloads.
enum class Order { depth_first, breadth_first };
const char* word_of(Order order) {
  return order == Order::depth_first ? "depth first" : "breadth first";
}

/// The work, split into parts.
class Staged {
 public:
  Staged(std::uint64_t count, HostKind kind, Gpu& gpu)
      : gpu_(gpu), data_(count, kind), side_(max_parts) {}

  const Parts& data() const { return data_; }
  const SideStreams& side() const { return side_; }

  /// All of the work in `parts` parts, in their own streams, before later work of the main stream.
  void enqueue(Ways ways, Order order, unsigned parts, unsigned steps) const {
    side_.fork(gpu_.stream());
    enqueue(ways, order, parts, steps, [&](unsigned part) { return side_[part]; });
    side_.join(gpu_.stream());
  }
  /// The same in the given streams, without order to other streams.
  void enqueue(Ways ways, Order order, unsigned parts, unsigned steps,
               const std::function<cudaStream_t(unsigned part)>& stream_of) const {
    const auto stage = [&](unsigned number, unsigned part) {
      if (number == 0) data_.upload(part, parts, stream_of(part));
      if (number == 1) data_.compute(part, parts, steps, stream_of(part));
      if (number == 2) data_.download(part, parts, stream_of(part));
    };
    const unsigned stages = ways == Ways::one ? 2 : 3;
    for (unsigned i = 0; i < stages * parts; ++i) {
      if (order == Order::depth_first) {
        stage(i % stages, i / stages);
      } else {
        stage(i / parts, i % parts);
      }
    }
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

/// Measures the model's cases for each length of the kernel. Each stage is also timed alone, before
/// and after the cases, and its minimum is kept: a disturbance only makes a stage longer, and a
/// stage that seems too long would put the bound above the measured times.
class Overlap {
 public:
  Overlap(Bench& bench, Gpu& gpu, const Staged& staged)
      : bench_(bench), gpu_(gpu), staged_(staged) {
    calibrate_copies();
  }

  const Stages& copies() const { return copies_; }

  void measure(double ratio) {
    const Parts& data = staged_.data();
    const unsigned steps = steps_for(ratio * copies_.up, data, gpu_);
    Group group{ratio, not_timed, {}};
    const auto calibrate = [&] {
      calibrate_copies();
      keep_min(group.kernel, [&] { data.compute(0, 1, steps, gpu_.stream()); });
    };
    calibrate();
    for (const Ways ways : {Ways::one, Ways::two}) {
      for (const Order order : {Order::depth_first, Order::breadth_first}) {
        if (order == Order::breadth_first && ratio != 1) continue;
        for (unsigned parts = 1; parts <= max_parts; parts *= 4) {
          group.cases.push_back({ways, order, parts, time(ways, order, parts, steps)});
        }
      }
    }
    calibrate();
    groups_.push_back(std::move(group));
  }

  /// Call it after all measurements, since the last calibration may be the best one.
  std::vector<Row> rows() const;

 private:
  struct Case {
    Ways ways;
    Order order;
    unsigned parts;
    Measured seconds;
  };
  struct Group {
    double ratio, kernel;  ///< kernel time over upload time; seconds of the kernel
    std::vector<Case> cases;
  };

  void keep_min(double& seconds, const std::function<void()>& enqueue) {
    seconds = std::min(seconds, gpu_.time(enqueue).seconds.value);
  }
  void calibrate_copies() {
    keep_min(copies_.up, [&] { staged_.data().upload(0, 1, gpu_.stream()); });
    keep_min(copies_.down, [&] { staged_.data().download(0, 1, gpu_.stream()); });
    keep_min(copies_.both, [&] { staged_.copy_both_ways(); });
  }
  Measured time(Ways ways, Order order, unsigned parts, unsigned steps) {
    staged_.data().clear();
    staged_.enqueue(ways, order, parts, steps);
    const Side results = ways == Ways::one ? Side::on_device : Side::on_host;
    bench_.verify(staged_.data().are_right(steps, results), formatted("{} parts", parts));
    return gpu_.time([&] { staged_.enqueue(ways, order, parts, steps); }).seconds;
  }

  Bench& bench_;
  Gpu& gpu_;
  const Staged& staged_;
  Stages copies_{not_timed, not_timed, not_timed, not_timed};
  std::vector<Group> groups_;
};

std::vector<Row> Overlap::rows() const {
  std::vector<Row> rows;
  for (const Group& group : groups_) {
    Stages t = copies_;
    t.kernel = group.kernel;
    for (const auto& [ways, order, parts, seconds] : group.cases) {
      rows.push_back({formatted("{}, {}", std::string(ways == Ways::one ? "1 way" : "2 ways"),
                                std::string(word_of(order))),
                      formatted("{:g} x the copy", group.ratio), parts, model(t, ways, 1),
                      bound(t, ways), model(t, ways, parts), seconds});
    }
  }
  return rows;
}

enum class Expected { no_overlap, overlap };

/// Cases that differ from the model: one way, with a kernel as long as the copy.
class OtherCases {
 public:
  OtherCases(Bench& bench, Gpu& gpu, std::vector<Row>& rows)
      : bench_(bench), gpu_(gpu), rows_(rows) {}

  /// Parts in the streams that `stream_of` returns.
  void add(const char* memory, Order order, Expected expected, const Staged& staged,
           const std::function<cudaStream_t(unsigned part)>& stream_of);

  /// A copy inside the device beside a kernel, which fills the GPU or uses half of it.
  void add_device_copies(const Staged& staged);

  /// A function of the host that takes as long as the work of the GPU, beside that work or after a
  /// wait for it.
  void add_host_work(const Staged& staged);

 private:
  /// The seconds until all work of the device is done, by the host's clock.
  Measured by_host(const std::function<void()>& call) {
    return gpu_
        .time_call([&] {
          call();
          check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        })
        .seconds;
  }

  Bench& bench_;
  Gpu& gpu_;
  std::vector<Row>& rows_;
};

void OtherCases::add(const char* memory, Order order, Expected expected, const Staged& staged,
                     const std::function<cudaStream_t(unsigned part)>& stream_of) {
  const Parts& data = staged.data();
  const double up = by_host([&] { data.upload(0, 1, stream_of(0)); }).value;
  const unsigned steps = steps_for(up, data, gpu_);
  const double kernel = by_host([&] { data.compute(0, 1, steps, stream_of(0)); }).value;
  const Stages t{up, not_timed, not_timed, kernel};
  for (unsigned parts = 1; parts <= max_parts; parts *= 4) {
    const auto call = [&] { staged.enqueue(Ways::one, order, parts, steps, stream_of); };
    data.clear();
    call();
    bench_.verify(data.are_right(steps, Side::on_device), memory);
    rows_.push_back({formatted("{}, {}", std::string(memory), std::string(word_of(order))),
                     "1 x the copy", parts, up + kernel, bound(t, Ways::one),
                     model(t, Ways::one, expected == Expected::overlap ? parts : 1),
                     by_host(call)});
  }
}

void OtherCases::add_device_copies(const Staged& staged) {
  const Parts& data = staged.data();
  const DeviceArray<float> target(data.bytes() / sizeof(float));
  const auto copy = [&](cudaStream_t stream) {
    check(cudaMemcpyAsync(target.data(), data.input(Side::on_device), target.bytes(),
                          cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
  };
  const double alone = gpu_.time([&] { copy(gpu_.stream()); }).seconds.value;
  const auto half = Parts::threads * std::uint64_t(gpu_.properties().multiProcessorCount) / 2;
  for (const bool fills : {true, false}) {
    const unsigned parts = fills ? 1 : static_cast<unsigned>(target.size() / half);
    const unsigned steps = steps_for(2 * alone, data, gpu_, parts);
    const auto compute = [&](cudaStream_t stream) { data.compute(0, parts, steps, stream); };
    const double kernel = gpu_.time([&] { compute(gpu_.stream()); }).seconds.value;
    for (const unsigned streams : {1U, 2U}) {
      const auto run = [&] {
        staged.side().fork(gpu_.stream());
        compute(staged.side()[0]);
        copy(staged.side()[streams - 1]);
        staged.side().join(gpu_.stream());
      };
      data.clear();
      data.upload(0, 1, gpu_.stream());
      target.clear(gpu_.stream());
      run();
      gpu_.synchronize();
      bench_.verify(Parts::is_right_on_device(target.data(), target.size(), 0) &&
                        Parts::is_right_on_device(data.output(Side::on_device),
                                                  data.range_of(0, parts).size, steps),
                    "a copy inside the device");
      const double longer = std::max(alone, kernel);
      rows_.push_back(
          {formatted("device copy, {} stream{}", streams, std::string(streams == 1 ? "" : "s")),
           fills ? "2 x the copy" : "2 x the copy, half the GPU", 1, alone + kernel, longer,
           streams == 1 || fills ? alone + kernel : longer, gpu_.time(run).seconds});
    }
  }
}

void OtherCases::add_host_work(const Staged& staged) {
  const Parts& data = staged.data();
  const auto up = [&] { data.upload(0, 1, gpu_.stream()); };
  const unsigned steps = steps_for(gpu_.time(up).seconds.value, data, gpu_);
  const auto enqueue = [&] {
    up();
    data.compute(0, 1, steps, gpu_.stream());
  };
  data.clear();
  enqueue();
  bench_.verify(data.are_right(steps, Side::on_device), "an upload and a kernel");
  const double alone = by_host(enqueue).value;
  const auto function_of_host = [&] {
    for (const auto begin = Clock::now(); seconds_since(begin) < alone;) {
    }
  };
  const Measured after = by_host([&] {
    enqueue();
    gpu_.synchronize();
    function_of_host();
  });
  const Measured beside = by_host([&] {
    enqueue();
    function_of_host();
  });
  constexpr const char* kernel = "1 x the copy";
  rows_.push_back({"host works after a wait", kernel, 1, 2 * alone, alone, 2 * alone, after});
  rows_.push_back({"host works beside", kernel, 1, 2 * alone, alone, alone, beside});
}

/// Compares a time with the prediction. `hidden` is the part of the shorter stages that ran beside
/// the longest one.
std::string remark(const Row& row) {
  const double seconds = row.seconds.value;
  if (seconds < 0.98 * row.bound) {
    return "below the bound: a stage was disturbed when it was timed alone";
  }
  const double hidden = (row.no_overlap - seconds) / (row.no_overlap - row.bound);
  return formatted("{}: {:.0f} % of the shorter stages is hidden",
                   std::string(row.is_as_predicted()     ? "as predicted"
                               : row.predicted > seconds ? "faster than predicted"
                                                         : "slower than predicted"),
                   100 * std::clamp(hidden, 0.0, 1.0));
}

Table table_of(const std::vector<Row>& all) {
  Measurements rows({{"case", ColumnType::text},
                     {"kernel", ColumnType::text},
                     {"parts", ColumnType::integer},
                     {"no_overlap", ColumnType::real, "ms"},
                     {"bound", ColumnType::real, "ms"},
                     {"predicted", ColumnType::real, "ms"}},
                    {"time", ColumnType::real, "ms"});
  for (const Row& row : all) {
    rows.add({row.name, row.kernel, std::int64_t{row.parts}, row.no_overlap * 1e3, row.bound * 1e3,
              row.predicted * 1e3},
             row.seconds.times(1e3), row.predicted / row.seconds.value, remark(row));
  }
  return std::move(rows).table();
}

/// The cases in pinned memory.
std::vector<Row> rows_of_pinned(Bench& bench, Gpu& gpu, std::uint64_t count) {
  const Staged staged(count, HostKind::pinned, gpu);
  Overlap overlap(bench, gpu, staged);
  for (const double ratio : {0.25, 1.0, 4.0}) overlap.measure(ratio);
  const Stages& copies = overlap.copies();
  bench.note(
      formatted("The upload alone takes {:.3g} ms, the download {:.3g} ms, both at once {:.3g} ms "
                "(the minimum of several calibrations).",
                copies.up * 1e3, copies.down * 1e3, copies.both * 1e3));
  std::vector<Row> rows = overlap.rows();
  OtherCases others(bench, gpu, rows);
  others.add("default stream", Order::depth_first, Expected::no_overlap, staged,
             [](unsigned) { return cudaStreamLegacy; });
  others.add_device_copies(staged);
  others.add_host_work(staged);
  return rows;
}

}  // namespace

Table overlap(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t usual = std::uint64_t{bench.is_quick() ? 64U : 256U} << 20;
  // The host holds the sent and the received data, the device two or three arrays.
  const std::uint64_t count =
      bench.bytes("overlap.size", {.of_device = 0.3, .of_host = 0.25}, usual) / sizeof(float);
  std::vector<Row> rows = rows_of_pinned(bench, gpu, count);
  const Staged pageable(count / 2, HostKind::pageable, gpu);
  OtherCases others(bench, gpu, rows);
  for (const Order order : {Order::depth_first, Order::breadth_first}) {
    others.add("pageable", order,
               order == Order::depth_first ? Expected::overlap : Expected::no_overlap, pageable,
               [&](unsigned part) { return pageable.side()[part]; });
  }
  bench.note(formatted("{} of {} cases are within 5 % of the prediction.",
                       std::ranges::count_if(rows, &Row::is_as_predicted), rows.size()));
  return table_of(rows);
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
