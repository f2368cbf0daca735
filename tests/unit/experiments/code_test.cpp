// The division of sources into declarations, and the code that an experiment shows.
#include "experiments/code.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/catalogue.hpp"

namespace shardstream::experiments {
namespace {

constexpr std::string_view sample = R"(// A story.
#include <cmath>

namespace a {

constexpr unsigned threads = 256;
constexpr char open = '{', half = 1'000;  // }

// ---- a heading

/// Adds.
template <class T, unsigned (*F)(int)>
__device__ T add(T a, T b) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a += "}"[0];
  return a + b;
}

/// The kernel.
constexpr SourceLine add_place = kernel_below();
__global__ void __launch_bounds__(threads, 1)
    sum(const float* x,
        float* y) {
  *y = add(*x, 1.F);
}

struct Functor {
  __device__ float operator()(float x) const { return x; }
};
Table host(Bench& bench) {
  return run([] __device__(int) {});
}

}  // namespace a
)";

TEST(Code, IsDividedIntoDeclarations) {
  const std::vector<Declaration> declarations = declarations_of({"a.cu", sample});
  std::vector<std::string> names;
  for (const Declaration& declaration : declarations) names.push_back(declaration.name);
  ASSERT_EQ(names, (std::vector<std::string>{"threads", "open", "add", "sum", "Functor", "host"}));
  const std::vector<bool> on_device = {false, false, true, true, true, false};
  for (std::size_t i = 0; i < declarations.size(); ++i) {
    EXPECT_EQ(declarations[i].has_device_code, on_device[i]) << declarations[i].name;
  }
  EXPECT_EQ(declarations[0].line, 6);
  EXPECT_EQ(declarations[1].line, declarations[0].end);
  EXPECT_EQ(declarations[2].text.find("// ---- a heading\n\n/// Adds.\ntemplate"), 0U)
      << declarations[2].text;
  EXPECT_EQ(declarations[3].kernel_line, 21);
  EXPECT_EQ(declarations[3].text.find("/// The kernel.\n__global__"), 0U) << declarations[3].text;
  EXPECT_TRUE(declarations[3].text.ends_with("1.F);\n}\n"));
  EXPECT_EQ(declarations[2].kernel_line, 0);
}

/// The number of places at which `text` has `word`.
std::size_t count(std::string_view text, std::string_view word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(Code, OfTheReductionHasEachKernelOnceAndNoCodeOfTheHost) {
  const std::string text = code_text(named("reduction"));
  for (const char* const kernel :
       {"add_everywhere", "add_pairs", "sum_in_global", "sum_in_shared", "sum_in_flight",
        "sum_unrolled", "sum_by_tiles", "sum_by_coalesced_groups", "sum_by_shuffles",
        "sum_by_block_atomics", "sum_with_grid_sync", "sum_by_last_block"}) {
    EXPECT_EQ(count(text, std::string(" ") + kernel + "("), 1U) << kernel;
  }
  for (const char* const helper : {"enum class Tree", "float sum_of_thread(", "threads = 512"}) {
    EXPECT_EQ(count(text, helper), 1U) << helper;
  }
  for (const char* const host : {"Table ", "bench.", "<<<", "SourceLine", "about_", "#include"}) {
    EXPECT_EQ(count(text, host), 0U) << host;
  }
}

TEST(Code, OfEveryExperimentHasAllKernelsOfItsFiles) {
  std::size_t with_kernels = 0;
  for (const Experiment* each : all()) {
    std::size_t in_files = 0;
    for (const SourceMember& member : source_members()) {
      if (member.experiment != each->name) continue;
      const auto text = std::ranges::find(source_texts(), member.path, &SourceText::path);
      ASSERT_NE(text, source_texts().end()) << member.path;
      in_files += count(text->text, "__global__ ");
    }
    const std::vector<Declaration> code = code_of(*each);
    const auto kernels = std::ranges::count_if(
        code, [](const Declaration& declaration) { return declaration.kernel_line > 0; });
    EXPECT_EQ(static_cast<std::size_t>(kernels), in_files) << each->name;
    const std::string text = code_text(*each);
    EXPECT_EQ(text.find("has no kernel") != text.npos, code.empty()) << each->name;
    with_kernels += in_files > 0 ? 1 : 0;
  }
  EXPECT_GE(with_kernels, 40U);
}

TEST(Code, AMemberIsOfAnExperimentOrAnExample) {
  for (const SourceMember& member : source_members()) {
    if (member.experiment == "-") {
      EXPECT_TRUE(member.path.starts_with("../../inputs/kernels/")) << member.path;
      continue;
    }
    EXPECT_NE(find(member.experiment), nullptr) << member.experiment;
  }
  for (const Experiment* each : all()) {
    EXPECT_NE(std::ranges::count(source_members(), each->name, &SourceMember::experiment), 0)
        << each->name;
  }
}

}  // namespace
}  // namespace shardstream::experiments
