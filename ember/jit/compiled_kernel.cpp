#include "ember/jit/compiled_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/kernels.h"
#include "ember/jit/digest.h"
#include "ember/jit/disk_cache.h"
#include "ember/jit/host_compiler.h"
#include "ember/runtime/work.h"

namespace ember::inline v0::jit {
namespace {

/// Its CUDA implementation is bound when the CUDA object is opened.
constinit driver::Kernel compiled_by_name{"compiled", &run_on_host, nullptr};
const driver::kernels::Table table({&compiled_by_name, 1},
                                   driver::arguments<driver::CompiledHeader>());

/// Fewer elements than this are not worth another thread.
constexpr std::int64_t kLeastPiece = 16384;

/// One kernel of the process. It stays, and its code with it: work in progress may need that.
struct Entry {
  Mutex mutex;
  Ref<const CompiledKernel> kernel EMBER_GUARDED_BY(mutex);
};

struct Entries {
  Mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Entry>> all EMBER_GUARDED_BY(mutex);
};

Entries& entries() {
  static NoDestructor<Entries> made;
  return *made;
}

/// "kernel 'f' for float32, int64 -> float32"
std::string describe(const Signature& signature, const Instance& instance) {
  std::string text = std::string(instance.fused ? "fuse: function '" : "jiterator: kernel '") +
                     signature.name + "' for ";
  for (std::size_t k = 0; k < instance.inputs.size(); ++k)
    text += std::string(k == 0 ? "" : ", ") + dtype_name(instance.inputs[k]);
  for (std::size_t k = 0; k < instance.outputs; ++k)
    text += std::string(k == 0 ? " -> " : ", ") + dtype_name(instance.output(k));
  return text;
}

void check_folder(const Status& status) {
  if (!status.ok()) throw Error("jiterator: " + status.detail());
}

std::string for_host(const DiskCache& disk, const Source& source, const std::string& what,
                     std::string& path) {
  const HostCompiler compiler = find_host_compiler(source.is_real());
  const std::string entry = digest(compiler.identity + '\0' + source.identity()) + ".so";
  std::string object;
  bool found = false;
  check_folder(disk.find(entry, object, found));
  if (!found) {
    object = compile_for_host(compiler, source.text(), what);
    found = disk.keep(entry, object);
  }
  if (found) path = disk.path(entry);
  return object;
}

std::string for_device(const DiskCache& disk, const Source& source, const std::string& what,
                       int capability, bool contract) {
  std::string identity;
  if (const Status status = driver::cuda_compiler(identity); !status.ok())
    throw Error("jiterator: " + status.detail());
  const std::string entry = digest(identity + std::string(contract ? "/fmad" : "") + '\0' +
                                   std::to_string(capability) + '\0' + source.identity()) +
                            ".cubin";
  std::string image;
  bool found = false;
  check_folder(disk.find(entry, image, found));
  if (found) return image;
  std::string log;
  if (const Status status = driver::cuda_compile(source.text(), capability, image, log, contract);
      !status.ok()) {
    if (log.empty()) throw Error(what + " does not compile: " + status.detail());
    throw Error(what + " does not compile (NVRTC):\n" + shortened(log));
  }
  (void)disk.keep(entry, image);
  return image;
}

}  // namespace

Ref<const CompiledKernel> compile(const std::string& code, const Signature& signature,
                                  const Instance& instance, int target) {
  DiskCache disk;
  check_folder(DiskCache::open(disk));
  const std::string what = describe(signature, instance);
  const Ref<CompiledKernel> made = make_ref<CompiledKernel>(instance);
  if (target == kHostTarget) {
    std::string path;
    const std::string object = for_host(disk, host_source(code, signature, instance), what, path);
    made->host_entry_ = reinterpret_cast<HostEntry>(load_for_host(path, object));
  } else {
    made->image_ =
        for_device(disk, device_source(code, signature, instance), what, target, instance.fused);
    made->device_code().image = made->image_.c_str();
    made->device_code().bytes = made->image_.size();
  }
  return made;
}

int target_of(Device device) {
  if (!device.is_cuda() || cuda::detail::runs_host_implementation()) return kHostTarget;
  const auto [major, minor] = cuda::get_device_capability(device.index());
  return major * 10 + minor;
}

InstanceKey key_of(const Instance& instance, int target) {
  const std::size_t head = 4 + sizeof target + sizeof instance.outputs;
  InstanceKey key;
  const RowPlan& rows = instance.rows;
  const std::size_t tail =
      rows.used ? 5 + sizeof rows.threads + sizeof rows.lanes + sizeof rows.once : 0;
  key.resize(head + 2 + instance.inputs.size() + instance.stored.size() + instance.numbers.size() +
             tail);
  char* to = key.data();
  *to++ = static_cast<char>(instance.dtype);
  *to++ = static_cast<char>(instance.layout);
  *to++ = static_cast<char>(instance.by_reference);
  *to++ = instance.fused ? 'f' : '-';
  std::memcpy(to, &target, sizeof target);
  std::memcpy(to + sizeof target, &instance.outputs, sizeof instance.outputs);
  to += sizeof target + sizeof instance.outputs;
  // Letters, so that no type is taken for what separates them.
  const auto put = [&](const Types& types) {
    for (const Dtype type : types) *to++ = static_cast<char>('A' + static_cast<int>(type));
  };
  put(instance.inputs);
  *to++ = '/';
  put(instance.stored);
  *to++ = '/';
  put(instance.numbers);
  if (!rows.used) return key;
  *to++ = rows.whole ? 'w' : 'p';
  *to++ = static_cast<char>(rows.pack);
  *to++ = static_cast<char>(rows.packs);
  *to++ = rows.full ? 'f' : '-';
  *to++ = static_cast<char>(rows.blocks);
  std::memcpy(to, &rows.threads, sizeof rows.threads);
  to += sizeof rows.threads;
  std::memcpy(to, &rows.lanes, sizeof rows.lanes);
  std::memcpy(to + sizeof rows.lanes, &rows.once, sizeof rows.once);
  return key;
}

Ref<const CompiledKernel> compiled(const std::string& code, const Signature& signature,
                                   const Instance& instance, int target) {
  std::shared_ptr<Entry> entry;
  {
    Entries& all = entries();
    const MutexLock lock(all.mutex);
    std::shared_ptr<Entry>& found =
        all.all[std::string(text_of(key_of(instance, target))) + '\0' + code];
    if (found == nullptr) found = std::make_shared<Entry>();
    entry = found;
  }
  // Others wait for whoever compiles it; after a failure the next one tries again.
  const MutexLock lock(entry->mutex);
  if (!entry->kernel) entry->kernel = compile(code, signature, instance, target);
  return entry->kernel;
}

Status run_on_host(const driver::Params& params, const driver::HostLaunch& on) noexcept {
  const auto& kernel = on.context<CompiledKernel>();
  const Instance& instance = kernel.instance;
  const auto* bytes = static_cast<const std::byte*>(params.data());
  const auto& header = params.as<driver::CompiledHeader>();
  std::array<void*, driver::Params::kCapacity / sizeof(void*)> data;
  std::memcpy(data.data(), bytes + kernel.places.data, instance.operands() * sizeof(void*));
  const RowPlan& rows = instance.rows;
  const auto outer = static_cast<std::size_t>(header.dims);
  const std::size_t dims = outer + (rows.used ? 1 : 0);
  std::array<std::int64_t, ops::kLoopDims + 1> sizes{};
  std::array<std::int64_t, ops::kLoopDims + 1> strides{};
  const auto number = [&](std::size_t at, std::size_t i) -> std::int64_t {
    if (instance.layout == Layout::wide) {
      std::int64_t value = 0;
      std::memcpy(&value, bytes + at + i * sizeof value, sizeof value);
      return value;
    }
    std::int32_t value = 0;
    std::memcpy(&value, bytes + at + i * sizeof value, sizeof value);
    return value;
  };
  for (std::size_t d = 0; d < outer; ++d) sizes[d] = number(kernel.places.sizes, d);
  if (rows.used) std::memcpy(&sizes[outer], bytes + kernel.places.length, sizeof sizes[outer]);
  for (std::size_t k = 0; k < instance.operands(); ++k) {
    const bool writes = k < instance.outputs;
    const std::size_t item =
        item_size(writes ? instance.output(k) : instance.inputs[k - instance.outputs]);
    auto* const written = static_cast<std::byte*>(data[k]);
    const std::byte* const read = written;
    const void* place = nullptr;
    if (instance.layout == Layout::flat) {
      const std::size_t size = static_cast<std::size_t>(header.count) * item;
      place = writes ? on.at(written, size) : on.at(read, size);
    } else {
      for (std::size_t d = 0; d < outer; ++d)
        strides[d] = number(kernel.places.strides, k * ops::kLoopDims + d);
      if (rows.used) strides[outer] = rows.is_once(k) ? 0 : 1;
      const std::span<const std::int64_t> shape = std::span(sizes).first(dims);
      const std::span<const std::int64_t> steps = std::span(strides).first(dims);
      place = writes ? on.at_strided(written, shape, steps, item)
                     : on.at_strided(read, shape, steps, item);
    }
    if (place == nullptr) return on.fault();
    data[k] = const_cast<void*>(place);
  }
  const std::int64_t least =
      rows.used ? std::max<std::int64_t>(1, kLeastPiece / sizes[outer]) : kLeastPiece;
  take_traps();
  std::optional<Status> stopped;
  Mutex mutex;
  on.in_pieces(header.count, least, [&](std::int64_t first, std::int64_t last) {
    Status status = call(kernel.host_entry_, bytes, data.data(), first, last);
    if (status.ok()) [[likely]]
      return;
    const MutexLock lock(mutex);
    stopped = std::move(status);
  });
  return stopped ? std::move(*stopped) : Status();
}

driver::CudaImplementation run_on_device() noexcept { return compiled_by_name.cuda; }

}  // namespace ember::inline v0::jit
