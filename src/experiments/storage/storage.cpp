#include "experiments/storage/storage.hpp"

#include <array>

#include "kernels/kernel.hpp"

namespace shardstream::experiments::storage {
namespace {

constexpr std::array plain_reads_options = {
    OptionRow{"plain-reads.file", OptionKind::text, "", "",
              "FILE.h5:/PATH, a data set as shardstream generate makes it."},
};

}  // namespace

std::vector<Experiment> experiments() {
  return {
      {.name = "plain-reads",
       .group = "storage",
       .summary = "Plain code reads a file: one thread by H5Dread, many threads by O_DIRECT.",
       .explanation =
           "A data set is read in two ways: by H5Dread, 256 MiB at a time, into ordinary memory; "
           "and past the page cache by 32 threads, 4 MiB at a time (O_DIRECT). On a GPU there is "
           "a third way: H5Dread followed by cudaMemcpy, as in most programs. H5Dread is limited "
           "by one thread that copies from the page cache, or by storage if the data is not "
           "cached; expect a few GB/s. O_DIRECT shows the rate of the storage. The remark says "
           "how much was cached before, if the system tells. Both ways must have read the same "
           "bytes. All ranks read the same file at once. Write it with shardstream generate "
           "--input.count 2^32 -o FILE.h5:/x. The experiment file-feed shows what this program "
           "reaches on the same file. src/experiments/README.md.",
       .reference = "",
       .share = "of the rate of uploads",
       .options = plain_reads_options,
       .figure = {.look = Look::bars, .x = "way", .y = "rate"},
       .needs = {.ceilings = {"link_up"}, .file = "plain-reads.file"},
       .run = with_cuda<plain_reads>(),
       .run_host = plain_reads_on_host},
  };
}

}  // namespace shardstream::experiments::storage
