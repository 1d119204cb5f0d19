// The sockets by which processes of one user ask each other: private to the user on both sides.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ember::inline v0::cuda::top {

/// The folder of the sockets, unless none can be made there: /tmp has one then.
std::string folder();

/// Makes a socket there that is this process's own, and the folder if there is none. Error if the
/// folder is somebody else's, or open to others.
int listen_for_questions(std::string& path);

/// Sends an answer to the next one who asks, if that is a process of the same user or of root's.
/// False when the socket is of no use any more. Blocks until somebody asks.
bool answer_one(int listener, std::string (*answer)());

/// The paths of all sockets there are.
std::vector<std::string> sockets();

/// What the process behind a socket answers; nothing if it does not within a second, or is another
/// user's. A socket that nobody is behind is removed.
std::optional<std::string> ask(const std::string& path);

}  // namespace ember::inline v0::cuda::top
