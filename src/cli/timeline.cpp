#include "cli/timeline.hpp"

#include <cstdint>

namespace shardstream::cli {
namespace {

/// What a span belongs to, by the rows of rank_phase: they come rank by rank and track by track.
class Rows {
 public:
  struct Row {
    int rank;
    std::uint32_t number;  ///< of the track, in its rank
    const std::string& track;
    const std::string& phase;
  };

  explicit Rows(const Table& rank_phase) {
    for (const auto& cells : rank_phase.rows()) {
      const int rank = static_cast<int>(std::get<std::int64_t>(cells[0]));
      const auto& track = std::get<std::string>(cells[1]);
      std::uint32_t number = 0;
      if (!rows_.empty() && rows_.back().rank == rank) {
        number = rows_.back().number + (rows_.back().track == track ? 0 : 1);
      }
      while (first_.size() <= static_cast<std::size_t>(rank)) first_.push_back(rows_.size());
      rows_.push_back({rank, number, track, std::get<std::string>(cells[2])});
    }
  }

  const std::vector<Row>& all() const { return rows_; }
  const Row& of(const measure::Timeline::Span& span) const {
    return rows_.at(first_.at(span.rank) + span.phase);
  }

 private:
  std::vector<Row> rows_;
  std::vector<std::size_t> first_;  // row of each rank
};

}  // namespace

Table spans_table(const measure::Timeline& timeline, const Table& rank_phase) {
  Table table("spans", {{"rank", ColumnType::integer},
                        {"track", ColumnType::text},
                        {"phase", ColumnType::text},
                        {"batch", ColumnType::integer},
                        {"start_ns", ColumnType::integer, "ns"},
                        {"dur_ns", ColumnType::integer, "ns"}});
  const Rows rows(rank_phase);
  for (const auto& span : timeline.spans) {
    const auto& row = rows.of(span);
    table.add(
        {std::int64_t{row.rank}, row.track, row.phase, span.batch, span.start_ns, span.dur_ns});
  }
  return table;
}

void write_trace(report::TraceFile& trace, const measure::Timeline& timeline,
                 const Table& rank_phase, const std::vector<std::string>& processes) {
  const Rows rows(rank_phase);
  trace.begin(timeline.alignment_error);
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    trace.process(static_cast<int>(rank), processes[rank]);
  }
  const Rows::Row* before = nullptr;
  for (const auto& row : rows.all()) {
    const bool known = before && before->rank == row.rank && before->number == row.number;
    if (!known) trace.thread(row.rank, row.number, row.track);
    before = &row;
  }
  for (const auto& span : timeline.spans) {
    const auto& row = rows.of(span);
    trace.span(row.rank, row.number, row.phase, span.batch, span.start_ns, span.dur_ns);
  }
  trace.end();
}

}  // namespace shardstream::cli
