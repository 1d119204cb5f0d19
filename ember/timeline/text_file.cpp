#include "ember/timeline/text_file.h"

#include <cerrno>
#include <cstring>

#include "ember/base/error.h"

namespace ember::inline v0::cuda::timeline {

TextFile::TextFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wbe")) {
  if (!file_) fail();
  waiting_.reserve(kMost + 4096);
}

TextFile& TextFile::quoted(std::string_view text) {
  waiting_ += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      waiting_ += '\\';
      waiting_ += c;
    } else if (byte < 0x20 || c == '<') {  // "</script" would end a page's data
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      waiting_ += escaped;
    } else {
      waiting_ += c;
    }
  }
  return *this << "\"";
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
  throw Error("Timeline: '" + path_ + "' cannot be written: " + std::strerror(errno));
}

}  // namespace ember::inline v0::cuda::timeline
