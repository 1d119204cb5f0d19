#include "ember/base/file_name.h"

#include "ember/base/error.h"

namespace ember::inline v0 {

void require_file_name(const std::string& name, const char* argument) {
  if (name.empty())
    throw ValueError(std::string(argument) + ": expected the name of a file, got an empty text");
  if (const std::size_t at = name.find('\0'); at != std::string::npos)
    throw ValueError(std::string(argument) + ": expected the name of a file, got '" +
                     name.substr(0, at) + "' followed by a null character");
}

}  // namespace ember::inline v0
