// The end of an experiment whose last rows, those of a user's own kernel, have failed.
#pragma once

#include <utility>

#include "core/error.hpp"
#include "core/table.hpp"

namespace shardstream::experiments {

/// Thrown by Experiment::run: the table is complete but for the user's own kernel. The message and
/// the exit code are those of its error.
class Incomplete : public Error {
 public:
  Incomplete(const Error& error, Table rows)
      : Error(error.code(), error.what(), error.where()), rows_(std::move(rows)) {}
  const Table& rows() const { return rows_; }

 private:
  Table rows_;
};

}  // namespace shardstream::experiments
