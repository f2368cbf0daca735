#include "study/study_labels.hpp"

#include <array>

namespace shardstream::study {
namespace {

constexpr std::array rows = {
    OptionRow{"study.name", OptionKind::text, "", "",
              "The study that the run belongs to. scale sets this and the other labels."},
    OptionRow{"study.mode", OptionKind::choice, "none", "none|strong|weak",
              "Whether the study's work is fixed (strong) or grows with the ranks (weak)."},
    OptionRow{"study.point", OptionKind::text, "", "", "The name of the study's point."},
    OptionRow{"study.replicate", OptionKind::count, "0", "", "The number of the launch, from 1."},
};

}  // namespace

std::span<const OptionRow> label_options() {
  return rows;
}

}  // namespace shardstream::study
