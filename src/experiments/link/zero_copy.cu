// Using host memory over the link instead of copying it. The kernel starts at once, the data does
// not pass through device memory, and transfers overlap with computing by themselves. But every
// further pass goes over the link again, and words that a warp does not use next to each other are
// transferred one by one.
#include <array>
#include <limits>
#include <string>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/overlap_model.hpp"
#include "experiments/link/parts.cuh"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"zero-copy.size", OptionKind::size, "256MiB", "1MiB..",
     "The largest data. With --quick the default is 64 MiB."},
};

Table zero_copy(Bench& bench);

namespace {

constexpr unsigned parts = 8;

/// The time of 4 bytes, and that of the link in the same directions. In parts, it is the time of
/// the model of `overlap`. The kernel on device memory takes no time, unless it computes.
double expected_time(const MeasuredRow& row) {
  const std::string access = row.text("access"), method = row.text("method");
  const bool is_mapped = method == "mapped", is_in_parts = method == "copied in parts";
  if (access.ends_with("by columns") && !is_in_parts) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto on_link = [&](const char* link) { return row["data"] / row.ceiling(link) / 1e3; };
  const double up = on_link("link_up"), down = on_link("link_down"), both = on_link("link_both");
  const Ways ways = access == "read and write" ? Ways::two : Ways::one;
  const double copy = ways == Ways::two ? both : access.starts_with("write") ? down : up;
  const double start = row.measured(
      {{"access", "read"}, {"data", "4"}, {"method", is_mapped ? "mapped" : "copied"}});
  if (is_mapped) return start + (access == "read twice" ? 2 : 1) * copy;
  const Stages stages{.up = ways == Ways::one ? copy : up,
                      .down = down,
                      .both = both,
                      .kernel = access == "read and compute" ? copy : 0};
  return start + model(stages, ways, is_in_parts ? parts : 1);
}

}  // namespace

extern const Experiment about_zero_copy = {
    .name = "zero-copy",
    .group = "link",
    .summary =
        "A kernel can read and write pinned host memory over the link, almost as fast as a copy.",
    .explanation =
        {
            .question = "When may a kernel use host memory over the link instead of a copy?",
            .varies =
                "A kernel adds a number to each word of its data. The data come from host memory "
                "(read), the results go there (write), or both. Three methods: `copied` copies all "
                "data, runs the kernel on device memory, and copies the results back; `copied in "
                "parts` does so in 8 parts, each in its own stream, so that the copies of one part "
                "run beside the kernel of another one; `mapped` runs the kernel alone, on mapped "
                "pinned memory of the host. The sizes begin at 4 bytes. Accesses other than read "
                "and write are measured with the largest data: both at once, with computing, in "
                "two passes, and by the columns of a matrix.",
            .expectation =
                "Small data show the latency of each method: expect `mapped` to win, since one "
                "call of the driver is cheaper than two. For large data that are used once, expect "
                "all methods to take the time of the link: that of 4 bytes, and the bytes over the "
                "rate of the link. Only `copied` makes the copies of both directions one after the "
                "other. In 8 parts, one part passes through all stages alone (see `overlap`). If "
                "the kernel also computes for as long as the copy takes, expect `copied` to take "
                "both times, and the other two little more than one of them: mapped accesses "
                "overlap with computing without any streams. With two passes, expect `mapped` to "
                "take twice the time, because nothing stays on the device; by the columns of a "
                "matrix, where the lanes of a warp use words that are far apart, far more, because "
                "each word needs its own transfer.",
            .pitfalls =
                "Writes of single words may be the slowest, if the host has to complete its cache "
                "lines. Parts of small data take longer than expected, since each part has calls "
                "of its own. The host's clock measures from the first call to the end of the work.",
        },
    .read_on = {{Guide::best_practices, "Zero Copy"}, {Guide::programming, "Mapped Memory"}},
    .share = "of the rate of copies in the same directions",
    .options = options,
    .expected = expected_time,
    .exercise = {.task = "Predict the time in us of the largest data (256 MiB, with --quick 64 "
                         "MiB): `read and compute` with the three methods, and `read twice` with "
                         "mapped memory, if the link carries 55 GB/s.",
                 .rows = {{{"access", "read and compute"}, {"method", "copied"}},
                          {{"access", "read and compute"}, {"method", "copied in parts"}},
                          {{"access", "read and compute"}, {"method", "mapped"}},
                          {{"access", "read twice"}, {"method", "mapped"}}}},
    .figure = {.look = Look::lines,
               .x = "data",
               .y = "time",
               .series = "method",
               .panel = "access",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .needs = {.ceilings = {"link_up", "link_down", "link_both"}},
    .run = with_cuda<zero_copy>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

using enum Side;

/// The use of the host's memory by a kernel.
struct Access {
  const char* name;
  const char* ceiling;  ///< the rate of copies in the same directions
  Sides sides;
  unsigned passes = 1;
  bool by_columns = false;
  bool computes = false;  ///< for as long as the copy takes
};
constexpr std::array accesses = {
    Access{"read", "link_up", {on_host, on_device}},
    Access{"write", "link_down", {on_device, on_host}},
    Access{"read and write", "link_both", {on_host, on_host}},
    Access{"read and compute", "link_up", {on_host, on_device}, 1, false, true},
    Access{"read twice", "link_up", {on_host, on_device}, 2},
    Access{"read by columns", "link_up", {on_host, on_device}, 1, true},
    Access{"write by columns", "link_down", {on_device, on_host}, 1, true},
};
constexpr std::size_t simple = 2;  // the first accesses, which are measured for all sizes

enum class Method { copied, in_parts, mapped };
constexpr std::array methods = {Method::copied, Method::in_parts, Method::mapped};

const char* word_of(Method method) {
  switch (method) {
    case Method::copied:
      return "copied";
    case Method::in_parts:
      return "copied in parts";
    case Method::mapped:
      return "mapped";
  }
  return "";
}

constexpr std::uint64_t pitch = 1024;  // words in a row of the matrix
// Parts of smaller data are too small for the link, or no whole rows.
constexpr std::uint64_t smallest_in_parts = std::uint64_t{1} << 20;
static_assert(smallest_in_parts % (pitch * sizeof(float) * parts) == 0);

/// Neighbouring threads use words of neighbouring rows, `pitch` words apart. `count` must be a
/// multiple of `pitch`.
__global__ void add_one_by_columns(const float* from, float* to, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  const std::uint64_t rows = count / pitch;
  const std::uint64_t place = i % rows * pitch + i / rows;
  if (i < count) to[place] = from[place] + 1;
}

/// Data of one size, which all methods and accesses use.
class Operands {
 public:
  Operands(std::uint64_t bytes, Gpu& gpu) : gpu_(gpu), data_(bytes / sizeof(float)), side_(parts) {}

  const Parts& data() const { return data_; }

  void enqueue(const Access& access, Method method, unsigned steps) const {
    switch (method) {
      case Method::copied:
        return copy_and_run(access, 0, 1, steps, gpu_.stream());
      case Method::in_parts:
        side_.fork(gpu_.stream());
        for (unsigned part = 0; part < parts; ++part) {
          copy_and_run(access, part, parts, steps, side_[part]);
        }
        return side_.join(gpu_.stream());
      case Method::mapped:
        return run(access, 0, 1, steps, gpu_.stream(), access.sides);
    }
  }

  /// Removes all results, and data on the device that the method has to copy there.
  void clear(const Access& access) const {
    data_.clear();
    if (access.sides.reads == on_device) data_.upload(0, 1, gpu_.stream());
    gpu_.synchronize();
  }
  bool are_right(const Access& access, unsigned steps) const {
    return data_.are_right(steps, access.sides.writes);
  }

 private:
  void run(const Access& access, unsigned part, unsigned of, unsigned steps, cudaStream_t stream,
           Sides sides) const {
    for (unsigned pass = 0; pass < access.passes; ++pass) {
      if (!access.by_columns) {
        data_.compute(part, of, steps, stream, sides);
        continue;
      }
      const auto [first, size] = data_.range_of(part, of);
      add_one_by_columns<<<blocks_for(size, Parts::threads), Parts::threads, 0, stream>>>(
          data_.input(sides.reads) + first, data_.output(sides.writes) + first, size);
      check_launch("add_one_by_columns");
    }
  }
  void copy_and_run(const Access& access, unsigned part, unsigned of, unsigned steps,
                    cudaStream_t stream) const {
    if (access.sides.reads == on_host) data_.upload(part, of, stream);
    run(access, part, of, steps, stream, {on_device, on_device});
    if (access.sides.writes == on_host) data_.download(part, of, stream);
  }

  Gpu& gpu_;
  Parts data_;
  SideStreams side_;
};

/// The times of the methods for one access to data of one size, in seconds; NaN before they are
/// measured.
struct Times {
  double copied = std::numeric_limits<double>::quiet_NaN();
  double in_parts = std::numeric_limits<double>::quiet_NaN();
};

std::string remark(Method method, double seconds, const Times& times) {
  if (method == Method::copied) return "a copy and the kernel, one after the other";
  std::string text = formatted("{:.2f} times the time of `copied`", seconds / times.copied);
  if (method == Method::mapped && times.in_parts > 0) {
    text += formatted(", {:.2f} times that of `copied in parts`", seconds / times.in_parts);
  }
  return text;
}

/// The work of the kernels of one access. A step is a multiply-add; by columns it is an addition.
Work work_of(const Access& access, std::uint64_t bytes, unsigned steps) {
  const double words = static_cast<double>(bytes / sizeof(float)) * access.passes;
  return {words * (access.by_columns ? 1 : 2.0 * steps), words * 2 * sizeof(float)};
}

/// Adds the rows of one access to data of one size.
void add(Bench& bench, Gpu& gpu, const Operands& operands, const Access& access,
         std::uint64_t bytes, Measurements& rows) {
  const double useful = static_cast<double>(bytes);
  const unsigned steps = access.computes ? steps_for(useful / bench.ceiling(access.ceiling) / 1e9,
                                                     operands.data(), gpu)
                                         : 1;
  Times times;
  for (const Method method : methods) {
    if (method == Method::in_parts && bytes < smallest_in_parts) continue;
    const auto call = [&] { operands.enqueue(access, method, steps); };
    operands.clear(access);
    call();
    bench.verify(operands.are_right(access, steps),
                 formatted("{}, {}", std::string(access.name), std::string(word_of(method))));
    const Measured seconds = gpu.time_call(call).seconds;
    const double rate = useful / seconds.value / 1e9;
    rows.add({access.name, static_cast<std::int64_t>(bytes), word_of(method), rate},
             seconds.times(1e6), rate / bench.ceiling(access.ceiling),
             remark(method, seconds.value, times), work_of(access, bytes, steps),
             std::numeric_limits<double>::quiet_NaN());
    if (method == Method::copied) times.copied = seconds.value;
    if (method == Method::in_parts) times.in_parts = seconds.value;
  }
}

}  // namespace

Table zero_copy(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t usual = std::uint64_t{bench.is_quick() ? 64U : 256U} << 20;
  constexpr std::uint64_t granule = pitch * sizeof(float) * parts;
  // The host holds the data and the results.
  const std::uint64_t max_bytes =
      bench.bytes("zero-copy.size", {.of_host = 0.3}, usual) / granule * granule;
  Measurements rows({{"access", ColumnType::text},
                     {"data", ColumnType::integer, "B"},
                     {"method", ColumnType::text},
                     {"rate", ColumnType::real, "GB/s"}},
                    {"time", ColumnType::real, "us"}, Rows::of_kernels);
  for (const std::uint64_t bytes : sizes_up_to(sizeof(float), max_bytes, 64)) {
    const Operands operands(bytes, gpu);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      if (i >= simple && bytes < max_bytes) continue;
      add(bench, gpu, operands, accesses.at(i), bytes, rows);
    }
  }
  bench.note(
      "`rate` is that of the data in one direction, each word counted once. `operations` and "
      "`bytes` are those of the kernel alone.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
