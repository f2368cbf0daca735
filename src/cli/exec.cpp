#include "scale/program/exec.hpp"
#include "cli/commands.hpp"

namespace shardstream::cli {

int exec(const Arguments& arguments) {
  scale::program::become(scale::program::parse_execution(arguments));
}

}  // namespace shardstream::cli
