// Which program or library a file is, so that what another one would make is not taken for its own.
#pragma once

#include <string>

namespace ember::inline v0 {

/// The file's resolved path, size, time of its last change and, if it is an ELF file that has one,
/// the build-id that its linker gave it. Of a file that is not there: the path. The file is neither
/// loaded nor run; a few hundred bytes of it are read. Any thread.
std::string file_identity(const std::string& path);

}  // namespace ember::inline v0
