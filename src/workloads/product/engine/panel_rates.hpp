// The rates of the readers of a product: alone, and while their slots are uploaded.
#pragma once

#include <cstdint>
#include <memory>

#include "measure/ceilings.hpp"
#include "pipeline/pipeline_options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"

namespace shardstream::workloads::product {

/// Readers that copy pieces of A and B in proportion to the sizes of the matrices. After the last
/// piece they start over. If pipeline.mode is pageable, the pieces come from ordinary memory
/// instead. All members are collective; runtime and operands must outlive the object.
class PanelReaders {
 public:
  /// `sample`: bytes of the ordinary memory.
  PanelReaders(runtime::Runtime& runtime, const Operands& operands,
               const pipeline::StagingSizes& staging, std::uint64_t sample);
  ~PanelReaders();

  /// panel_read: the rate of the readers without uploads, in bytes that would be uploaded. The
  /// measurement makes four passes of `seconds` seconds. Throws AgreedError if a matrix cannot be
  /// read.
  measure::Ceiling read(double seconds) const;
  /// panel_feed: the rate of the readers and of the uploads from their slots. Both use the host's
  /// memory, so this rate is lower than either alone. `rate`: the GB/s of read(). The measurement
  /// makes three passes of about `seconds` seconds, or longer if the slots are large. It needs
  /// about `device_bytes` bytes of device memory. Throws like read().
  measure::Ceiling feed(double seconds, double rate, std::uint64_t device_bytes) const;

 private:
  class Sample;

  runtime::Runtime& runtime_;
  pipeline::StagingSizes staging_;
  std::unique_ptr<const Sample> sample_;
};

}  // namespace shardstream::workloads::product
