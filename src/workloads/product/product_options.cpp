// The options of all products, and the precision that follows from them.
#include <fmt/format.h>

#include <array>
#include <string>

#include "core/error.hpp"
#include "core/text.hpp"
#include "kernels/gemm/precision.hpp"
#include "workloads/product/product.hpp"

namespace shardstream::workloads::product {
namespace {

/// The number of bits of the largest integer up to which a format holds all integers.
int exact_bits(gemm::Format format) {
  switch (format) {
    case gemm::Format::f64:
      return 53;
    case gemm::Format::f32:
      return 24;
    case gemm::Format::tf32:
    case gemm::Format::fp16:
      return 11;
    case gemm::Format::bf16:
    case gemm::Format::i8:
      break;
  }
  return 8;
}

}  // namespace

std::span<const OptionRow> option_rows() {
  static const std::string precisions =
      "auto|" + join(gemm::all_precisions, "|", [](gemm::Precision each) { return word_of(each); });
  static const std::array rows = {
      OptionRow{
          "product.precision", OptionKind::choice, "auto", precisions,
          "The format that the matrices are rounded to before they are multiplied. The sums "
          "and C are doubles with fp64 and fp64-int8, 32-bit integers with int8 (only for data of "
          "type i8), else floats. fp32x3 computes three products in tf32 and has nearly the "
          "accuracy of fp32. fp64-int8 and fp32-int8 multiply doubles and floats on the 8-bit "
          "tensor cores of GPUs, with an error that is bounded relative to the norms of rows and "
          "columns; CPUs compute the same bits, but slowly. auto keeps the values of the input: "
          "fp64 for f64, i32 and i64, else fp32."},
      OptionRow{"product.planes", OptionKind::count, "auto", "auto|4..16",
                "The number of 8-bit products that fp64-int8 and fp32-int8 compute for each "
                "product. Each one more adds about four bits to A and to B. auto is 14 for "
                "fp64-int8 and 7 for fp32-int8, whose errors are then at most those that random "
                "rounding errors of fp64 and fp32 would add up to."},
      OptionRow{
          "product.decomposition", OptionKind::choice, "auto", "auto|rows|grid|split-k",
          "How ranks share the work: each computes rows of C (rows), rows and columns of C "
          "(grid; only gemm), or a part of every sum over k (split-k; only if k is at least 8 "
          "times m and n, which for gram means at least 8 times as many samples as "
          "variables). C has the same bits with all of them. auto takes the one with the "
          "shortest predicted time (--dry-run shows it), or one that is up to 20 % slower if "
          "fewer ranks would be idle."},
      OptionRow{
          "product.box", OptionKind::text, "", "such as 2x1x4",
          "The numbers of ranks among which the rows of C, the columns of C, and the terms of "
          "each sum are divided, instead of the best ones. Ranks beyond the product of the "
          "three numbers are idle. The second number must be 1 except for gemm."},
  };
  return rows;
}

gemm::Precision safe_precision(ElementType type) {
  return type == ElementType::f32 || type == ElementType::u8 || type == ElementType::i8
             ? gemm::Precision::fp32
             : gemm::Precision::fp64;
}

gemm::Precision precision_of(const Options& options, std::span<const std::string_view> keys) {
  if (!options.is_auto("product.precision")) {
    return *gemm::precision_named(options.text("product.precision"));
  }
  gemm::Precision precision = gemm::Precision::fp32;
  for (const std::string_view key : keys) {
    const bool is_named = io::names_file(options, key) || !options.is_auto("input.type");
    if (!is_named) continue;
    const io::NamedSource named{.key = key, .shape = {1}, .type = ElementType::f32, .seed = 0};
    const ElementType type = io::open_source(options, named)->type();
    if (safe_precision(type) == gemm::Precision::fp64) precision = gemm::Precision::fp64;
  }
  return precision;
}

unsigned moduli_of(const Options& options, gemm::Precision precision) {
  if (options.is_auto("product.planes")) return 0;
  if (!gemm::multiplies_residues(precision)) {
    throw UsageError(
        fmt::format("product.planes is for fp64-int8 and fp32-int8, and product.precision is {}: "
                    "leave product.planes out, or pass --product.precision fp64-int8",
                    word_of(precision)));
  }
  return static_cast<unsigned>(options.count("product.planes"));
}

std::string note_on_rounding(const io::Matrix& matrix, const Operands& operands) {
  const ElementType type = matrix.source().type();
  const bool is_wide = type == ElementType::i64 || type == ElementType::u64;
  if (!is_wide || matrix.origin().files.empty() || operands.shifts()) return {};
  return fmt::format("{} has integers of 64 bits: products in {} round those beyond 2^{}",
                     matrix.name(), word_of(operands.precision),
                     exact_bits(gemm::traits_of(operands.precision).panel));
}

}  // namespace shardstream::workloads::product
