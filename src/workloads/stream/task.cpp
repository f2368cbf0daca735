#include "workloads/stream/task.hpp"

#include "core/error.hpp"
#include "workloads/stream/run.hpp"

namespace shardstream::workloads::stream {
namespace {

class StreamTask : public Task {
 public:
  StreamTask(const Options& options, CreateComputation create)
      : options_(options), source_(io::open_source(options)), create_(create) {
    create_(options_, *source_);  // throws if an option is wrong
  }

  io::Origin inputs() const override { return source_->origin(); }
  std::string identity() const override { return io::identity_of(*source_); }
  Prediction predict(measure::Machine& machine) const override {
    return stream::predict(options_, *source_, *create_(options_, *source_), machine);
  }
  Outcome run(runtime::Runtime& runtime, const RunFiles&) override {
    return stream::run(runtime, *source_, create_(options_, *source_));
  }

 private:
  const Options& options_;
  const std::unique_ptr<io::Source> source_;
  const CreateComputation create_;
};

}  // namespace

std::vector<std::string_view> honoured_keys() {
  return {"input.data",  "input.rows",     "input.count",
          "input.shape", "pipeline.batch", "pipeline.batches"};
}

std::unique_ptr<Task> open_task(const Options& options, CreateComputation create) {
  return std::make_unique<StreamTask>(options, create);
}

Scaled scaled(const Options& options, double factor, std::string_view) {
  if (io::names_file(options, "input.data")) return scaled_rows(options, factor);
  if (options.text("input.shape").empty()) return scaled_count(options, "input.count", factor);
  throw UsageError("input.shape cannot grow in a weak scaling study: pass --input.count instead");
}

}  // namespace shardstream::workloads::stream
