#include "comm/options.hpp"

#include <array>

namespace shardstream::comm {
namespace {

constexpr std::array rows = {
    OptionRow{
        "comm.transport", OptionKind::choice, "auto", "auto|nccl|mpi",
        "What combines the ranks' results; auto is NCCL between GPUs and MPI otherwise; mpi on "
        "GPUs goes through host memory."},
    OptionRow{"comm.timeout", OptionKind::duration, "300s", "1s..",
              "Seconds without any movement after which the hanging rank is named and the job "
              "ends."},
};

}  // namespace

std::span<const OptionRow> comm_options() {
  return rows;
}

}  // namespace shardstream::comm
