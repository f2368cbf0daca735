// Lines of text between ranks over TCP (IPv4), independent of MPI and usable from any thread. No
// function blocks, except connect_to(), which has a time limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::watchdog {

/// The processes that connect to each other: those of one host, or of several.
enum class Reach { this_host, all_hosts };

/// One end of a connection. Lines contain no '\n'. Only one thread at a time may use it.
class Connection {
 public:
  Connection() = default;
  explicit Connection(Descriptor socket);

  bool valid() const { return socket_.valid(); }
  int descriptor() const { return socket_.get(); }

  /// The next complete line, or nothing if it has not arrived yet.
  std::optional<std::string> receive();
  /// Whether receive() has found that the other end has closed the connection, or has sent too many
  /// bytes without a line end.
  bool ended() const { return ended_; }

  /// Sends the line. The part that the system does not accept now is kept for the next send().
  void send(std::string_view line);
  /// Whether parts of earlier lines are still unsent because the other end does not read.
  bool backlog() const { return !outgoing_.empty(); }

 private:
  Descriptor socket_;
  std::string incoming_, outgoing_;
  bool ended_ = false;
};

/// Listens at a port that the system chooses.
class Listener {
 public:
  Listener() = default;
  /// Throws Error.
  explicit Listener(Reach reach);

  bool valid() const { return socket_.valid(); }
  int descriptor() const { return socket_.get(); }
  std::uint16_t port() const { return port_; }
  /// The next connection, or an invalid one if none is pending.
  Connection accept() const;

 private:
  Descriptor socket_;
  std::uint16_t port_ = 0;
};

/// The addresses by which other processes may reach this host.
std::vector<std::string> own_addresses(Reach reach);

/// Returns an invalid connection if there is none after `milliseconds`.
Connection connect_to(const std::string& address, std::uint16_t port, int milliseconds);

}  // namespace shardstream::watchdog
