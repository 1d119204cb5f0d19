#include <array>
#include <atomic>
#include <cstring>
#include <functional>

#include "ember/driver/kernel.h"

namespace ember::inline v0::driver {
namespace {

/// A name that was made at run time; its text lies behind it.
struct Interned {
  Interned* next;
  std::size_t hash;

  char* text() noexcept { return reinterpret_cast<char*>(this + 1); }
};

// Without a lock, so that a fork in the middle of intern() leaves the child nothing to wait for.
constinit std::array<std::atomic<Interned*>, 1024> table{};

Interned* find(Interned* first, std::size_t hash, std::string_view text) noexcept {
  for (Interned* each = first; each != nullptr; each = each->next)
    if (each->hash == hash && text == each->text()) return each;
  return nullptr;
}

}  // namespace

Name Name::intern(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  Name name;
  if (text.empty()) return name;
  const std::size_t hash = std::hash<std::string_view>()(text);
  std::atomic<Interned*>& list = table[hash % table.size()];
  Interned* first = list.load(std::memory_order_acquire);
  Interned* found = find(first, hash, text);
  if (found == nullptr) {
    auto* made = new (::operator new(sizeof(Interned) + text.size() + 1)) Interned{first, hash};
    std::memcpy(made->text(), text.data(), text.size());
    made->text()[text.size()] = '\0';
    // Names are only ever added, so who loses has to look again.
    while (found == nullptr) {
      if (list.compare_exchange_strong(made->next, made, std::memory_order_acq_rel)) {
        found = made;
      } else {
        found = find(made->next, hash, text);
        if (found != nullptr) ::operator delete(made);
      }
    }
  }
  name.text_ = found->text();
  return name;
}

}  // namespace ember::inline v0::driver
