#include "ember/ipc/imports.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/ipc/service.h"
#include "ember/ipc/steps.h"
#include "ember/ipc/words.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"

namespace ember::inline v0::ipc {

ImportedMemory::~ImportedMemory() {
  // A forked child's tensors go without a word: the lease is its parent's.
  Service* const service = Service::of_generation(generation_);
  if (service == nullptr) return;
  if (import_->device.is_cuda() && cuda::driver_if_made() != nullptr) {
    try {
      record_stream(cuda::current_stream(import_->device));
    } catch (const Error&) {  // then no work of this thread is in progress
    }
    finish_streams();
  }
  service->release(import_);
}

void ImportedMemory::record_stream(const cuda::Stream& stream) {
  const MutexLock lock(import_->mutex);
  auto& streams = import_->streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

void ImportedMemory::finish_streams() noexcept {
  if (!sim::seeded()) return;
  std::vector<cuda::Stream> streams;
  {
    const MutexLock lock(import_->mutex);
    streams.swap(import_->streams);
  }
  std::erase_if(streams,
                [](const cuda::Stream& stream) { return finish_if_seeded(stream.handle()).ok(); });
  const MutexLock lock(import_->mutex);
  import_->streams.insert(import_->streams.end(), streams.begin(), streams.end());
}

void ImportedMemory::require_alive() const {
  if (!import_->failed.load(std::memory_order_acquire)) [[likely]]
    return;
  throw Error(
      "the memory of process " + std::to_string(import_->owner.id) +
      " is not complete: the process ended, or its device faulted, before the work that was "
      "to write it was done");
}

Imports::Owner& Imports::enter(const Process& owner) {
  const auto [found, is_new] = owners_.try_emplace(owner);
  if (is_new) found->second.watch = Watch(owner);
  ++found->second.users;
  return found->second;
}

Ref<WordsFile> Imports::leave(const Process& owner) {
  const auto found = owners_.find(owner);
  if (found == owners_.end() || --found->second.users > 0) return {};
  Ref<WordsFile> words = std::move(found->second.words);
  owners_.erase(found);
  return words;
}

Imports::Owner* Imports::find_owner(const Process& owner) {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? nullptr : &found->second;
}

Ref<Storage> Imports::find(const Key& key) const {
  const auto found = live_.find(key);
  if (found == live_.end() || !found->second.storage->try_acquire()) return {};
  return Ref<Storage>::adopt(found->second.storage);
}

void Imports::add(const Key& key, Storage* storage, std::shared_ptr<Import> import) {
  live_[key] = {storage, std::move(import)};
}

void Imports::remove(const Key& key, const Import* import) {
  const auto found = live_.find(key);
  if (found != live_.end() && found->second.import.get() == import) live_.erase(found);
}

}  // namespace ember::inline v0::ipc
