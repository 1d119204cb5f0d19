#include "ember/base/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "ember/base/env.h"
#include "ember/base/file.h"

namespace ember::inline v0 {
namespace {

Status needs(const std::string& folder) {
  return Status(Code::not_supported,
                "the folder " + folder + " cannot be made: " + std::strerror(errno));
}

}  // namespace

std::vector<std::string> private_folders() {
  std::vector<std::string> all;
  const auto runtime = env::get("XDG_RUNTIME_DIR");
  // The name of a socket has some 30 characters and must fit into a sockaddr_un.
  if (runtime && !runtime->empty() && runtime->size() < 60) all.push_back(*runtime + "/ember");
  all.push_back("/tmp/ember-" + std::to_string(geteuid()));
  return all;
}

Status make_private_folder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return needs(folder);
  const File opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!opened || fstat(opened.get(), &about) != 0) return needs(folder);
  if (about.st_uid == geteuid() && (about.st_mode & 077) == 0) return {};
  char text[128];
  std::snprintf(text, sizeof text,
                " belongs to user %u with mode %04o, expected user %u's own, closed to others "
                "(0700)",
                static_cast<unsigned>(about.st_uid), static_cast<unsigned>(about.st_mode) & 07777U,
                static_cast<unsigned>(geteuid()));
  return Status(Code::not_permitted, "the folder " + folder + text);
}

}  // namespace ember::inline v0
