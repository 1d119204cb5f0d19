#include "ember/ipc/socket.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ember/base/private_folder.h"

namespace ember::inline v0::ipc {
namespace {

constexpr std::size_t kMostDescriptors = 128;

Status system_error(const std::string& what) {
  return Status(Code::not_supported, what + ": " + std::strerror(errno));
}

std::string socket_name(const Process& process) {
  return std::to_string(process.id) + "." + std::to_string(process.start);
}

/// The process that a name was made of; nothing for other names.
std::optional<Process> process_of(const char* name) {
  char* end = nullptr;
  const long id = std::strtol(name, &end, 10);
  if (end == name || *end != '.' || id <= 0 || id > INT32_MAX) return std::nullopt;
  const char* second = end + 1;
  const std::uint64_t start = std::strtoull(second, &end, 10);
  if (end == second || *end != '\0' || start == 0) return std::nullopt;
  return Process{static_cast<std::int32_t>(id), start};
}

bool address_of(const std::string& path, sockaddr_un& out) noexcept {
  out = {};
  out.sun_family = AF_UNIX;
  if (path.size() >= sizeof out.sun_path) return false;
  std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
  return true;
}

const sockaddr* generic(const sockaddr_un& address) noexcept {
  return reinterpret_cast<const sockaddr*>(&address);
}

Status listen_in(const std::string& folder, const Process& self, File& out) {
  File made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return system_error("a socket");
  const std::string path = folder + "/" + socket_name(self);
  sockaddr_un address{};
  if (!address_of(path, address))
    return Status(Code::not_supported, "the name of the socket is too long: " + path);
  (void)unlink(path.c_str());  // nobody else can have this name
  if (bind(made.get(), generic(address), sizeof address) != 0)
    return system_error("the socket " + path);
  if (listen(made.get(), 256) != 0) {
    Status status = system_error("the socket " + path);
    (void)unlink(path.c_str());
    return status;
  }
  out = std::move(made);
  return {};
}

Met connect_in(const std::string& folder, const Process& process, File& out) {
  sockaddr_un address{};
  if (!address_of(folder + "/" + socket_name(process), address)) return Met::gone;
  File made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return Met::none;
  if (connect(made.get(), generic(address), sizeof address) != 0)
    return errno == EAGAIN ? Met::busy : Met::gone;
  // Who listens there is told by the kernel, not by the name.
  std::int32_t id = 0;
  std::uint32_t user = 0;
  if (!peer_of(made, id, user) || id != process.id || !same_user(user)) return Met::other;
  out = std::move(made);
  return Met::yes;
}

}  // namespace

Status listen_here(const Process& self, File& out) {
  const Status status =
      in_private_folder([&](const std::string& folder) { return listen_in(folder, self, out); });
  return status.ok() ? status : Status(status.code(), "sharing: " + status.detail());
}

void remove_socket(const Process& process) noexcept {
  for (const std::string& folder : private_folders())
    (void)unlink((folder + "/" + socket_name(process)).c_str());
}

void sweep_sockets() noexcept {
  for (const std::string& folder : private_folders()) {
    DIR* listing = opendir(folder.c_str());
    if (listing == nullptr) continue;
    while (const dirent* entry = readdir(listing)) {  // NOLINT: the listing is this call's own
      const auto process = process_of(entry->d_name);
      if (process && !exists(*process)) (void)unlink((folder + "/" + entry->d_name).c_str());
    }
    (void)closedir(listing);
  }
}

Met connect_to(const Process& process, int milliseconds, File& out) {
  constexpr int kStep = 5;
  for (int waited = 0;; waited += kStep) {
    Met met = Met::gone;
    for (const std::string& folder : private_folders()) {
      met = connect_in(folder, process, out);
      if (met != Met::gone) break;
    }
    if (met != Met::busy || waited >= milliseconds) return met;
    if (!exists(process)) return Met::gone;
    (void)usleep(kStep * 1000);
  }
}

bool peer_of(const File& socket, std::int32_t& process, std::uint32_t& user) noexcept {
  ucred about{};
  socklen_t size = sizeof about;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &about, &size) != 0) return false;
  process = about.pid;
  user = about.uid;
  return true;
}

bool same_user(std::uint32_t user) noexcept { return user == geteuid(); }

bool send_message(const File& socket, std::span<const std::uint8_t> bytes,
                  std::span<const int> descriptors) noexcept {
  if (descriptors.size() > kMostDescriptors) return false;
  iovec part{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool receive_message(const File& socket, std::vector<std::uint8_t>& bytes, std::size_t most,
                     std::vector<File>& files) {
  bytes.resize(most);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  // Descriptors that came are ours whatever else is wrong, and closed if they are not wanted.
  if (count >= 0)
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < came; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
        files.emplace_back(descriptor);
      }
    }
  if (count <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return false;
  bytes.resize(static_cast<std::size_t>(count));
  return true;
}

bool await_message(const File& socket, int milliseconds) noexcept {
  pollfd look{socket.get(), POLLIN, 0};
  return poll(&look, 1, milliseconds) > 0;
}

}  // namespace ember::inline v0::ipc
