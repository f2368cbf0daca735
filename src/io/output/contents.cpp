#include "io/output/contents.hpp"

#include "core/error.hpp"

namespace shardstream::io {

std::string_view name_of(Contents contents) {
  switch (contents) {
    case Contents::result:
      return "a result of a run";
    case Contents::generated:
      return "a file of generate";
    case Contents::trace:
      return "a trace of a run";
    case Contents::page:
      return "a page of report";
    case Contents::figure:
      return "a figure of report";
    case Contents::table:
      return "a table of report";
    case Contents::extra_p:
      return "a file of report for Extra-P";
  }
  throw ContractError("unknown contents of an output");
}

}  // namespace shardstream::io
