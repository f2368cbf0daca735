// The rows of the commands: they are complete, and the help of a command agrees with its row.
#include "cli/commands.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <string>

#include "experiments/catalogue.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

/// The words with two dashes in a text, without the dashes.
std::set<std::string, std::less<>> dashed(const std::string& text) {
  static const std::regex word("(?:^|[^a-z-])--([a-z][a-z0-9.-]*[a-z0-9])");
  std::set<std::string, std::less<>> found;
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at) {
    found.insert((*at)[1]);
  }
  return found;
}

TEST(Commands, EachRowIsComplete) {
  std::set<std::string_view> names;
  const std::string program = program_help();
  for (const Command* command : commands()) {
    SCOPED_TRACE(command->name);
    EXPECT_TRUE(names.insert(command->name).second);
    ASSERT_FALSE(command->name.empty() || command->summary.empty());
    EXPECT_TRUE(std::islower(static_cast<unsigned char>(command->summary.front())));
    EXPECT_FALSE(command->summary.ends_with('.'));
    ASSERT_TRUE(command->help != nullptr && command->run != nullptr);
    EXPECT_TRUE(command->help({}).starts_with("shardstream " + std::string(command->name) + ' '));
    const std::string usage = std::string(command->name) + ' ' + std::string(command->arguments);
    EXPECT_NE(program.find("  shardstream " + usage + ' '), program.npos);
    EXPECT_LE(usage.size(), 35) << "the summaries of the program's help form a column";
  }
}

TEST(Commands, HelpOnANameIsUnambiguous) {
  for (const Command* command : commands()) {
    EXPECT_EQ(workloads::find(command->name), nullptr) << command->name;
    EXPECT_EQ(experiments::find(command->name), nullptr) << command->name;
  }
}

TEST(Commands, TheHelpShowsTheWordsOfTheRowAndNoOthers) {
  for (const Command* command : commands()) {
    SCOPED_TRACE(command->name);
    const auto shown = dashed(command->help({}));
    std::set<std::string, std::less<>> known = {"help"};
    for (const auto words : {command->switches, command->settings}) {
      for (const std::string_view word : words) {
        EXPECT_TRUE(known.emplace(word).second) << word << " is listed twice";
        EXPECT_TRUE(shown.contains(word)) << "the help lacks --" << word;
      }
    }
    for (const OptionRow& row : command->options()) {
      EXPECT_TRUE(known.emplace(row.key).second) << row.key << " is listed twice";
    }
    for (const std::string& word : shown) {
      EXPECT_TRUE(known.contains(word)) << "the row lacks --" << word;
    }
  }
}

}  // namespace
}  // namespace shardstream::cli
