// The width of loads and the alignment of rows. One instruction loads 1, 2, 4, 8 or 16 bytes that
// are aligned to their size; a record of another size needs several. If the length of a row is not
// a multiple of a line, rows begin in the middle of a line, unless they are padded (a pitch).
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/count_wrong.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/helper_processes.hpp"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"alignment.size", OptionKind::size, "1GiB", "1MiB..", "Size of each array."},
};

Table alignment(Bench& bench);
void alignment_helper(HelperEnd& end);

namespace {

/// The rate of words of `bytes` bytes: it grows with the bytes in flight up to the rate of a copy.
double rate_of_words(const MeasuredRow& row, double bytes) {
  const double of_byte = row.measured({{"case", "1 byte"}});
  return std::min(bytes * of_byte, row.ceiling("device_copy"));
}

double expected_rate(const MeasuredRow& row) {
  const std::string name = row.text("case");
  if (name == "12 in 16 bytes") return rate_of_words(row, 16) * 12 / 16;
  if (name.starts_with("rows")) return row.measured({{"case", "4 bytes"}});
  return rate_of_words(row, std::strtod(name.c_str(), nullptr));
}

}  // namespace

extern const Experiment about_alignment = {
    .name = "alignment",
    .group = "memory",
    .summary = "Wide aligned loads move more bytes with each instruction.",
    .explanation =
        {
            .question = "Which size and alignment of the words of a thread give the highest rate?",
            .varies =
                "Arrays are copied in words of 1, 2, 4, 8 and 16 bytes per thread; in records of "
                "12 bytes, and in the same records padded to 16; and as rows of 1001 floats, "
                "without padding and with padding to a pitch of 1024. The rate counts useful "
                "bytes: 12 of each padded record, although 16 are moved. A note has the error of a "
                "load of 16 bytes at an address that is no multiple of 16; a helper process tries "
                "it.",
            .expectation =
                "One instruction loads 1, 2, 4, 8 or 16 bytes that are aligned to their size; "
                "records of another size need several. Expect narrow words to be slower, because "
                "too few bytes are in flight. The bytes in flight grow with the size of the word: "
                "with twice as many, expect twice the rate, until it is that of a copy. Padded "
                "records need one load in place of three, but move a third more bytes, which "
                "leaves three quarters of the rate of a copy; a remark says which of the two "
                "weighs more here. Rows are copied in words of 4 bytes, so expect their rate with "
                "any pitch: a cache keeps the sectors that two warps share. The hardware does not "
                "split a misaligned access: expect cudaErrorMisalignedAddress.",
            .pitfalls =
                "A compiler cannot check the cast of a pointer: a misaligned access is found only "
                "when the kernel runs, and its error destroys the context. With MPS, it could end "
                "other processes, too, so the helper process runs without MPS.",
        },
    .read_on = {{Guide::programming, "Device Memory Accesses"},
                {Guide::programming, "Device Memory"}},
    .share = "of the rate of a copy in device memory",
    .options = options,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in GB/s of words of 16 bytes, of records of 12 bytes "
                         "and of those that are padded to 16, from the rate of a copy.",
                 .rows = {{{"case", "16 bytes"}},
                          {{"case", "12 bytes"}},
                          {{"case", "12 in 16 bytes"}}}},
    .figure = {.look = Look::bars, .x = "case", .y = "rate"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<alignment>(),
    .helper = with_cuda<alignment_helper>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;

/// Three floats, aligned to 4 bytes: three loads of 4 bytes.
struct Packed {
  float x, y, z;
};
/// The same, padded and aligned to 16 bytes: one load.
struct alignas(16) Padded {
  float x, y, z, unused;
};

template <class Word>
__global__ void copy_words(const Word* from, Word* to, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) to[i] = from[i];
}

/// Each block copies a part of row blockIdx.y. Rows begin `pitch` words apart.
__global__ void copy_rows(const float* from, float* to, unsigned columns, std::uint64_t pitch) {
  const unsigned column = blockIdx.x * threads + threadIdx.x;
  const std::uint64_t i = blockIdx.y * pitch + column;
  if (column < columns) to[i] = from[i];
}

/// Expects the first `columns` words of each row to be copied, and zeros elsewhere.
struct IsWrong {
  const float* to;
  unsigned columns;
  std::uint64_t pitch;

  __device__ bool operator()(std::uint64_t i) const {
    return to[i] != (i % pitch < columns ? unit_number(i) : 0.0F);
  }
};

/// Two arrays of floats, and the check that one is a copy of the other.
class Arrays {
 public:
  Arrays(Gpu& gpu, std::uint64_t words) : gpu_(gpu), from_(words), to_(words) {
    fill(from_, gpu.stream());
  }
  template <class Word>
  const Word* from() const {
    return reinterpret_cast<const Word*>(from_.data());
  }
  template <class Word>
  Word* to() const {
    return reinterpret_cast<Word*>(to_.data());
  }
  std::uint64_t words() const { return from_.size(); }

  /// Runs `copy`. Returns whether it copied, in the first `covered` words, the first `columns` of
  /// each `pitch` words and nothing else.
  bool is_copied(const std::function<void()>& copy, std::uint64_t covered, unsigned columns,
                 std::uint64_t pitch) {
    to_.clear(gpu_.stream());
    copy();
    return count_wrong(covered, IsWrong{to_.data(), columns, pitch}, gpu_.stream()) == 0;
  }

 private:
  Gpu& gpu_;
  DeviceArray<float> from_, to_;
};

/// Checks and measures the copies, and adds their rows.
class Cases {
 public:
  Cases(Bench& bench, Gpu& gpu, Measurements& rows, std::uint64_t words)
      : bench_(bench), gpu_(gpu), rows_(rows), arrays_(gpu, words) {}

  /// Copies words of which `useful` bytes each are data. The remark compares the rate with that of
  /// the earlier case `other`; nullptr: with none.
  template <class Word>
  void add_words(const char* name, const char* sentence, const char* other,
                 std::uint64_t useful = sizeof(Word)) {
    const std::uint64_t count = arrays_.words() * sizeof(float) / sizeof(Word);
    const auto copy = [&] {
      copy_words<<<blocks_for(count, threads), threads, 0, gpu_.stream()>>>(
          arrays_.from<Word>(), arrays_.to<Word>(), count);
      check_launch("copy_words");
    };
    const std::uint64_t covered = count * sizeof(Word) / sizeof(float);
    bench_.verify(arrays_.is_copied(copy, covered, 1, 1), name);
    add(name, sentence, other, copy, count * useful);
  }

  /// Copies rows of `columns` floats that begin `pitch` floats apart.
  void add_rows(const char* name, const char* sentence, const char* other, unsigned columns,
                std::uint64_t pitch) {
    constexpr std::uint64_t max_rows = 65535;  // the maximum of gridDim.y
    const auto count = static_cast<unsigned>(std::min(max_rows, arrays_.words() / pitch));
    const dim3 grid(blocks_for(columns, threads), count);
    const auto copy = [&] {
      copy_rows<<<grid, threads, 0, gpu_.stream()>>>(arrays_.from<float>(), arrays_.to<float>(),
                                                     columns, pitch);
      check_launch("copy_rows");
    };
    bench_.verify(arrays_.is_copied(copy, count * pitch, columns, pitch), name);
    add(name, sentence, other, copy, std::uint64_t{columns} * count * sizeof(float));
  }

 private:
  /// `useful`: bytes of data that `copy` reads.
  void add(const char* name, const char* sentence, const char* other,
           const std::function<void()>& copy, std::uint64_t useful) {
    const Work work = streaming(2.0 * static_cast<double>(useful));
    const Timing timing = gpu_.time(copy);
    const Measured rate = timing.rate(work.bytes);
    rates_[name] = rate.value;
    std::string remark = sentence;
    if (other != nullptr) {
      remark += formatted(": {:.2f} times the rate of {}", rate.value / rates_.at(other),
                          std::string(other));
    }
    rows_.add({name}, rate, rate.value / bench_.ceiling("device_copy"), remark, work,
              timing.seconds.value);
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  Arrays arrays_;
  std::map<std::string, double> rates_;  ///< in GB/s, by the name of the case
};

// An address that is no multiple of 16 destroys the context. A helper process makes that access.

__device__ float4 words[2], copied;

/// Copies the 16 bytes that begin at `offset`.
__global__ void copy_at(std::uint64_t offset) {
  copied = *reinterpret_cast<const float4*>(reinterpret_cast<const std::byte*>(words) + offset);
}

/// The answer to the command "4", an offset in bytes below 16, is the number of the error of an
/// access there, 0 if there is none. After an error, the helper cannot use the GPU any more.
std::string answer_of(const std::string& command) {
  copy_at<<<1, 1>>>(numbers_of(command).at(0));
  cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  return line_of({static_cast<std::uint64_t>(status)});
}

/// Notes the error of a misaligned access, beside an aligned one.
void show_misaligned(Bench& bench) {
  const std::string& mode = bench.facts().compute_mode;
  if (!permits_second_process(mode)) {
    bench.note(
        formatted("A misaligned access was not tried, since it needs a second process, which "
                  "the compute mode of the GPU ({}) does not permit.",
                  mode));
    return;
  }
  constexpr double limit = 60;  // seconds
  // An error would also end other clients of MPS.
  Helpers helper(this_program(about_alignment.name, environ,
                              {"CUDA_VISIBLE_DEVICES=" + bench.device().info().uuid,
                               "CUDA_MPS_PIPE_DIRECTORY=/dev/null"}),
                 1, bench.heartbeat());
  const auto error_at = [&](const char* offset) {
    return static_cast<cudaError_t>(numbers_of(helper.ask(1, offset, limit).at(0)).at(0));
  };
  bench.verify(error_at("0") == cudaSuccess, "an aligned access of 16 bytes");
  const cudaError_t error = error_at("4");
  bench.verify(error == cudaErrorMisalignedAddress, "the error of a misaligned access");
  bench.note(formatted(
      "A load of 16 bytes at a multiple of 16 bytes succeeds. 4 bytes further, it ends with "
      "{} ({}), and no later call of that process can use the GPU: a helper process tried it.",
      std::string(cudaGetErrorName(error)), std::string(cudaGetErrorString(error))));
}

}  // namespace

void alignment_helper(HelperEnd& end) {
  end.serve([](const std::string& command) { return answer_of(command); });
}

Table alignment(Bench& bench) {
  Gpu gpu(bench);
  constexpr std::uint64_t unit = 48 * 1024;  // a multiple of all records and of a row with pitch
  Measurements rows({{"case", ColumnType::text}}, {"rate", ColumnType::real, "GB/s"},
                    Rows::of_kernels);
  Cases cases(bench, gpu, rows, bench.bytes("alignment.size") / unit * unit / sizeof(float));
  cases.add_words<std::uint8_t>("1 byte", "a load of a warp reads one sector", nullptr);
  cases.add_words<std::uint16_t>("2 bytes", "two sectors", "1 byte");
  cases.add_words<float>("4 bytes", "four sectors, which are a line", "2 bytes");
  cases.add_words<float2>("8 bytes", "two lines", "4 bytes");
  cases.add_words<float4>("16 bytes", "four lines, the widest load", "8 bytes");
  cases.add_words<Packed>("12 bytes", "three loads of 4 bytes with a stride", "16 bytes");
  cases.add_words<Padded>("12 in 16 bytes", "one load of 16 bytes, of which 12 are data",
                          "12 bytes", sizeof(Packed));
  constexpr unsigned columns = 1001, pitch = 1024;
  cases.add_rows("rows of 1001", "rows begin in the middle of a line", "4 bytes", columns, columns);
  cases.add_rows("rows, pitch 1024", "each row begins at a line; the padding is not copied",
                 "rows of 1001", columns, pitch);
  show_misaligned(bench);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
