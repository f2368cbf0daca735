#include "workloads/model/model_report.hpp"

#include <fmt/format.h>

#include "core/statistics.hpp"

namespace shardstream::workloads::model {
namespace {

Table law_table(const Law& law, std::uint64_t ranks, double measured, bool valid) {
  Table table("model", {{"ranks", ColumnType::integer},
                        {"work", ColumnType::real, "s"},
                        {"serial_seconds", ColumnType::real, "s"},
                        {"parallel_seconds", ColumnType::real, "s"},
                        {"overhead_seconds", ColumnType::real, "s"},
                        {"predicted", ColumnType::real, "s"},
                        {"measured", ColumnType::real, "s"},
                        {"speedup_predicted", ColumnType::real},
                        {"efficiency_predicted", ColumnType::real},
                        {"validated", ColumnType::integer}});
  const Seconds seconds = predict(law, ranks);
  table.add({static_cast<std::int64_t>(ranks), counted_work(law), seconds.serial, seconds.parallel,
             seconds.overhead, seconds.total(), measured, speedup(law, ranks),
             efficiency(law, ranks), std::int64_t{valid}});
  return table;
}

Table ranks_table(const std::vector<RankReport>& ranks, bool valid) {
  Table table("model_ranks", {{"rank", ColumnType::integer},
                              {"counted", ColumnType::integer, "ns"},
                              {"asked", ColumnType::integer, "ns"},
                              {"lasted", ColumnType::integer, "ns"},
                              {"min_excess", ColumnType::integer, "ns"},
                              {"validated", ColumnType::integer}});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& [counted, spent] = ranks[rank];
    table.add({static_cast<std::int64_t>(rank), counted, spent.asked, spent.lasted,
               spent.min_excess, std::int64_t{valid}});
  }
  return table;
}

}  // namespace

std::string fault(const std::vector<RankReport>& ranks, const std::optional<WrongSum>& wrong) {
  if (wrong) {
    return fmt::format("in repetition {} the ranks counted {} ns of work and were asked for {} ns",
                       wrong->repetition, wrong->counted, wrong->asked);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].spent.min_excess < 0) {
      return fmt::format("a part of rank {} ended {} ns too early", rank,
                         -ranks[rank].spent.min_excess);
    }
  }
  return {};
}

void report(const Law& law, const std::vector<RankReport>& ranks,
            const std::optional<WrongSum>& wrong, Outcome& outcome) {
  const std::uint64_t count = ranks.size();
  outcome.verdict = fault(ranks, wrong);
  const bool valid = outcome.verdict.empty();
  if (valid) {
    outcome.verified = Verification::passed;
    outcome.verdict =
        "every part lasted at least as long as requested, and the sum of the ranks' work is exact";
  }
  outcome.elements = static_cast<std::uint64_t>(counted_of_all(law, {}, count, std::nullopt));
  outcome.work = {counted_work(law), "s", "counted_second"};
  const double measured = median(outcome.samples.seconds());
  outcome.results.push_back(law_table(law, count, measured, valid));
  outcome.results.push_back(ranks_table(ranks, valid));
  outcome.metrics.push_back({"predicted", predict(law, count).total(), "s", "{:.6g}"});
  outcome.metrics.push_back({"serial_configured", law.serial, "", "{:.6g}"});
}

}  // namespace shardstream::workloads::model
