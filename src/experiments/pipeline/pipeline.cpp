#include "experiments/pipeline/pipeline.hpp"

#include <array>

namespace shardstream::experiments::feeds {
namespace {

constexpr std::array feed_options = {
    OptionRow{"feed.size", OptionKind::size, "4GiB", "1MiB..",
              "Data of each rank. The default with --quick is 1 GiB; on CPUs it is 512 MiB, with "
              "--quick 64 MiB. A default is halved until it fits in memory."},
};

Experiment about_feed() {
  return {.name = "feed",
          .group = "pipeline",
          .summary = "The pipeline of a run feeds a kernel at the rate of the link or of memory.",
          .explanation =
              "A run keeps its data in one of several places (pipeline.mode): pinned memory, "
              "write-combined memory, pageable memory, pinned memory that the kernel reads over "
              "the link (mapped), or device memory (resident). From each place, the data passes "
              "through the same buffer rings as in a run, in batches of 64 MiB, while a kernel "
              "adds up the previous batch. The time is that of a whole pass, by the host's "
              "clock, from its start until the sum is known. Two ceilings are measured as well: "
              "plain copies from pinned memory, and a plain kernel that reads device memory. "
              "Expect 0.95 of plain copies from pinned and write-combined memory, 0.85 from "
              "pageable and mapped memory, and 0.9 of plain reads from device memory. These "
              "expectations hold for GPUs; on CPUs, all places are ordinary memory. With several "
              "ranks, each rank measures alone, and then all measure at once. The rate is that "
              "of each rank. If it is lower while all ranks measure at once, the ranks share a "
              "link or the memory of the host; plain copies become slower too. The sum must have "
              "the same bits as the "
              "host's reference. The experiment file-feed feeds data from files. CUDA C++ Best "
              "Practices Guide, section Asynchronous and Overlapping Transfers with Computation; "
              "src/pipeline/README.md.",
          .reference = "",
          .share =
              "of the rate of plain copies; for `resident`, and on CPUs for `mapped`, of the "
              "rate of plain reads",
          .options = feed_options,
          .figure = {.look = Look::bars, .x = "data", .y = "rate", .log_y = true},
          .turns = Turns::both,
          .run = feed,
          .run_host = feed};
}

constexpr std::array file_feed_options = {
    OptionRow{"file-feed.file", OptionKind::text, "", "",
              "The data set to read, FILE.h5:/PATH; shardstream generate writes one."},
};

Experiment about_file_feed() {
  return {.name = "file-feed",
          .group = "pipeline",
          .summary =
              "A file is fed to a kernel at the rate of its readers or of copies, whichever is "
              "slower.",
          .explanation =
              "A data set goes from a file to a kernel that adds it up, as in a run with "
              "pipeline.mode stream: threads read pieces into pinned slots, each slot is copied "
              "to the device, and the kernel reads batches. The file is read past the page cache "
              "(direct, by O_DIRECT) and through it (cached). Two ceilings are measured as well: "
              "the readers without copies, and plain copies without readers. The lower one "
              "bounds the rate, and the remark names it. Expect a share above 0.9. In the "
              "rows `direct, readers` and `cached, readers`, the remark tells whether the file "
              "was in the page cache before; O_DIRECT bypasses that cache. `cached` is measured "
              "after an untimed pass that brings the "
              "data into the cache as far as it fits. A pass reads at most 4 GiB, with --quick 1 "
              "GiB. With several ranks, each rank first reads the beginning of the file alone; "
              "then all ranks read their own parts at once. The rate is that of each rank. The "
              "sum must equal that of H5Dread and the host's reference. To write a file: "
              "shardstream generate --input.count 2^32 -o FILE.h5:/x. The experiment plain-reads "
              "shows the rate of simple code for the same file. CUDA C++ Best Practices Guide, "
              "section Pinned Memory; src/pipeline/README.md.",
          .reference = "",
          .share = "of the lower one of two ceilings: the readers alone, and plain copies",
          .options = file_feed_options,
          .figure = {.look = Look::bars, .x = "case", .y = "rate"},
          .needs = {.file = "file-feed.file"},
          .turns = Turns::both,
          .run = file_feed,
          .run_host = file_feed};
}

}  // namespace

std::vector<Experiment> experiments() {
  return {about_feed(), about_file_feed()};
}

}  // namespace shardstream::experiments::feeds
