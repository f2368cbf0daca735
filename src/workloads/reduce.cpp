#include "workloads/reduce.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "workloads/reduce_passes.hpp"
#include "workloads/reduce_report.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::array rows = {
    OptionRow{"reduce.ops", OptionKind::list, "count,sum,mean,variance,stddev,min,max",
              "count|sum|mean|variance|stddev|min|max",
              "What to compute, in one pass; variance and stddev are those of the population."},
    OptionRow{"reduce.nan", OptionKind::choice, "propagate", "propagate|ignore|error",
              "NaNs make every result but count NaN, are left out, or end the run."},
};

/// The worst deviation of any rank. Collective.
Deviation worst_of(const launch::Session& session, const Deviation& mine) {
  const auto all = session.gather(std::vector<double>{mine.error, mine.bound});
  Deviation worst{all[0], all[1]};
  for (std::size_t i = 2; i < all.size(); i += 2) {
    worst = Deviation::worse(worst, {all[i], all[i + 1]});
  }
  return worst;
}

template <class T>
Outcome reduce_as(runtime::Runtime& runtime, const io::Source& source) {
  using Class = reduce::Extreme<T>;
  const launch::Session& session = runtime.session;
  const Request request{runtime.options.list("reduce.ops"), runtime.options.text("reduce.nan")};
  const std::uint64_t elements = source.order().count();
  const Range mine = shard(elements, leaf_elements, static_cast<std::uint64_t>(session.rank()),
                           static_cast<std::uint64_t>(session.size()));
  Outcome outcome;
  if (runtime.options.text("pipeline.mode") != "resident") {
    const auto span = runtime.recorder.phase("ceilings");
    outcome.ceilings.push_back(measure::link_up(*runtime.device, session));
  }
  std::optional<ShardReduction<T>> shard_reduction;
  std::optional<RootFold<Class>> root_fold;
  {
    const auto span = runtime.recorder.phase("allocate");
    session.collectively([&] {
      shard_reduction.emplace(runtime, source, mine, request.want());
      root_fold.emplace(runtime, elements);
    });
  }
  {
    const auto span = runtime.recorder.phase("load");
    shard_reduction->load();
  }
  std::optional<Partial<Class>> total;
  bool repeatable = true;
  outcome.repetitions = measure::repeat(runtime.options, session, [&](bool timed) {
    std::vector<Partial<Class>> own;
    {
      const auto span =
          runtime.recorder.phase(timed ? "stream" : "warm-up", mine.count * sizeof(T));
      own = shard_reduction->run();
    }
    const auto span = runtime.recorder.phase("combine");
    const Partial<Class> again = root_fold->run(shard_reduction->compute(), own);
    repeatable = repeatable && (!total || same_statistics(*total, again));
    total = again;
  });
  session.collectively([&] {
    if (request.nan != "error" || total->nans == 0) return;
    throw Error(
        fmt::format("{} of {} elements of {} are NaN, the first at ({}): pass --reduce.nan "
                    "ignore or propagate",
                    total->nans, elements, source.name(), place(source, total->first_nan)));
  });
  const auto span = runtime.recorder.phase("verify");
  reduce::LeafCheck check = shard_reduction->verify();
  for (Deviation* deviation :
       {&check.exact, &check.sum, &check.mean, &check.variance, &check.stddev}) {
    *deviation = worst_of(session, *deviation);
  }
  const std::uint64_t samples = session.sum(shard_reduction->samples());
  const std::int64_t seen = total->count + (request.want().skip_nans ? total->nans : 0);
  outcome.elements = elements;
  outcome.bytes = elements * sizeof(T);
  outcome.verified =
      repeatable && check.exact.passes() && seen == static_cast<std::int64_t>(elements);
  if (!repeatable) {
    outcome.verdict = "the repetitions differ from one another";
  } else if (seen != static_cast<std::int64_t>(elements)) {
    outcome.verdict = fmt::format("{} of {} elements were counted", seen, elements);
  } else if (!check.exact.passes()) {
    outcome.verdict =
        "a sampled leaf's count, NaNs or extremes, or the tree over a batch, are wrong";
  }
  report_values<T>(source, request, *total, check, outcome);
  if (outcome.verified) {
    outcome.verdict = fmt::format("{} sampled leaves agree with their references", samples);
  }
  for (const auto& [key, value] : pipeline::resolved(shard_reduction->sizes(), sizeof(T))) {
    outcome.resolved.emplace_back(key, static_cast<std::int64_t>(value));
  }
  outcome.attributes = {{"nan", request.nan},
                        {"nans", total->nans},
                        {"leaf_elements", static_cast<std::int64_t>(leaf_elements)},
                        {"lanes", static_cast<std::int64_t>(reduce::lanes)}};
  return outcome;
}

}  // namespace

std::span<const OptionRow> reduce_options() {
  return rows;
}

Outcome reduce(runtime::Runtime& runtime, const io::Source& source) {
  return with_element_type(source.type(), [&](auto type) {
    return reduce_as<typename decltype(type)::type>(runtime, source);
  });
}

}  // namespace shardstream::workloads
