#include "ember/timeline/text_file.h"

#include <cerrno>

#include "ember/base/error.h"
#include "ember/base/file_name.h"
#include "ember/base/json_text.h"

namespace ember::inline v0::cuda::timeline {

TextFile::TextFile(const std::string& path) : path_(path) {
  require_file_name(path, "file");
  file_.reset(std::fopen(path.c_str(), "wbe"));
  if (!file_) fail();
  waiting_.reserve(kMost + 4096);
}

TextFile& TextFile::quoted(std::string_view text) {
  append_json_text(waiting_, text);
  return *this << "";
}

void TextFile::flush() {
  if (std::fwrite(waiting_.data(), 1, waiting_.size(), file_.get()) != waiting_.size()) fail();
  waiting_.clear();
}

void TextFile::close() {
  flush();
  if (std::fclose(file_.release()) != 0) fail();
}

void TextFile::fail() const {
  throw FileError("Timeline: '" + path_ + "' cannot be written", path_, errno);
}

}  // namespace ember::inline v0::cuda::timeline
