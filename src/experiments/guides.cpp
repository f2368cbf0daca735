#include "experiments/guides.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>

#include "core/text.hpp"

namespace shardstream::experiments {
namespace {

struct Document {
  std::string_view name, address;
};

/// In the order of Guide.
constexpr std::array documents = {
    Document{"CUDA C++ Best Practices Guide",
             "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"},
    Document{"CUDA C++ Programming Guide",
             "https://docs.nvidia.com/cuda/archive/12.8.1/cuda-c-programming-guide/"},
    Document{"PTX ISA", "https://docs.nvidia.com/cuda/parallel-thread-execution/"},
    Document{"CUDA Runtime API", "https://docs.nvidia.com/cuda/cuda-runtime-api/"},
    Document{"CUDA Driver API", "https://docs.nvidia.com/cuda/cuda-driver-api/"},
    Document{"NVRTC", "https://docs.nvidia.com/cuda/nvrtc/"},
    Document{"Multi-Process Service", "https://docs.nvidia.com/deploy/mps/"},
    Document{"NCCL User Guide",
             "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage.html"},
    Document{"nccl-tests, PERFORMANCE.md",
             "https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md"},
    Document{"Harris, Optimizing Parallel Reduction in CUDA",
             "https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf"},
    Document{"Williams, Waterman and Patterson, Roofline, 2009",
             "https://doi.org/10.1145/1498765.1498785"},
    Document{"", ""}};
static_assert(documents.size() == static_cast<std::size_t>(Guide::project) + 1);

const Document& document_of(Guide guide) {
  return documents.at(static_cast<std::size_t>(guide));
}

/// Whether the addresses of the guide name their sections by titles.
bool has_anchors(Guide guide) {
  return guide == Guide::best_practices || guide == Guide::programming || guide == Guide::ptx;
}

/// Whether each section of the guide is a page of its own.
bool has_pages(Guide guide) {
  return guide == Guide::runtime_api || guide == Guide::driver_api;
}

/// "Loop Counters Signed vs. Unsigned" as loop-counters-signed-vs-unsigned.
std::string anchor_of(std::string_view title) {
  std::string anchor;
  for (const char c : title) {
    if (c == '\'') continue;
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      anchor += lower(c);
    } else if (!anchor.empty() && anchor.back() != '-') {
      anchor += '-';
    }
  }
  if (anchor.ends_with('-')) anchor.pop_back();
  return anchor;
}

}  // namespace

std::string title_of(const Section& section) {
  const std::string_view name = document_of(section.guide).name;
  if (section.title.empty()) return std::string(name);
  if (name.empty()) return std::string(section.title);
  return fmt::format("{}, {}", name, section.title);
}

std::string link_of(const Section& section) {
  if (section.guide == Guide::project) return std::string(section.title);
  std::string link(document_of(section.guide).address);
  if (has_pages(section.guide)) return link + std::string(section.anchor);
  if (section.title.empty() || !has_anchors(section.guide)) return link;
  return link + '#' +
         (section.anchor.empty() ? anchor_of(section.title) : std::string(section.anchor));
}

}  // namespace shardstream::experiments
