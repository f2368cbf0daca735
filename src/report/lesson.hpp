// What the program knows about an experiment beyond its result file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream::report {

struct Lesson {
  struct Text {
    std::string heading, words;
  };
  struct Link {
    std::string title, address;  ///< equal for a file of the repository
  };
  struct Code {
    std::string place;  ///< "src/experiments/ladders/reduction.cu:120": file and line
    std::string text;
  };
  std::string question;
  std::vector<Text> texts;
  std::vector<Link> read_on;
  std::vector<Code> code;  ///< the device code of the experiment, in its order
};

/// The lesson of an experiment; none if the program does not know the experiment.
using Lessons = std::function<std::optional<Lesson>(std::string_view name)>;
/// For reports without lessons.
inline std::optional<Lesson> no_lesson(std::string_view) {
  return std::nullopt;
}

}  // namespace shardstream::report
