#include "workloads/product/plan/batch_timeline.hpp"

#include <algorithm>

namespace shardstream::workloads::product {

Timeline::Timeline(const Pipeline& pipeline)
    : pipeline_(pipeline),
      uploaded_(pipeline.first_read),
      filled_(pipeline.ring, 0),
      free_(pipeline.ring, 0) {}

void Timeline::add(const Effort& effort, std::uint64_t count) {
  // After a few super-tiles all others take the same time.
  constexpr std::uint64_t different = 3;
  double before = computed_;
  for (std::uint64_t i = 0; i < std::min(count, different); ++i) {
    before = computed_;
    add_one(effort);
  }
  if (count > different) skip(static_cast<double>(count - different) * (computed_ - before));
}

void Timeline::add_one(const Effort& effort) {
  // In the middle of many blocks all batches take the same time. Whole turns of the ring are left
  // out.
  const std::uint64_t ring = pipeline_.ring, begin = 2 * ring + 4;
  const std::uint64_t end = ring + pipeline_.window;
  double before = computed_;
  for (std::uint64_t block = 0; block < pipeline_.blocks; ++block) {
    if (block + ring == begin) before = computed_;
    if (block == begin && block + end < pipeline_.blocks) {
      const std::uint64_t turns = (pipeline_.blocks - block - end) / ring;
      skip(static_cast<double>(turns) * (computed_ - before));
      block += turns * ring;
    }
    add_batch(effort, block);
  }
  finish_tiles(effort);
}

void Timeline::add_batch(const Effort& effort, std::uint64_t block) {
  const double depth = pipeline_.depth(block);
  const std::uint64_t buffer = batches_ % pipeline_.ring;
  if (batches_++ >= pipeline_.ring) {
    // Readers go on as soon as the buffer's last use is enqueued, which is when it has been filled.
    uploaded_ = std::max({uploaded_, free_[buffer], filled_[buffer] + pipeline_.first_read});
  }
  uploaded_ += depth * effort.upload;
  filled_[buffer] = uploaded_;
  // Work is enqueued while the uploads before it run.
  enqueued_ = std::max(enqueued_ + effort.enqueue, uploaded_);
  gathered_ = std::max(gathered_, enqueued_) + depth * effort.gather;
  // Arrivals go first on the device, and delay products.
  arrived_ = std::max(arrived_, gathered_) + depth * effort.arrive;
  computed_ = std::max(computed_, gathered_) + depth * effort.arrive;
  computed_ = std::max(computed_, arrived_);
  if (pipeline_.gathers_block && block + pipeline_.window >= pipeline_.blocks) {
    computed_ += depth * effort.gather;  // no products are enqueued meanwhile
  }
  computed_ += depth * effort.compute;
  if (block == 0 && !pipeline_.keeps_b && effort.tiles > 0) {
    // The last tile's products wait until the tile before has left its accumulator.
    computed_ = std::max(computed_, drained_ + depth * effort.compute / effort.tiles);
  }
  free_[buffer] = computed_;
}

void Timeline::finish_tiles(const Effort& effort) {
  const double all = effort.tiles > 0 ? effort.tiles : 1;
  double products = 0;  // that were left when the last batch arrived
  const std::uint64_t window = std::min(pipeline_.window, pipeline_.blocks);
  for (std::uint64_t i = 0; i < window; ++i) {
    products += pipeline_.depth(pipeline_.blocks - 1 - i) * effort.compute;
  }
  products = std::min(products, computed_ - arrived_);
  double first = computed_ - products + products / all;
  if (pipeline_.splits_k) {
    computed_ += effort.exchange;
    gathered_ = std::max(gathered_, computed_);
    first = computed_;
  }
  first += effort.finish;
  computed_ += effort.tiles * effort.finish;
  drained_ = std::max(std::max(drained_, first) + effort.drain, computed_ + effort.tile_drain);
  uploaded_ += effort.write;
  for (std::uint64_t i = 0; i < window; ++i) {
    free_[(batches_ - 1 - i) % pipeline_.ring] = computed_;
  }
}

void Timeline::skip(double seconds) {
  for (double* const time :
       {&uploaded_, &enqueued_, &gathered_, &arrived_, &computed_, &drained_}) {
    *time += seconds;
  }
  for (std::uint64_t i = 0; i < pipeline_.ring; ++i) {
    filled_[i] += seconds;
    free_[i] += seconds;
  }
}

double Timeline::end() const {
  return std::max(computed_, drained_ + pipeline_.last_write);
}

}  // namespace shardstream::workloads::product
