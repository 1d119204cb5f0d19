#include "ember/memory/top_socket.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/file.h"
#include "ember/base/private_folder.h"

namespace ember::inline v0::cuda::top {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::size_t kLongestAnswer = std::size_t{64} << 10;
constexpr const char* kEnding = ".top";

std::string reason() { return std::strerror(errno); }

void limit_waits(int socket) {
  timeval limit{};
  limit.tv_sec = kPatience.count() / 1000;
  for (const int which : {SO_RCVTIMEO, SO_SNDTIMEO})
    setsockopt(socket, SOL_SOCKET, which, &limit, sizeof limit);
}

/// Whether the other side is a process of this user's, or of root's.
bool is_trusted(int socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         (other.uid == geteuid() || other.uid == 0);
}

bool address_of(const std::string& path, sockaddr_un& out) {
  out = {};
  out.sun_family = AF_UNIX;
  if (path.size() >= sizeof out.sun_path) return false;
  std::memcpy(out.sun_path, path.c_str(), path.size() + 1);
  return true;
}

}  // namespace

std::string folder() { return private_folders().front(); }

int listen_for_questions(std::string& path) {
  File listener;
  const Status status = in_private_folder([&](const std::string& place) {
    // Numbers of processes come again, also those of other containers that see the folder.
    path = place + "/" + std::to_string(getpid()) + "-" +
           std::to_string(Clock::now().time_since_epoch().count()) + kEnding;
    sockaddr_un address{};
    if (!address_of(path, address))
      return Status(Code::not_supported, path + " is too long for a socket");
    listener = File(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener ||
        bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener.get(), 16) != 0)
      return Status(Code::not_supported, path + " cannot be made: " + reason());
    return Status();
  });
  if (!status.ok()) throw Error("top: " + status.detail());
  return listener.release();
}

bool answer_one(int listener, std::string (*answer)()) {
  const File asker(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (asker.get() < 0) return errno == EINTR || errno == ECONNABORTED || errno == EMFILE;
  if (!is_trusted(asker.get())) return true;
  limit_waits(asker.get());
  const std::string text = answer();
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t now = send(asker.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) break;
    sent += static_cast<std::size_t>(now);
  }
  // A child that was forked meanwhile has the socket, too: closing it ends nothing.
  shutdown(asker.get(), SHUT_WR);
  return true;
}

std::vector<std::string> sockets() {
  std::vector<std::string> found;
  for (const std::string& place : private_folders()) {
    DIR* opened = opendir(place.c_str());
    if (opened == nullptr) continue;
    while (const dirent* entry = readdir(opened)) {  // NOLINT(concurrency-mt-unsafe): its own DIR
      std::string path = place + "/" + entry->d_name;
      if (path.ends_with(kEnding)) found.push_back(std::move(path));
    }
    closedir(opened);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<std::string> ask(const std::string& path) {
  sockaddr_un address{};
  const File asking(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (asking.get() < 0 || !address_of(path, address)) return {};
  limit_waits(asking.get());
  if (connect(asking.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ECONNREFUSED) unlink(path.c_str());
    return {};
  }
  if (!is_trusted(asking.get())) return {};
  std::string text;
  const auto until = Clock::now() + kPatience;
  while (Clock::now() < until && text.size() <= kLongestAnswer) {
    char part[4096];
    const ssize_t got = recv(asking.get(), part, sizeof part, 0);
    if (got == 0) return text;
    if (got < 0) return {};
    text.append(part, static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace ember::inline v0::cuda::top
