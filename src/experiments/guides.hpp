// The guides that experiments refer to, and links to their sections.
#pragma once

#include <string>
#include <string_view>

namespace shardstream::experiments {

enum class Guide {
  best_practices,    ///< CUDA C++ Best Practices Guide
  programming,       ///< CUDA C++ Programming Guide of CUDA 12.8: later ones have other sections
  ptx,               ///< PTX ISA
  runtime_api,       ///< CUDA Runtime API
  driver_api,        ///< CUDA Driver API
  nvrtc,             ///< NVRTC
  mps,               ///< Multi-Process Service
  nccl,              ///< NCCL User Guide
  nccl_performance,  ///< PERFORMANCE.md of nccl-tests
  harris,            ///< Harris, Optimizing Parallel Reduction in CUDA
  roofline,          ///< Williams, Waterman and Patterson, Roofline
  project            ///< a file of this repository: its path is the title
};

/// A section of a guide, or a whole document.
struct Section {
  Guide guide;
  std::string_view title = {};  ///< as in the guide, without its number; empty: the whole document
  /// The section in the address, if it does not follow from the title; for an API, its page.
  std::string_view anchor = {};
};

/// "CUDA C++ Best Practices Guide, Strided Accesses"
std::string title_of(const Section& section);

/// The address of the section; for a file of this repository, its path.
std::string link_of(const Section& section);

}  // namespace shardstream::experiments
