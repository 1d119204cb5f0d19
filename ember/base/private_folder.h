// The folder in which processes of one user find each other: `ember` in XDG_RUNTIME_DIR, else
// `/tmp/ember-<user>`. Nobody else can enter it.
#pragma once

#include <string>
#include <vector>

#include "ember/base/status.h"

namespace ember::inline v0 {

/// In the order in which they are looked for, the usual one first; processes may differ in what
/// they know. Reads the environment anew. Whether they exist is not asked.
std::vector<std::string> private_folders();

/// Makes the folder if need be. Code::not_permitted unless it is the user's own and closed to
/// others, which names the folder, its owner and its mode; Code::not_supported if there is none and
/// none can be made. Does not block; any thread.
Status make_private_folder(const std::string& folder);

/// Calls `use(folder)`, which returns a Status, for the first folder in which that works. A folder
/// that belongs to somebody else is to be looked into, and is not passed over.
template <class Use>
Status in_private_folder(const Use& use) {
  Status status;
  for (const std::string& folder : private_folders()) {
    status = make_private_folder(folder);
    if (status.ok()) status = use(folder);
    if (status.ok() || status.code() == Code::not_permitted) break;
  }
  return status;
}

}  // namespace ember::inline v0
