#include "workloads/stream/composite.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::workloads::stream {
namespace {

/// Appends rows to the table with the same name, or the table.
void append(const Table& table, std::vector<Table>& to) {
  const auto known = std::ranges::find(to, table.name(), &Table::name);
  if (known == to.end()) {
    to.push_back(table);
    return;
  }
  for (const Row& row : table.rows()) known->add(row.cells());
}

template <class T>
void append(std::vector<T>&& from, std::vector<T>& to) {
  std::ranges::move(from, std::back_inserter(to));
}

void append(io::LabelledData&& from, io::LabelledData& to) {
  append(std::move(from.dimensions), to.dimensions);
  append(std::move(from.arrays), to.arrays);
  append(std::move(from.existing), to.existing);
}

/// Appends what has a new name. Parts describe the data in the same words.
template <class T, class Name>
void append_new(const std::vector<T>& from, std::vector<T>& to, const Name& name) {
  for (const T& each : from) {
    if (std::ranges::find(to, name(each), name) == to.end()) to.push_back(each);
  }
}

/// Appends the lines with new names. Other texts are joined: each part lists its own operations.
void append_lines(const std::vector<Metric>& from, std::vector<Metric>& to) {
  for (const Metric& each : from) {
    const auto known = std::ranges::find(to, each.key, &Metric::key);
    if (known == to.end()) {
      to.push_back(each);
    } else if (known->value != each.value) {
      const auto* const text = std::get_if<std::string>(&each.value);
      auto* const all = std::get_if<std::string>(&known->value);
      if (text != nullptr && all != nullptr) *all += ", " + *text;
    }
  }
}

class Composite final : public Computation {
 public:
  explicit Composite(std::vector<std::unique_ptr<Computation>> parts)
      : parts_(std::move(parts)), active_(parts_.size(), true) {}

  void plan(const pipeline::BatchMemory& memory, const Shards& shards) override {
    pipeline::BatchMemory share = memory;
    share.left /= parts_.size();
    for (const auto& part : parts_) part->plan(share, shards);
  }
  pipeline::DeviceState device_state(Range shard) const override {
    pipeline::DeviceState all;
    for (const auto& part : parts_) all.unit = std::max(all.unit, part->device_state(shard).unit);
    for (const auto& part : parts_) {
      const pipeline::DeviceState own = part->device_state(shard);
      expect(all.unit % own.unit == 0, "units are multiples of one another");
      all.per_unit += own.per_unit * (all.unit / own.unit);
      all.fixed += own.fixed;
    }
    return all;
  }
  std::uint64_t shard_unit() const override { return largest_part().shard_unit(); }
  std::string_view unit_word() const override { return largest_part().unit_word(); }
  std::vector<std::string> description() const override {
    std::vector<std::string> lines;
    for (const auto& part : parts_) append(part->description(), lines);
    return lines;
  }
  std::uint64_t passes() const override {
    std::uint64_t most = 1;
    for (const auto& part : parts_) most = std::max(most, part->passes());
    return most;
  }
  std::uint64_t max_samples() const override {
    std::uint64_t most = SampledRanges::max;
    for (const auto& part : parts_) most = std::min(most, part->max_samples());
    return most;
  }
  std::string coverage() const override {
    std::string all;
    for (const auto& part : parts_) all += part->coverage();
    return all;
  }
  io::Origin further_inputs() const override {
    io::Origin origin;
    for (const auto& part : parts_) io::add(origin, part->further_inputs());
    return origin;
  }
  std::string identity() const override {
    std::vector<std::string> texts;
    for (const auto& part : parts_) {
      if (std::string text = part->identity(); !text.empty()) texts.push_back(std::move(text));
    }
    return join(texts, ", ");
  }
  std::vector<OutputArray> outputs() const override {
    std::vector<OutputArray> all;
    for (const auto& part : parts_) append(part->outputs(), all);
    return all;
  }

  void allocate(const ShardContext& context) override {
    std::size_t first = 0;
    for (const auto& part : parts_) {
      const std::size_t count = part->outputs().size();
      ShardContext& own = *contexts_.emplace_back(std::make_unique<ShardContext>(context));
      own.outputs = context.outputs.subspan(first, count);
      first += count;
      part->allocate(own);
    }
  }
  void connect() override {
    for (const auto& part : parts_) part->connect();
  }
  void begin_pass(device::Stream& compute) override {
    for_active([&](Computation& part) { part.begin_pass(compute); });
  }
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) override {
    for_active([&](Computation& part) { part.enqueue(compute, batch); });
  }
  void end_pass(device::Stream& compute) override {
    for_active([&](Computation& part) { part.end_pass(compute); });
  }
  Next combine(device::Stream& compute) override {
    bool again = false;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!active_[i]) continue;
      active_[i] = parts_[i]->combine(compute) == Next::another_pass;
      again = again || active_[i];
    }
    if (again) return Next::another_pass;
    active_.assign(parts_.size(), true);  // for the next repetition
    return Next::done;
  }
  void add_result(Digest& digest) const override {
    for (const auto& part : parts_) part->add_result(digest);
  }
  void conclude(const ExtraPass& extra_pass) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i]->conclude([&](const char* phase) {
        active_.assign(parts_.size(), false);
        active_[i] = true;
        extra_pass(phase);
      });
    }
  }
  void report(const Checks& checks, Outcome& outcome) override {
    outcome.verified = Verification::passed;
    std::vector<std::string> verdicts;
    if (!outcome.verdict.empty()) verdicts.push_back(outcome.verdict);
    for (const auto& part : parts_) {
      Outcome own;
      own.verdict = outcome.verdict;
      part->report(checks, own);
      outcome.verified = std::min(outcome.verified, own.verified);
      if (!own.verdict.empty() && own.verdict != outcome.verdict) verdicts.push_back(own.verdict);
      for (const Table& table : own.results) append(table, outcome.results);
      append_new(own.attributes, outcome.attributes, [](const auto& each) { return each.first; });
      append(std::move(own.labelled), outcome.labelled);
      append(std::move(own.input), outcome.input);
      append_lines(own.metrics, outcome.metrics);
    }
    outcome.verdict = join(verdicts, "; ");
  }
  double largest() const override {
    double largest = std::numeric_limits<double>::quiet_NaN();
    for (const auto& part : parts_) largest = std::fmax(largest, part->largest());
    return largest;
  }

 private:
  template <class Use>
  void for_active(const Use& use) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (active_[i]) use(*parts_[i]);
    }
  }
  const Computation& largest_part() const {
    const auto& largest =
        *std::ranges::max_element(parts_, {}, [](const auto& part) { return part->shard_unit(); });
    for (const auto& part : parts_) {
      expect(largest->shard_unit() % part->shard_unit() == 0, "units are multiples of one another");
    }
    return *largest;
  }

  std::vector<std::unique_ptr<Computation>> parts_;
  std::vector<std::unique_ptr<ShardContext>> contexts_;
  std::vector<bool> active_;  // the parts that take part in the next pass
};

}  // namespace

std::unique_ptr<Computation> composite(std::vector<std::unique_ptr<Computation>> parts) {
  expect(!parts.empty(), "a composite has a part");
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<Composite>(std::move(parts));
}

}  // namespace shardstream::workloads::stream
