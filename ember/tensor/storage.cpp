#include "ember/tensor/storage.h"

#include <cstdlib>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/base/host_memory.h"
#include "ember/base/recycled.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0 {
namespace {

// Wide enough for every vector instruction, and no two storages share a line of the cache.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kTooLarge = std::size_t{1} << 60;

void* allocate_host(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = bytes < kTooLarge ? allocate_host_memory(kAlignment, bytes) : nullptr;
  if (data == nullptr)
    throw Error("DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
                std::to_string(bytes) + " bytes.");
  return data;
}

class CallsOnRelease final : public ForeignMemory {
 public:
  explicit CallsOnRelease(std::function<void()> release) : release_(std::move(release)) {}
  ~CallsOnRelease() override { release_(); }

 private:
  std::function<void()> release_;
};

}  // namespace

void ForeignMemory::record_stream(const cuda::Stream&) {}
void ForeignMemory::require_alive() const {}

template <class... Args>
Ref<Storage> Storage::make(Args&&... args) {
  void* const memory = Recycled<Storage>::take();
  try {
    return Ref<Storage>::first(new (memory) Storage(std::forward<Args>(args)...));
  } catch (...) {
    Recycled<Storage>::give(memory);
    throw;
  }
}

void Storage::dispose(Storage* storage) noexcept {
  storage->~Storage();
  Recycled<Storage>::give(storage);
}

Ref<Storage> Storage::allocate(Device device, std::size_t bytes, bool pinned) {
  if (device.is_cuda()) {
    if (pinned)
      throw ValueError("pinned memory on " + device.str() +
                       ": Only dense CPU tensors can be pinned");
    // Asked first: should a reset come in between, the storage is an old one.
    const std::uint32_t epoch = cuda::device_epoch(device.index());
    Ref<Storage> made = make(device, bytes, cuda::current_stream(device));
    made->epoch_ = epoch;
    return made;
  }
  if (pinned)
    return make(device, bytes, cuda::detail::allocate_pinned_for(cuda::kPinnedForTensor, bytes));
  Ref<Storage> made = make(device, bytes);
  made->data_ = allocate_host(bytes);
  made->from_malloc_ = true;
  return made;
}

Ref<Storage> Storage::adopt(Device device, void* data, std::size_t bytes,
                            std::function<void()> release) {
  Ref<Storage> made = adopt_foreign(device, data, bytes, nullptr);
  if (release) made->foreign_ = std::make_unique<CallsOnRelease>(std::move(release));
  return made;
}

Ref<Storage> Storage::adopt_foreign(Device device, void* data, std::size_t bytes,
                                    std::unique_ptr<ForeignMemory> memory) {
  if (data == nullptr && bytes > 0)
    throw ValueError("Storage: data is null, expected " + std::to_string(bytes) + " bytes");
  Ref<Storage> made = make(device, bytes);
  made->data_ = data;
  if (device.is_cuda()) made->epoch_ = cuda::device_epoch(device.index());
  made->foreign_ = std::move(memory);
  return made;
}

Storage::~Storage() {
  if (from_malloc_) free_host_memory(data_);
}

void Storage::require_epoch() const {
  // In a forked child there is no driver, and nothing that the memory could be used for.
  driver::Driver* const driver = cuda::driver_if_made();
  if (driver == nullptr || driver->device_epoch(device_.index()) == epoch_) [[likely]]
    return;
  throw AcceleratorError(Status(
      Code::context_is_destroyed,
      "the tensor's memory went with the reset of " + device_.str() + "; make the tensor anew"));
}

void Storage::record_stream(const cuda::Stream& stream) const {
  if (foreign_) foreign_->record_stream(stream);
  if (device_.is_cuda())
    cuda::record_stream(data_, stream);
  else
    cuda::pinned_record_event(data_, pinned_.context(), stream);
}

}  // namespace ember::inline v0
