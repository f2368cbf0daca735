#include "experiments/pipeline/pipeline.hpp"

#include <array>

namespace shardstream::experiments::feeds {
namespace {

constexpr std::array feed_options = {
    OptionRow{"feed.size", OptionKind::size, "4GiB", "1MiB..",
              "Data of each rank. Unless it is given: halved until it fits; with --quick 1 GiB; on "
              "CPUs 512 MiB, with --quick 64 MiB."},
};

constexpr std::array file_feed_options = {
    OptionRow{"file-feed.file", OptionKind::text, "", "",
              "FILE.h5:/PATH, a data set as shardstream generate makes it."},
};

}  // namespace

std::vector<Experiment> experiments() {
  return {
      {.name = "feed",
       .group = "pipeline",
       .summary = "The program's own rings feed a kernel at the rate of the link or of memory.",
       .explanation =
           "A run keeps its data in one of several places (pipeline.mode): pinned memory, "
           "write-combined memory, pageable memory, pinned memory that the kernel reads over the "
           "link (mapped), or the device's memory (resident). From each place the data goes "
           "through the same rings as in a run, in batches of 64 MiB, while a kernel adds up the "
           "batch before. The time is that of a whole pass, by the host's clock, from its call "
           "until the sum is known. Two ceilings are measured beside it: plain copies from pinned "
           "memory, and a plain kernel that reads the device's memory. Expect 0.95 of the copies "
           "from pinned and write-combined memory, 0.85 from pageable and mapped memory, and 0.9 "
           "of the plain reads from the device's memory. With several ranks each one measures "
           "alone, and then all of them at once. The rate is that of each rank: what it loses "
           "then, "
           "it loses to a shared link or to the host's memory, as plain copies do. The "
           "expectations are those of a GPU. On CPUs, all places are ordinary memory. The sum must "
           "have the bits of the host's reference. The experiment file-feed feeds files. CUDA C++ "
           "Best Practices Guide, section Asynchronous and Overlapping Transfers with Computation; "
           "src/pipeline/README.md.",
       .reference = "",
       .share = "of the rate of plain copies; for `resident`, of that of plain reads, and on CPUs "
                "for `mapped` as well",
       .options = feed_options,
       .figure = {.look = Look::bars, .x = "data", .y = "rate", .log_y = true},
       .turns = Turns::both,
       .run = feed,
       .run_host = feed},
      {.name = "file-feed",
       .group = "pipeline",
       .summary = "A file is fed at the rate of its readers or of copies, whichever is slower.",
       .explanation =
           "A data set goes from a file to a kernel that adds it up, as in a run with "
           "pipeline.mode stream: threads read pieces into pinned slots, each slot is copied to "
           "the device, and the kernel reads batches. The file is read past the page cache "
           "(direct, "
           "O_DIRECT) and through it (cached). Two ceilings are measured beside each way: the "
           "readers without copies, and plain copies without readers. The lower one bounds the "
           "rate, and the remark names it. Expect a share above 0.9. The remark of the "
           "readers states whether the file was in the page cache before; O_DIRECT bypasses that "
           "cache. `cached` is measured after a pass that has brought in what fits. A pass reads 4 "
           "GiB at most, with --quick 1 GiB. With several ranks each "
           "one reads from the file's beginning, alone, and then each its own part, all at once; "
           "the "
           "rate is that of each rank. "
           "The sum must be that of H5Dread and the host's reference. "
           "Write the file with shardstream generate --input.count 2^32 -o FILE.h5:/x. The "
           "experiment plain-reads shows what simple code reaches on the same file. CUDA C++ Best "
           "Practices Guide, section Pinned Memory; src/pipeline/README.md.",
       .reference = "",
       .share = "of the lower one of the two ceilings: the readers alone, plain copies",
       .options = file_feed_options,
       .figure = {.look = Look::bars, .x = "case", .y = "rate"},
       .needs = {.file = "file-feed.file"},
       .turns = Turns::both,
       .run = file_feed,
       .run_host = file_feed},
  };
}

}  // namespace shardstream::experiments::feeds
