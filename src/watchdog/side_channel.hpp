// Lines of text between ranks over TCP (IPv4), beside MPI and from any thread. Nothing here blocks
// but connect_to(), which has a limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::watchdog {

/// One end of a connection. Lines hold no '\n'. For one thread at a time.
class Connection {
 public:
  Connection() = default;
  explicit Connection(Descriptor socket);

  bool valid() const { return socket_.valid(); }
  int descriptor() const { return socket_.get(); }

  /// The next whole line, if it has come.
  std::optional<std::string> receive();
  /// receive() has found that the other end is gone, or does not keep to lines of some hundred
  /// characters.
  bool ended() const { return ended_; }

  /// Sends now, or keeps what the system does not take for the next send().
  void send(std::string_view line);
  /// There is something left of earlier lines: the other end does not read.
  bool backlog() const { return !outgoing_.empty(); }

 private:
  Descriptor socket_;
  std::string incoming_, outgoing_;
  bool ended_ = false;
};

/// Waits for others at a port that the system chooses.
class Listener {
 public:
  Listener() = default;
  /// On all interfaces, or for this host's processes alone. Throws Error.
  explicit Listener(bool this_host_only);

  bool valid() const { return socket_.valid(); }
  int descriptor() const { return socket_.get(); }
  std::uint16_t port() const { return port_; }
  /// Invalid when nobody waits.
  Connection accept() const;

 private:
  Descriptor socket_;
  std::uint16_t port_ = 0;
};

/// This host's addresses, as other hosts may know them; or the one that only this host knows.
std::vector<std::string> own_addresses(bool this_host_only);

/// Invalid when there is no connection after `milliseconds`.
Connection connect_to(const std::string& address, std::uint16_t port, int milliseconds);

}  // namespace shardstream::watchdog
