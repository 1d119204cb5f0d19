#include "ember/driver/rebinding.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace ember::inline v0::driver {

const Rebound* find_rebound(std::span<const Rebound> memory, std::uintptr_t address) noexcept {
  for (const Rebound& each : memory)
    if (each.holds(address)) return &each;
  return nullptr;
}

bool ArgumentBinding::change_word(std::byte* at) noexcept {
  std::uintptr_t word = 0;
  std::memcpy(&word, at, sizeof word);
  const Rebound* const rebound = find_rebound(memory_, word);
  if (rebound == nullptr) return false;
  const auto declared = std::find(node_.addresses.begin(), node_.addresses.end(),
                                  reinterpret_cast<const void*>(word));
  if (declared == node_.addresses.end()) return false;
  found_[static_cast<std::size_t>(declared - node_.addresses.begin())] = true;
  word = rebound->moved(word);
  std::memcpy(at, &word, sizeof word);
  return true;
}

bool ArgumentBinding::change(std::span<std::byte> bytes, AddressPlaces places) noexcept {
  constexpr std::size_t kWord = sizeof(std::uintptr_t);
  bool changed = false;
  if (places.known())
    for (std::size_t k = 0; k < places.count; ++k)
      changed |= change_word(&bytes[places.offsets[k]]);
  else
    for (std::size_t at = 0; at + kWord <= bytes.size(); at += kWord)
      changed |= change_word(&bytes[at]);
  return changed;
}

Status ArgumentBinding::finish() const {
  if (std::find(found_.begin(), found_.end(), false) != found_.end())
    return cannot_rebind(node_.name, "an address that it uses is not among its arguments");
  return {};
}

Status cannot_rebind(const char* name, const char* why) {
  return Status(Code::not_supported, "captured '" + std::string(name) +
                                         "' cannot be given other memory: " + why +
                                         ". Copy into the captured tensor instead");
}

}  // namespace ember::inline v0::driver
