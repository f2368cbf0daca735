#include "watchdog/side_channel.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "core/error.hpp"

namespace shardstream::watchdog {
namespace {

constexpr std::size_t max_unread = 16384;

sockaddr_in socket_address(in_addr address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr = address;
  result.sin_port = htons(port);
  return result;
}

in_addr local_address(std::uint32_t host_order) {
  in_addr address{};
  address.s_addr = htonl(host_order);
  return address;
}

Descriptor make_socket() {
  return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Connection::Connection(Descriptor socket) : socket_(std::move(socket)) {
  // Send lines at once. If this cannot be set, they arrive some milliseconds later.
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

std::optional<std::string> Connection::receive() {
  std::array<char, 4096> part{};
  while (!ended_ && incoming_.find('\n') == std::string::npos) {
    const ssize_t got = ::recv(socket_.get(), part.data(), part.size(), 0);
    if (got < 0 && would_block(errno)) break;
    if (got > 0) incoming_.append(part.data(), static_cast<std::size_t>(got));
    ended_ = got <= 0 || incoming_.size() > max_unread;
  }
  const auto end = incoming_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = incoming_.substr(0, end);
  incoming_.erase(0, end + 1);
  return line;
}

void Connection::send(std::string_view line) {
  if (!line.empty()) outgoing_ += fmt::format("{}\n", line);
  const ssize_t put =
      ::send(socket_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // receive() also finds a broken connection.
  if (put > 0) outgoing_.erase(0, static_cast<std::size_t>(put));
}

Listener::Listener(Reach reach) : socket_(make_socket()) {
  sockaddr_in address =
      socket_address(local_address(reach == Reach::this_host ? INADDR_LOOPBACK : INADDR_ANY), 0);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket_.valid() || ::bind(socket_.get(), generic, length) != 0 ||
      ::listen(socket_.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket_.get(), generic, &length) != 0) {
    throw Error(fmt::format("no TCP port can be opened ({})", errno_text(errno)));
  }
  port_ = ntohs(address.sin_port);
}

Connection Listener::accept() const {
  Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  return socket.valid() ? Connection(std::move(socket)) : Connection();
}

std::vector<std::string> own_addresses(Reach reach) {
  if (reach == Reach::this_host) return {"127.0.0.1"};
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if ((each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    addresses.emplace_back(text.data());
  }
  ::freeifaddrs(first);
  return addresses;
}

Connection connect_to(const std::string& address, std::uint16_t port, int milliseconds) {
  in_addr binary{};
  Descriptor socket = make_socket();
  if (!socket.valid() || ::inet_pton(AF_INET, address.c_str(), &binary) != 1) return {};
  const sockaddr_in to = socket_address(binary, port);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    if (errno != EINPROGRESS) return {};
    pollfd ready{socket.get(), POLLOUT, 0};
    int error = 0;
    socklen_t length = sizeof(error);
    if (::poll(&ready, 1, milliseconds) != 1 ||
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
      return {};
    }
  }
  return Connection(std::move(socket));
}

}  // namespace shardstream::watchdog
