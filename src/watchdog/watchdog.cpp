#include "watchdog/watchdog.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <random>
#include <system_error>
#include <thread>

#include "core/error.hpp"
#include "core/text.hpp"
#include "ranks/signals.hpp"
#include "watchdog/diagnosis.hpp"
#include "watchdog/process.hpp"
#include "watchdog/side_channel.hpp"

namespace shardstream::watchdog {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int connect_ms = 1000;      // to connect to one address of rank 0
constexpr int welcome_ms = 5000;      // until rank 0 has answered there
constexpr double diagnosis_time = 1;  // s, to print the message
constexpr double stop_time = 2;       // s, for Heartbeat::stop_all()
constexpr double launcher_time = 2;   // s, in which a launcher ends the other ranks after a signal
constexpr double never = std::numeric_limits<double>::infinity();

/// The facts about a rank that every rank knows.
struct Member {
  int rank = 0;
  std::string host;
  long pid = 0;
  std::string process;  ///< process_identity()
};

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

class Watchdog::Watch {
 public:
  Watch(const ranks::Session& session, double timeout, Log& log);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void set_up();
  void stand_down();

 private:
  /// A rank that this rank watches.
  struct Watched {
    Member member;
    Connection connection{};  // not valid for this rank itself, or once closed
    ranks::Pulse pulse{};
    // Times of the latest report, the latest progress and the end, on the clock `now_`
    double heard = 0, moved = 0, ended = never;
    bool by_signal = false;  // it has announced that a signal ends it
    bool parted = false;     // it has announced its end
  };

  // Setting up the channel
  std::string introduce();
  std::string connect_to_rank_0(const std::vector<std::string_view>& introduction);
  void start();
  void stop();

  // Functions of the thread
  void run();
  void wait_for_messages(double seconds);
  void advance_clock();
  void read_messages();
  void accept_ranks();
  void receive(Watched& rank, std::string_view line);
  void judge();
  std::optional<Diagnosis> find_fault() const;
  bool is_first_of_other_hosts() const;
  bool may_print() const { return session_.rank() <= 2 || is_first_of_other_hosts(); }
  double delay_before_end() const;
  void send_all(std::string_view line);
  void announce_end();
  [[noreturn]] void end_job(const Diagnosis& diagnosis);
  [[noreturn]] void end(const std::vector<int>& silent);

  bool is_first() const { return session_.rank() == 0; }
  RankState state(const Watched& rank) const;

  const ranks::Session& session_;
  Log& log_;
  const double timeout_, interval_;
  std::vector<Member> members_;
  std::string token_;
  Listener listener_;                  // on rank 0, until all ranks are connected
  std::vector<Connection> strangers_;  // connections that have not sent the token yet
  std::vector<Watched> watched_;       // on rank 0: all ranks; on others: rank 0 and this rank
  ranks::RemoveOnSignal on_signal_;
  Descriptor wake_;  // readable after a signal or a request of the main thread
  double now_ = 0;   // seconds during which this thread has run
  Clock::time_point last_wake_ = Clock::now();
  std::optional<Diagnosis> diagnosis_;
  double diagnosed_at_ = 0;
  bool announced_signal_ = false;
  std::atomic<bool> judges_ = false, wants_to_stand_down_ = false, stands_down_ = false,
                    wants_to_stop_ = false;
  std::thread thread_;
};

Watchdog::Watch::Watch(const ranks::Session& session, double timeout, Log& log)
    : session_(session), log_(log), timeout_(timeout), interval_(std::min(1.0, timeout / 10)) {}

Watchdog::Watch::~Watch() {
  stop();
}

void Watchdog::Watch::set_up() {
  const auto introductions = session_.gather(introduce());
  for (const std::string& text : introductions) {
    const auto field = split(text, '\t');
    members_.push_back({static_cast<int>(members_.size()), std::string(field[0]),
                        std::stol(std::string(field[1])), std::string(field[2])});
  }
  for (const Member& member : members_) {
    if (is_first() || member.rank == 0 || member.rank == session_.rank()) {
      watched_.push_back({.member = member});
    }
  }
  const auto introduction = split(introductions[0], '\t');
  std::string problem(introduction[3]);
  token_ = introduction[4];
  if (problem.empty()) {
    session_.collectively([&] {
      if (is_first()) start();
    });
    if (!is_first()) problem = connect_to_rank_0(introduction);
  }
  const auto problems = session_.gather(problem);
  const auto bad = std::ranges::find_if(problems, [](const auto& text) { return !text.empty(); });
  if (bad != problems.end()) {
    stop();
    if (is_first()) {
      log_.warn(fmt::format(
          "the ranks cannot watch one another ({}): a rank that hangs will not be named", *bad));
    }
    return;
  }
  session_.collectively([&] {
    if (!is_first()) start();
  });
  judges_ = true;
}

/// "host pid process problem token port address...". Only rank 0, which listens, fills all fields.
std::string Watchdog::Watch::introduce() {
  const long pid = ::getpid();
  std::string problem, channel = "\t";
  wake_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (is_first() && session_.size() > 1) {
    const Reach reach =
        session_.local_size() == session_.size() ? Reach::this_host : Reach::all_hosts;
    try {
      rlimit files{};
      // Half of the limit is left for files and for the libraries' own connections.
      if (::getrlimit(RLIMIT_NOFILE, &files) == 0 &&
          files.rlim_cur / 2 < static_cast<rlim_t>(session_.size())) {
        throw Error(fmt::format("ulimit -n {} leaves too few open files on {}", files.rlim_cur,
                                session_.host()));
      }
      listener_ = Listener(reach);
      channel = fmt::format("{}\t{}", random_token(), listener_.port());
      for (const auto& address : own_addresses(reach)) channel += "\t" + address;
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  return fmt::format("{}\t{}\t{}\t{}\t{}", session_.host(), pid, process_identity(pid), problem,
                     channel);
}

/// Returns the reason if the connection failed, else an empty text.
std::string Watchdog::Watch::connect_to_rank_0(const std::vector<std::string_view>& introduction) {
  const auto port = static_cast<std::uint16_t>(std::stoul(std::string(introduction[5])));
  const std::vector<std::string_view> addresses(introduction.begin() + 6, introduction.end());
  for (const std::string_view address : addresses) {
    Connection connection = connect_to(std::string(address), port, connect_ms);
    if (!connection.valid()) continue;
    connection.send(fmt::format("hello\t{}\t{}", token_, session_.rank()));
    pollfd ready{connection.descriptor(), POLLIN, 0};
    if (::poll(&ready, 1, welcome_ms) != 1) continue;
    if (connection.receive() != fmt::format("welcome\t{}", token_)) continue;
    watched_[0].connection = std::move(connection);
    return "";
  }
  return fmt::format("rank {} on {} cannot reach rank 0 on {} by TCP at {} port {}",
                     session_.rank(), session_.host(), members_[0].host,
                     addresses.empty() ? "any address," : join(addresses, " or "), port);
}

void Watchdog::Watch::start() {
  last_wake_ = Clock::now();
  // Signals go to the main thread: their handler waits, while this thread may have to print.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ranks::notify_of_signals(wake_.get());
}

void Watchdog::Watch::stop() {
  if (!thread_.joinable()) return;
  ranks::notify_of_signals(-1);
  wants_to_stop_ = true;
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Watchdog::Watch::stand_down() {
  if (!thread_.joinable()) return;
  wants_to_stand_down_ = true;
  ::eventfd_write(wake_.get(), 1);
  stands_down_.wait(false);
}

void Watchdog::Watch::run() {
  double next_beat = 0;
  while (true) {
    wait_for_messages(next_beat - now_);
    advance_clock();
    read_messages();
    if (judges_) judge();
    announce_end();
    if (wants_to_stop_) return;
    if (now_ < next_beat) continue;
    const ranks::Pulse pulse = session_.heartbeat().pulse();
    send_all(
        fmt::format("beat\t{}\t{:d}\t{}\t{}", pulse.moves, pulse.waiting, pulse.phase, pulse.step));
    next_beat = now_ + interval_;
  }
}

void Watchdog::Watch::wait_for_messages(double seconds) {
  std::vector<pollfd> sources = {{wake_.get(), POLLIN, 0}};
  if (listener_.valid()) sources.push_back({listener_.descriptor(), POLLIN, 0});
  for (const auto& stranger : strangers_) sources.push_back({stranger.descriptor(), POLLIN, 0});
  for (const auto& rank : watched_) {
    if (rank.connection.valid()) sources.push_back({rank.connection.descriptor(), POLLIN, 0});
  }
  const int milliseconds = static_cast<int>(std::clamp(seconds, 0.0, interval_) * 1000) + 1;
  // The result does not matter: the caller checks all sources.
  ::poll(sources.data(), sources.size(), milliseconds);
  eventfd_t ignored = 0;
  ::eventfd_read(wake_.get(), &ignored);
}

/// Limits the step of the clock: after a time in which this thread did not run, since the job was
/// suspended or the machine slept, all ranks would seem silent.
void Watchdog::Watch::advance_clock() {
  const auto before = std::exchange(last_wake_, Clock::now());
  now_ += std::min(std::chrono::duration<double>(last_wake_ - before).count(), 3 * interval_);
}

void Watchdog::Watch::read_messages() {
  if (listener_.valid()) accept_ranks();
  for (auto& rank : watched_) {
    if (rank.member.rank == session_.rank()) {
      ranks::Pulse pulse = session_.heartbeat().pulse();
      if (pulse.moves != rank.pulse.moves) rank.moved = now_;
      rank.pulse = std::move(pulse);
      rank.heard = now_;
    }
    if (!rank.connection.valid()) continue;
    while (const auto line = rank.connection.receive()) receive(rank, *line);
    if (!rank.connection.ended()) continue;
    rank.connection = {};
    rank.ended = now_;
  }
}

/// Accepts the ranks that send the token. If there are too many other connections, closes the
/// oldest.
void Watchdog::Watch::accept_ranks() {
  for (Connection next = listener_.accept(); next.valid(); next = listener_.accept()) {
    strangers_.push_back(std::move(next));
  }
  for (auto& stranger : strangers_) {
    const auto line = stranger.receive();
    if (!line) continue;
    const auto word = split(*line, '\t');
    const bool knows = word.size() == 3 && word[0] == "hello" && word[1] == token_;
    const std::size_t rank = knows ? std::stoul(std::string(word[2])) : 0;
    if (rank == 0 || rank >= watched_.size()) continue;
    stranger.send(fmt::format("welcome\t{}", token_));
    watched_[rank].heard = watched_[rank].moved = now_;
    watched_[rank].connection = std::exchange(stranger, {});
  }
  std::erase_if(strangers_, [](const auto& each) { return !each.valid() || each.ended(); });
  const auto max = watched_.size() + 16;
  if (strangers_.size() > max) strangers_.erase(strangers_.begin(), strangers_.end() - max);
  const auto connected = [](const Watched& each) { return each.connection.valid(); };
  if (std::ranges::count_if(watched_, connected) + 1 < std::ssize(watched_)) return;
  listener_ = {};
  strangers_.clear();
}

void Watchdog::Watch::receive(Watched& rank, std::string_view line) {
  const auto word = split(line, '\t');
  rank.heard = now_;
  if (word[0] == "beat" && word.size() == 5) {
    const ranks::Pulse pulse{std::string(word[3]), std::string(word[4]),
                             std::stoull(std::string(word[1])), word[2] == "1"};
    if (pulse.moves != rank.pulse.moves) rank.moved = now_;
    rank.pulse = pulse;
  } else if (word[0] == "parting") {
    rank.parted = true;
    rank.moved = now_;
  } else if (word[0] == "signal") {
    rank.by_signal = true;
  } else if (word[0] == "end") {
    std::vector<int> silent;
    for (std::size_t i = 1; i < word.size(); ++i) silent.push_back(std::stoi(std::string(word[i])));
    end(silent);
  }
}

RankState Watchdog::Watch::state(const Watched& rank) const {
  return {rank.member.rank, rank.member.host,  rank.member.pid,
          rank.pulse,       now_ - rank.heard, now_ - rank.moved};
}

void Watchdog::Watch::judge() {
  auto diagnosis = stands_down_ ? std::nullopt : find_fault();
  if (!diagnosis || !diagnosis_) {
    diagnosis_ = std::move(diagnosis);
    diagnosed_at_ = now_;
  }
  if (diagnosis_ && now_ - diagnosed_at_ >= delay_before_end()) end_job(*diagnosis_);
}

std::optional<Diagnosis> Watchdog::Watch::find_fault() const {
  const bool ends = std::ranges::any_of(watched_, &Watched::parted);
  std::vector<RankState> states;
  for (const auto& rank : watched_) {
    if (rank.parted) {  // ranks that waited for it may continue soon
      if (now_ - rank.moved < timeout_) return std::nullopt;
      continue;
    }
    states.push_back(state(rank));
    // If a rank ends the job, or a signal ends it (and usually all), no other rank is at fault.
    const double since = rank.by_signal ? launcher_time : 0;
    if (!ends && now_ - rank.ended >= since) return Diagnosis{lost_rank_message(states.back()), {}};
  }
  // As long as rank 0 reports, it judges for all ranks.
  if (!is_first() && (watched_[0].parted || states[0].silent < timeout_)) return std::nullopt;
  return diagnose_hang(states, timeout_, interval_);
}

/// Whether this is the first rank that is not on rank 0's host.
bool Watchdog::Watch::is_first_of_other_hosts() const {
  const auto found = std::ranges::find_if(
      members_, [&](const Member& member) { return member.host != members_[0].host; });
  return found != members_.end() && found->rank == session_.rank();
}

/// Seconds that this rank waits before it ends the job. All ranks see the end of rank 0: rank 1
/// reports it at once. If that does not end the job, rank 1 may be gone too, and two others report.
double Watchdog::Watch::delay_before_end() const {
  if (session_.rank() <= 1) return 0;
  return may_print() ? launcher_time : 2 * launcher_time;
}

void Watchdog::Watch::send_all(std::string_view line) {
  const bool can_wait = line.starts_with("beat");
  for (auto& rank : watched_) {
    if (!rank.connection.valid()) continue;
    rank.connection.send(can_wait && rank.connection.backlog() ? "" : line);
  }
}

/// Announces that this rank will end, and whether a signal is the reason.
void Watchdog::Watch::announce_end() {
  if (ranks::signal_has_come() && !std::exchange(announced_signal_, true)) send_all("signal");
  if (wants_to_stop_) send_all("parting");
  if (!wants_to_stand_down_ || stands_down_) return;
  send_all("parting");
  stands_down_ = true;
  stands_down_.notify_all();
}

void Watchdog::Watch::end_job(const Diagnosis& diagnosis) {
  if (may_print()) {
    try_for(diagnosis_time, [this, sentence = diagnosis.sentence] { log_.error(sentence); });
  }
  std::string line = "end";
  for (const int rank : diagnosis.silent) line += fmt::format("\t{}", rank);
  send_all(line);
  end(diagnosis.silent);
}

void Watchdog::Watch::end(const std::vector<int>& silent) {
  try_for(stop_time, [this] { session_.heartbeat().stop_all(); });
  for (const int rank : silent) {
    const Member& member = members_[static_cast<std::size_t>(rank)];
    if (rank == session_.rank() || member.host != session_.host()) continue;
    if (member.process.empty() || member.process != process_identity(member.pid)) continue;
    ::kill(static_cast<pid_t>(member.pid), SIGKILL);
  }
  ranks::end_at_once(ExitCode::failed);
}

Watchdog::Watchdog(const ranks::Session& session, double timeout, Log& log)
    : watch_(std::make_unique<Watch>(session, timeout, log)) {
  watch_->set_up();
}

Watchdog::~Watchdog() = default;

void Watchdog::stand_down() {
  watch_->stand_down();
}

}  // namespace shardstream::watchdog
