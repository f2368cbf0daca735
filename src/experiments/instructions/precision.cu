// The rate and the error of types of numbers, from double to bytes: on CUDA cores and tensor cores,
// in products of matrices, and in memory. precision_units.cuh has the units and their
// instructions, unit_rates.cu the kernels that repeat them in registers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/units.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#if SHARDSTREAM_HAS_CUDA
#include "experiments/instructions/array_products.cuh"
#include "experiments/instructions/bytes.cuh"
#include "experiments/instructions/emulated_product.hpp"
#include "experiments/instructions/matrix_products.hpp"
#include "experiments/instructions/precision_units.cuh"
#include "experiments/instructions/unit_rates.hpp"
#endif

namespace shardstream::experiments::instructions {

constexpr OptionRow options[] = {
    {"precision.n", OptionKind::count, "8192", "256..32768",
     "The edge of the matrices in the case `matrices`, a multiple of 256. --quick: 4096."},
    {"precision.size", OptionKind::size, "1GiB", "1MiB..",
     "Size of an array of doubles in the case `memory`, which needs three. The arrays of other "
     "types have the same number of elements."},
};

Table precision(Bench& bench);

namespace {

/// The bytes that a product of arrays in memory moves for each element.
double bytes_in_memory(std::string_view type) {
  if (type == "fp64") return 3 * 8;
  if (type == "fp32") return 3 * 4;
  return type == "dp4a" ? 2 * 1 + 1 : 3 * 2;  // four bytes have one sum of 4 bytes
}

/// Instructions have the same rate, whatever the number of products that they make.
double expected_rate_of_units(const MeasuredRow& row, std::string_view type) {
  const auto of = [&](const char* other) { return row.measured({{"type", other}}, {"case"}); };
  if (type == "dp2a") return of("dp4a") / 2;
  if (type == "fp16, fp16 sums") return of("fp16");
  if (type == "fp16" || type == "bf16") return 2 * of("tf32");
  return type == "int8" ? 4 * of("tf32") : std::numeric_limits<double>::quiet_NaN();
}

/// The units that multiply the matrices limit them.
double expected_rate_of_matrices(const MeasuredRow& row, std::string_view type) {
  const auto of = [&](const char* topic, const char* other) {
    return row.measured({{"case", topic}, {"type", other}});
  };
  if (type == "fp64") return of("tensor cores", "fp64");
  if (type == "fp32") return of("CUDA cores", "fp32");
  return type == "fp32x3" ? of("tensor cores", "tf32") / 3
                          : std::numeric_limits<double>::quiet_NaN();
}

double expected_rate(const MeasuredRow& row) {
  const std::string topic = row.text("case"), type = row.text("type");
  if (topic == "matrices") return expected_rate_of_matrices(row, type);
  if (topic != "memory") return expected_rate_of_units(row, type);
  return row.measured({{"case", topic}, {"type", "fp32"}}) * bytes_in_memory("fp32") /
         bytes_in_memory(type);
}

}  // namespace

extern const Experiment about_precision = {
    .name = "precision",
    .group = "instructions",
    .summary = "Smaller types have higher rates and fewer bytes, and larger errors.",
    .explanation =
        {
            .question =
                "What do smaller types of numbers gain in rate, and what do they lose in accuracy?",
            .varies =
                "`CUDA cores` and `tensor cores` multiply and add numbers of each type in "
                "registers, with four independent sums in each thread or warp, on full "
                "multiprocessors: fp64 and fp32 by fma, pairs of fp16 and bf16 by __hfma2, four "
                "products of bytes by __dp4a, two of short and byte by __dp2a, and tensor cores "
                "by mma.sync. A multiply-add counts as two operations. The rows `two registers` "
                "have eight sums, and each instruction reads a sum and a factor instead of three "
                "registers. `error` is the largest relative error of one product of matrices, 16 "
                "x 1024 and 1024 x 8 real numbers in [0, 1), which are rounded to the type first. "
                "The sums have the type as well, or are int; tensor cores have sums of float (int "
                "for int8, double for fp64) unless the row says otherwise. `bytes` has functions "
                "that treat a word as four bytes, and additions byte by byte; they are exact. "
                "`matrices` are square, of real numbers in [0, 1). cuBLASLt multiplies them, as "
                "in a run: fp64 and fp32 with units of these types; fp32x3 as three products of "
                "tf32; fp64-int8 and fp32-int8 as products of residues of 8 bits, whose sums are "
                "exact; fp64-emulated is cuBLAS's own emulation of fp64 by bytes. In `memory`, "
                "each element of an array is multiplied with that of another "
                "one; an operation is a product of two elements, and dp4a adds up four of them.",
            .expectation =
                "Expect fp64 to have half the rate of fp32 on GPUs for data centres and 1/32 or "
                "1/64 on others, pairs of fp16 to have at least the rate of fp32, and tensor cores "
                "many times that; their rate doubles when the size of the elements is halved. "
                "Three registers may lie in the same bank and are then read in two turns: expect "
                "two registers to come closer to the theoretical peak, most for pairs. Expect the "
                "error to depend on the type of the sums more than on that of the elements, since "
                "rounding errors of elements cancel; sums of fp16 or bf16 lose small addends, so "
                "add up in float. Most functions for bytes are several instructions on recent "
                "GPUs, which is still faster than byte by byte. Expect matrices of doubles and "
                "floats to be multiplied faster by bytes than by their own units, with smaller "
                "errors: the more planes of bytes a number needs, the less is gained. cuBLAS "
                "scales each line of a factor to integers; the remark has their bits. If they are "
                "cut into s slices of 8 bits, each pair of slices has its own weight, so the "
                "leading bits need s (s + 1) / 2 products of bytes: 36 for 8 slices. Residues have "
                "no weights, so 14 moduli need 14 products. cuBLAS chooses the bits from the data, "
                "so that the error is at "
                "most that of fp64, and uses fp64 if it would need too many; the bound of residues "
                "is relative to the norms of the lines, whatever the data. Expect "
                "matrices to have the rate of their units: fp64 that of tensor cores, fp32 that of "
                "CUDA cores, and fp32x3 a third of that of tf32. dp2a makes half the products of "
                "dp4a in an instruction. In memory, only bytes count: an operation moves three "
                "elements, 12 bytes with fp32 and 3 with dp4a, whose sum of 4 bytes belongs to "
                "four elements. Expect the rate to double when the size of the elements is halved.",
            .pitfalls =
                "On compute capability 9.0, mma.sync reaches about two thirds of the peak; the "
                "rest needs wgmma, as in `matmul`. fp8 has only wgmma there: for mma.sync the "
                "compiler converts it to fp16, and the row shows the cost. The rate of `matrices` "
                "includes all conversions. cuBLAS may multiply with fp64 although emulation was "
                "asked for; the remark has the bits that it reports. The remark has the share of "
                "the theoretical peak at "
                "the highest clock, if it is known; a GPU at its power limit runs slower.",
        },
    .read_on = {{Guide::best_practices, "Arithmetic Instructions"},
                {Guide::programming, "Arithmetic Instructions"},
                {Guide::ptx, "Warp Level Matrix Multiply-Accumulate Instructions"}},
    .reference =
        "Tesla V100, products in memory: 59.4 Gop/s with floats, 86.0 with pairs of fp16, 196.2 "
        "with dp4a.",
    .share =
        "of the first rate of the same case; for tensor cores, of fp32 on CUDA cores; for "
        "matrices, of fp64 or fp32",
    .options = options,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in Gop/s of products in memory of fp32, fp16 pairs and "
                         "dp4a, from the rate of a copy.",
                 .rows = {{{"case", "memory"}, {"type", "fp32"}},
                          {{"case", "memory"}, {"type", "fp16 pairs"}},
                          {{"case", "memory"}, {"type", "dp4a"}}}},
    .figure = {.look = Look::bars, .x = "type", .y = "rate", .panel = "case"},
    .run = with_cuda<precision>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;

// -------------------------------------------------------------------------------- the experiment

/// The exact product of real elements.
double exact_product(unsigned row, unsigned column) {
  const RealElements real;
  double sum = 0;  // products are exact, and 2^-53 is small enough for additions
  for (unsigned k = 0; k < inner; ++k) sum += double{real.a(row, k)} * real.b(k, column);
  return sum;
}

/// Infinite if `found` is not finite.
double relative_error(double found, double exact) {
  return std::isfinite(found) ? std::abs(found - exact) / exact
                              : std::numeric_limits<double>::infinity();
}

/// Measures types and adds their rows. Not thread-safe.
class Types {
 public:
  Types(Bench& bench, Gpu& gpu) : bench_(bench), gpu_(gpu) {}

  void add(const Unit& unit) {
    const double error = error_of(unit);
    const UnitRate found = rate_of(bench_, gpu_, unit);
    if (base_ == 0) base_ = found.rate.value;
    std::string more = share_of_theoretical_peak(gpu_, unit.roof, found.rate.value);
    if (converts(gpu_, unit)) more = "mma.sync converts to fp16: fp8 needs wgmma";
    add_row(unit.topic, type_of(unit), error, found.rate, found.work, found.seconds,
            more.empty() ? more : "; " + more);
  }

  template <class Operation>
  void add_bytes(const char* type) {
    const unsigned blocks =
        resident_blocks(gpu_, reinterpret_cast<const void*>(repeat_bytes<Operation>), threads);
    const DeviceArray<unsigned> results(std::uint64_t{blocks} * threads * words_of_thread);
    const auto launch = [&] {
      repeat_bytes<Operation><<<blocks, threads, 0, gpu_.stream()>>>(rounds, results.data());
      check_launch("repeat_bytes");
    };
    launch();
    bench_.verify(are_bytes_right<Operation>(results.read(0, 64 * words_of_thread), rounds),
                  formatted("bytes, {}", std::string(type)));
    const double operations = 4.0 * byte_steps * rounds * static_cast<double>(results.size());
    const Timing timing = gpu_.time(launch);
    const Measured rate = timing.rate(operations);
    if constexpr (std::is_same_v<Operation, ByteByByte>) base_ = rate.value;
    add_row("bytes", type, 0, rate, {operations, 1.0 * results.bytes()}, timing.seconds.value);
  }

  /// Multiplies n x n matrices.
  void add_matrices(gemm::Precision precision, std::uint64_t n) {
    const std::string type(gemm::word_of(precision));
    const MatrixProduct product(gpu_, precision, n);
    product.enqueue();
    const double error = product.error();
    bench_.verify(error <= product.max_error(), formatted("matrices, {}", type));
    // Not time(): a blocked stream does not take all launches of a large product.
    const Timing timing = gpu_.time_call([&] { product.enqueue(); });
    const double edge = static_cast<double>(n), operations = 2 * edge * edge * edge;
    const Measured rate = timing.rate(operations);
    const bool is_native = precision == gemm::Precision::fp64 || precision == gemm::Precision::fp32;
    if (is_native) base_ = rate.value;
    add_row("matrices", type.c_str(), error, rate, {operations, product.bytes()},
            timing.seconds.value);
  }

  /// Multiplies n x n matrices of doubles by cuBLAS's emulation. A note says if it has none.
  void add_emulated(std::uint64_t n) {
    const char* const type = "fp64-emulated";
    std::string why;
    const auto product = make_emulated_product(gpu_, n, why);
    if (!product) {
      bench_.note(formatted("matrices, {}: not available, since {}.", std::string(type), why));
      return;
    }
    product->enqueue();
    const double error = product->error();
    const double edge = static_cast<double>(n), operations = 2 * edge * edge * edge;
    bench_.verify(error <= edge * 0x1p-53, "matrices, fp64-emulated");
    const std::string remark = "; " + emulation_remark(product->bits());
    const Timing timing = gpu_.time_call([&] { product->enqueue(); });
    add_row("matrices", type, error, timing.rate(operations),
            {operations, 3 * sizeof(double) * edge * edge}, timing.seconds.value, remark);
  }

  /// Multiplies arrays of `elements` numbers. The three arrays are large enough for doubles.
  template <class T>
  void add_memory(const char* type, double of_element, std::uint64_t elements,
                  const DeviceArray<Word16> (&arrays)[3]) {
    constexpr bool is_byte = std::is_same_v<T, std::int8_t>;
    const std::uint64_t words = elements / in_16_bytes<T>;
    const unsigned blocks = blocks_for(words, threads);
    for (unsigned of = 0; of < 2; ++of) {
      fill_array<T>
          <<<blocks, threads, 0, gpu_.stream()>>>(of, is_byte ? 127 : 1, arrays[of].data(), words);
      check_launch("fill_array");
    }
    arrays[2].clear(gpu_.stream());
    const auto launch = [&] {
      multiply_arrays<T><<<blocks, threads, 0, gpu_.stream()>>>(arrays[0].data(), arrays[1].data(),
                                                                arrays[2].data(), words);
      check_launch("multiply_arrays");
    };
    launch();
    const double error =
        std::max(error_in_memory<T>(arrays[2], 0), error_in_memory<T>(arrays[2], words - sampled));
    bench_.verify(error <= 4 * of_element, formatted("memory, {}", std::string(type)));
    const auto products = static_cast<double>(elements);
    const Timing timing = gpu_.time(launch);
    const Measured rate = timing.rate(products);
    if (std::is_same_v<T, float>) base_ = rate.value;
    const double additions = is_byte ? 0.75 : 0;
    add_row("memory", type, error, rate,
            {products * (1 + additions), 3.0 * sizeof(Word16) * static_cast<double>(words), type},
            timing.seconds.value);
  }

  Table table() && { return std::move(rows_).table(); }

 private:
  static constexpr unsigned rounds = 32;
  static constexpr std::uint64_t sampled = 1024;  // words of a product in memory

  /// The largest relative error of the product of real elements.
  double error_of(const Unit& unit) {
    const DeviceArray<double> c(outputs);
    c.clear(gpu_.stream());
    unit.multiply(unit.elements, c.data(), gpu_.stream());
    const std::vector<double> found = c.read();
    const double scale = double{unit.elements.scale_of_a} * unit.elements.scale_of_b;
    double error = 0;
    for (unsigned i = 0; i < outputs; ++i) {
      const double exact = exact_product(i / columns, i % columns);
      error = std::max(error, relative_error(found[i] / scale, exact));
    }
    bench_.verify(error <= 3 * unit.of_element + inner * unit.of_sum, name_of(unit));
    return error;
  }

  /// The largest relative error of `sampled` words of products, from `first` on.
  template <class T>
  static double error_in_memory(const DeviceArray<Word16>& products, std::uint64_t first) {
    constexpr bool is_byte = std::is_same_v<T, std::int8_t>;
    using Result = std::conditional_t<is_byte, std::int32_t, T>;
    constexpr unsigned results = 16 / sizeof(Result), in_sum = is_byte ? 4 : 1;
    const std::vector<Word16> words = products.read(first, sampled);
    double error = 0;
    for (std::uint64_t i = 0; i < sampled * results; ++i) {
      Result found;
      std::memcpy(&found, reinterpret_cast<const char*>(words.data()) + i * sizeof(Result),
                  sizeof(found));
      double exact = 0;
      for (unsigned k = 0; k < in_sum; ++k) {
        const std::uint64_t element = (first * results + i) * in_sum + k;
        exact += double{element_in_memory(0, element)} * element_in_memory(1, element);
      }
      const double value = static_cast<double>(found) / (is_byte ? 127 * 127 : 1);
      error = std::max(error, relative_error(value, exact));
    }
    return error;
  }

  void add_row(const char* topic, const std::string& type, double error, const Measured& rate,
               const Work& work, double seconds, const std::string& more = {}) {
    rows_.add({topic, type, error}, rate, rate.value / base_,
              formatted("{:.3g} operations per byte", work.operations / work.bytes) + more, work,
              seconds);
  }

  Bench& bench_;
  Gpu& gpu_;
  double base_ = 0;  ///< Gop/s that the column `share` refers to
  Measurements rows_{
      {{"case", ColumnType::text}, {"type", ColumnType::text}, {"error", ColumnType::real}},
      {"rate", ColumnType::real, "Gop/s"},
      Rows::of_kernels};
};

/// Whether the GPU has at least `capability`, such as 80 for 8.0. If not, a note says so.
bool has(Bench& bench, const Gpu& gpu, int capability, const char* topic, const char* type) {
  if (10 * gpu.properties().major + gpu.properties().minor >= capability) return true;
  bench.note(formatted("{}, {}: needs compute capability {}.{}.", std::string(topic),
                       std::string(type), capability / 10, capability % 10));
  return false;
}

/// The arrays of bytes exceed the L2 cache, too.
void add_memory(Bench& bench, Gpu& gpu, Types& types) {
  const std::uint64_t size = bench.bytes("precision.size", {.of_device = 0.25});
  const std::uint64_t elements = size / sizeof(double) / 1024 * 1024;
  const auto cache = static_cast<std::uint64_t>(gpu.properties().l2CacheSize);
  const std::uint64_t min = 2 * cache / 3 * sizeof(double);
  if (elements * sizeof(double) < min) {
    throw UsageError(formatted(
        "precision.size: the arrays of bytes may stay in the L2 cache with {}: choose at least {}",
        format_size(size), format_size(min + (std::uint64_t{1} << 20))));
  }
  const std::uint64_t words = elements / in_16_bytes<double>;
  const DeviceArray<Word16> arrays[3] = {DeviceArray<Word16>(words), DeviceArray<Word16>(words),
                                         DeviceArray<Word16>(words)};
  types.add_memory<float>("fp32", 0x1p-24, elements, arrays);
  types.add_memory<double>("fp64", 0x1p-53, elements, arrays);
  types.add_memory<__half>("fp16 pairs", 0x1p-11, elements, arrays);
  if (has(bench, gpu, 80, "memory", "bf16 pairs")) {
    types.add_memory<__nv_bfloat16>("bf16 pairs", 0x1p-8, elements, arrays);
  }
  types.add_memory<std::int8_t>("dp4a", 0x1p-7, elements, arrays);
}

void add_matrices(Bench& bench, const Gpu& gpu, Types& types) {
  using gemm::Precision;
  const double room = 0.8 * static_cast<double>(bench.memory()) - MatrixProduct::other_bytes;
  const std::uint64_t n = bench.edge("precision.n", 4096, MatrixProduct::granule,
                                     MatrixProduct::bytes_of_element, room);
  for (const Precision each : {Precision::fp64, Precision::fp64_int8, Precision::fp32,
                               Precision::fp32x3, Precision::fp32_int8}) {
    const gemm::PrecisionTraits& row = gemm::traits_of(each);
    const std::string type(row.name);
    if (has(bench, gpu, row.compute_capability, "matrices", type.c_str())) {
      types.add_matrices(each, n);
    }
    if (each == Precision::fp64_int8) types.add_emulated(n);
  }
}

}  // namespace

Table precision(Bench& bench) {
  Gpu gpu(bench);
  Types types(bench, gpu);
  for (const Unit& unit : all_units()) {
    if (has(bench, gpu, unit.capability, unit.topic, unit.type)) types.add(unit);
  }
  types.add_bytes<ByteByByte>("byte by byte");
  types.add_bytes<Add>("__vadd4");
  types.add_bytes<AddSaturated>("__vaddus4");
  types.add_bytes<Difference>("__vabsdiffu4");
  types.add_bytes<Maximum>("__vmaxu4");
  types.add_bytes<Average>("__vavgu4");
  add_matrices(bench, gpu, types);
  add_memory(bench, gpu, types);
  return std::move(types).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::instructions
