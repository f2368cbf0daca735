#include "experiments/storage/storage.hpp"

#include <array>

#include "kernels/kernel.hpp"

namespace shardstream::experiments::storage {
namespace {

constexpr std::array plain_reads_options = {
    OptionRow{"plain-reads.file", OptionKind::text, "", "",
              "The data set to read, FILE.h5:/PATH; shardstream generate writes one."},
};

}  // namespace

std::vector<Experiment> experiments() {
  return {
      {.name = "plain-reads",
       .group = "storage",
       .summary = "The rate of plain code that reads a file, with H5Dread and with O_DIRECT.",
       .explanation =
           "A data set is read in two ways: by H5Dread into ordinary memory, 256 MiB at a "
           "time; and past the page cache (O_DIRECT) by 32 threads, 4 MiB at a time. On a GPU "
           "there is a third way: H5Dread followed by cudaMemcpy, as in most programs. "
           "H5Dread is limited by one thread that copies from the page cache, or by storage "
           "if the data is not cached; expect a few GB/s. O_DIRECT shows the rate of the "
           "storage. The remark states how much of the data was in the page cache before, if "
           "the system reports it. All ways must read the same bytes. All ranks read the same "
           "file at once. To write a file: shardstream generate --input.count 2^32 -o "
           "FILE.h5:/x. The experiment file-feed shows the rate of this program for the same "
           "file. Results: src/experiments/MEASUREMENTS.md.",
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
