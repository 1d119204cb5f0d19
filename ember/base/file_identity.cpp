#include "ember/base/file_identity.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "ember/base/file.h"

namespace ember::inline v0 {
namespace {

constexpr std::size_t kLargestNotes = std::size_t{1} << 16;

/// What a file has at a place; nothing if it ends before that.
template <class T>
std::optional<T> read_at(int file, std::uint64_t at) {
  T value;
  if (pread(file, &value, sizeof value, static_cast<off_t>(at)) !=
      static_cast<ssize_t>(sizeof value))
    return std::nullopt;
  return value;
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

/// The build-id among notes: each has a head, a name and contents, both filled up to four bytes.
std::string build_id_among(std::string_view notes) {
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr head;
    std::memcpy(&head, notes.data(), sizeof head);
    notes.remove_prefix(sizeof head);
    const std::uint64_t name = (std::uint64_t{head.n_namesz} + 3) / 4 * 4;
    const std::uint64_t contents = (std::uint64_t{head.n_descsz} + 3) / 4 * 4;
    if (name + contents > notes.size()) return "";
    if (head.n_type == NT_GNU_BUILD_ID &&
        notes.substr(0, head.n_namesz) == std::string_view("GNU\0", 4))
      return hexadecimal(notes.substr(name, head.n_descsz));
    notes.remove_prefix(name + contents);
  }
  return "";
}

std::string build_id(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return "";
  const auto head = read_at<Elf64_Ehdr>(file.get(), 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_phentsize != sizeof(Elf64_Phdr))
    return "";
  for (std::uint64_t i = 0; i < head->e_phnum; ++i) {
    const auto part = read_at<Elf64_Phdr>(file.get(), head->e_phoff + i * sizeof(Elf64_Phdr));
    if (!part) return "";
    if (part->p_type != PT_NOTE || part->p_filesz > kLargestNotes) continue;
    std::string notes(part->p_filesz, '\0');
    if (pread(file.get(), notes.data(), notes.size(), static_cast<off_t>(part->p_offset)) !=
        static_cast<ssize_t>(notes.size()))
      continue;
    if (std::string found = build_id_among(notes); !found.empty()) return found;
  }
  return "";
}

}  // namespace

std::string file_identity(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), &std::free);
  struct stat about {};
  if (real == nullptr || stat(real.get(), &about) != 0) return path;
  std::string text = std::string(real.get()) + " " + std::to_string(about.st_size) + " " +
                     std::to_string(about.st_mtim.tv_sec) + "." +
                     std::to_string(about.st_mtim.tv_nsec);
  if (S_ISREG(about.st_mode))
    if (const std::string id = build_id(real.get()); !id.empty()) text += " " + id;
  return text;
}

}  // namespace ember::inline v0
