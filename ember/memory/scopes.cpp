#include "ember/memory/scopes.h"

#include <pthread.h>

#include <algorithm>
#include <memory>

#include "ember/base/error.h"
#include "ember/base/no_destructor.h"
#include "ember/base/thread_exit.h"
#include "ember/memory/tracking.h"

namespace ember::inline v0::memory {
namespace {

constexpr std::size_t kMostTags = 0xFFFF;

/// The scopes of the calling thread, the last one first; closed ones stay until those within them
/// are closed.
thread_local constinit ScopeRecord* innermost = nullptr;
thread_local constinit bool cleaned_up = false;

void drop_closed() noexcept {
  while (innermost != nullptr && !innermost->open.load(std::memory_order_acquire))
    Scopes::release(std::exchange(innermost, innermost->outer));
}

void drop_all() noexcept {
  while (innermost != nullptr) Scopes::release(std::exchange(innermost, innermost->outer));
}

}  // namespace

Scopes& Scopes::get() {
  static NoDestructor<Scopes> made;  // blocks are freed until the process ends
  static const bool watched = [] {
    (void)pthread_atfork(nullptr, nullptr, [] { renew_in_child(made->mutex_); });
    return true;
  }();
  (void)watched;
  return *made;
}

std::uint16_t Scopes::current_tag() noexcept {
  drop_closed();
  return innermost != nullptr ? innermost->tag : std::uint16_t{0};
}

ScopeRecord* Scopes::open(std::string_view name) {
  if (name.empty()) throw ValueError("scope: expected a name, got an empty text");
  const std::uint16_t outer = current_tag();
  if (!cleaned_up) cleaned_up = at_thread_exit(&drop_all);
  auto record = std::make_unique<ScopeRecord>();
  {
    const MutexLock lock(mutex_);
    std::pair<std::uint16_t, std::string> key(outer, name);
    const auto known = tags_.find(key);
    if (known != tags_.end()) {
      record->tag = known->second;
    } else {
      if (nodes_.size() == kMostTags)
        throw ValueError("scope: there are 65535 different tags, and '" + key.second +
                         "' would be one more. Names are kept for ever: expected names that do "
                         "not count up");
      std::string path;
      if (outer != 0) path = nodes_[outer - 1U].name + "/";
      path += name;
      nodes_.push_back({.outer = outer, .name = std::move(path), .held = {}, .open = {}});
      record->tag = static_cast<std::uint16_t>(nodes_.size());
      tags_.emplace(std::move(key), record->tag);
    }
    Node& node = nodes_[record->tag - 1U];
    record->peaks = node.held;
    node.open.push_back(record.get());
  }
  track_scopes();
  record->outer = innermost;
  innermost = record.get();
  return record.release();
}

void Scopes::close(ScopeRecord* record) noexcept {
  {
    const MutexLock lock(mutex_);
    std::erase(nodes_[record->tag - 1U].open, record);
  }
  record->open.store(false, std::memory_order_release);
  drop_closed();
}

void Scopes::release(ScopeRecord* record) noexcept {
  if (record->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete record;
}

void Scopes::change(int device, std::uint16_t tag, std::int64_t bytes) noexcept {
  if (tag == 0) return;
  const auto index = static_cast<std::size_t>(device);
  const MutexLock lock(mutex_);
  while (tag != 0) {
    Node& node = nodes_[tag - 1U];
    std::size_t& held = node.held[index];
    held += static_cast<std::size_t>(bytes);
    for (ScopeRecord* open : node.open) open->peaks[index] = std::max(open->peaks[index], held);
    tag = node.outer;
  }
}

void Scopes::forget(int device) noexcept {
  const MutexLock lock(mutex_);
  for (Node& node : nodes_) node.held[static_cast<std::size_t>(device)] = 0;
}

std::size_t Scopes::held(std::uint16_t tag, int device) {
  const MutexLock lock(mutex_);
  return nodes_[tag - 1U].held[static_cast<std::size_t>(device)];
}

std::size_t Scopes::peak(const ScopeRecord& record, int device) {
  const MutexLock lock(mutex_);
  return record.peaks[static_cast<std::size_t>(device)];
}

std::string Scopes::name(std::uint16_t tag) {
  const MutexLock lock(mutex_);
  return tag == 0 || tag > nodes_.size() ? std::string() : nodes_[tag - 1U].name;
}

}  // namespace ember::inline v0::memory

namespace ember::inline v0::cuda {

using memory::Scopes;

MemoryScope::MemoryScope(std::string_view name) : record_(Scopes::get().open(name)) {}

MemoryScope::~MemoryScope() {
  end();
  Scopes::release(record_);
}

void MemoryScope::end() noexcept {
  if (record_->open.load(std::memory_order_acquire)) Scopes::get().close(record_);
}

std::size_t MemoryScope::held(DeviceArg device) const {
  return Scopes::get().held(record_->tag, device.existing());
}

std::size_t MemoryScope::peak(DeviceArg device) const {
  return Scopes::get().peak(*record_, device.existing());
}

std::string MemoryScope::tag() const { return Scopes::get().name(record_->tag); }

std::string memory_tag_name(std::uint16_t tag) { return Scopes::get().name(tag); }

}  // namespace ember::inline v0::cuda
