#include "ember/graphs/captured_call.h"

#include <algorithm>
#include <exception>

#include "ember/base/error.h"
#include "ember/graphs/checks.h"
#include "ember/graphs/extent.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda::detail {
namespace {

/// Each element once, if only strides of zero repeat some.
Tensor once(Tensor tensor) {
  for (int d = 0; d < tensor.dim(); ++d)
    if (tensor.strides()[d] == 0 && tensor.sizes()[d] > 1) tensor = tensor.narrow(d, 0, 1);
  return tensor;
}

/// Whether elements lie in each other, other than by strides of zero.
bool overlaps_itself(const Tensor& tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (int d = 0; d < tensor.dim(); ++d)
    if (tensor.sizes()[d] > 1 && tensor.strides()[d] != 0)
      dims.emplace_back(tensor.strides()[d], tensor.sizes()[d]);
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

bool is_in(const MemorySnapshot& pool, int device, std::uintptr_t address) {
  return std::any_of(pool.segments.begin(), pool.segments.end(), [&](const auto& segment) {
    return segment.device == device && address >= segment.address &&
           address - segment.address < segment.total_size;
  });
}

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

Tensor bytes_of(const Ref<Storage>& storage) {
  return {storage, Dtype::uint8, {static_cast<std::int64_t>(storage->bytes())}, {1}};
}

}  // namespace

bool CallSignature::Argument::operator==(const Argument& other) const noexcept {
  return dtype == other.dtype && same == other.same && sizes == other.sizes &&
         strides == other.strides;
}

CapturedCall::Range CapturedCall::range_of(const Tensor& tensor) {
  const std::uintptr_t begin = address_of(tensor.address());
  return {begin, begin + static_cast<std::uintptr_t>(extent_of(tensor)) * tensor.element_size()};
}

CallSignature CallSignature::of(const std::vector<Tensor>& arguments, int device) {
  CallSignature made{device, current_device(), device_epoch(device), {}, {}};
  const auto first_byte = [](const Tensor& tensor) { return address_of(tensor.address()); };
  const auto end_byte = [&](const Tensor& tensor) {
    return first_byte(tensor) +
           static_cast<std::uintptr_t>(extent_of(tensor)) * tensor.element_size();
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Tensor& each = arguments[i];
    std::size_t same = i;
    for (std::size_t j = 0; j < i; ++j) {
      const Tensor& earlier = arguments[j];
      if (earlier.numel() == 0 || each.numel() == 0 || first_byte(each) >= end_byte(earlier) ||
          first_byte(earlier) >= end_byte(each))
        continue;
      if (each.address() == earlier.address() && each.dtype() == earlier.dtype() &&
          each.sizes() == earlier.sizes() && each.strides() == earlier.strides()) {
        same = std::min(same, j);
      } else {
        made.overlaps.emplace_back(i, j);
      }
    }
    made.arguments.push_back({each.dtype(), each.sizes(), each.strides(), same});
  }
  return made;
}

std::string reason_against(const std::vector<Tensor>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = "argument " + std::to_string(i);
    const Tensor& each = arguments[i];
    if (!each.defined()) return name + " is undefined";
    if (!each.is_cuda()) return name + " is on " + each.device().str() + ", expected a CUDA device";
    if (each.device() != arguments[0].device())
      return name + " is on " + each.device().str() + ", and argument 0 on " +
             arguments[0].device().str();
    if (overlaps_itself(each)) return "elements of " + name + " overlap";
  }
  return {};
}

namespace {

bool same_view(const Tensor& a, const Tensor& b) {
  return a.address() == b.address() && a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

CapturedCall::Made CapturedCall::capture(const GraphedFunctionBody& body,
                                         const CallSignature& signature,
                                         const std::vector<Tensor>& arguments,
                                         const std::vector<bool>& copied, const MemPoolId& pool,
                                         const Stream& stream) {
  std::unique_ptr<CapturedCall> call(new CapturedCall(signature.device));
  call->copied_ = copied;
  call->written_.resize(arguments.size());
  std::vector<Tensor> inputs;
  std::vector<Tensor> as_given;  // the same views, whatever the function makes of its arguments
  GraphedResults results;
  CallCapture watched;
  // Where one of these fails, the graph's end ends the capture.
  try {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const Tensor& given = arguments[i];
      const std::size_t same = signature.arguments[i].same;
      call->addresses_.push_back(given.address());
      Tensor input = given.alias();
      if (copied[i] && same != i) input = inputs[same].alias();
      if (copied[i] && same == i)
        input = Tensor::make(given.device(), given.dtype(), {extent_of(given)})
                    .as_strided(given.sizes(), given.strides());
      call->buffers_.push_back(copied[i] && same == i ? input : Tensor());
      const Range lies = range_of(input);
      watched.add(lies.begin, lies.end - lies.begin);
      as_given.push_back(input.alias());
      inputs.push_back(std::move(input));
    }
    call->buffers_of_ = current_stream(signature.device);
    const StreamGuard on(stream);
    call->graph_.capture_begin(pool, CaptureErrorMode::thread_local_);
    {
      const DeviceGuard as_called(signature.current);
      results = body(inputs, true);
    }
    const StreamGuard still(stream);  // whatever the function made current
    call->graph_.capture_end();
  } catch (const std::exception& error) {
    return {nullptr, error.what()};
  }
  call->rest_ = std::move(results.rest);
  const MemorySnapshot memory = detail::segments_of(pool);
  std::string reason = std::move(results.refusal);
  for (std::size_t i = 0; i < inputs.size() && reason.empty(); ++i)
    if (!same_view(inputs[i], as_given[i]))
      reason = "it makes argument " + std::to_string(i) + " another view";
  if (reason.empty()) reason = call->note_results(results.tensors, inputs, memory);
  if (reason.empty()) reason = call->note_accesses(signature, inputs, memory);
  if (!reason.empty()) call.reset();
  return {std::move(call), std::move(reason)};
}

std::string CapturedCall::note_results(const std::vector<Tensor>& results,
                                       const std::vector<Tensor>& inputs,
                                       const MemorySnapshot& pool) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor& each = results[i];
    const std::string name = "result " + std::to_string(i);
    if (!each.defined()) return name + " is undefined";
    if (each.device() != Device(Device::Type::cuda, device_))
      return name + " is on " + each.device().str() + ", and the graph on " +
             Device(Device::Type::cuda, device_).str();
    Result& made = results_.emplace_back();
    made.dtype = each.dtype();
    made.sizes = each.sizes();
    made.strides = each.strides();
    const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& other) {
      return other.is(each) || (each.numel() != 0 && other.storage() == each.storage());
    });
    if (input != inputs.end()) {
      made.of = Result::Of::argument;
      made.index = static_cast<std::size_t>(input - inputs.begin());
      made.itself = input->is(each);
      made.offset =
          static_cast<const char*>(each.address()) - static_cast<const char*>(input->address());
    } else if (is_in(pool, device_, address_of(each.storage()->data()))) {
      made.of = Result::Of::pool;
      auto storage = std::find(storages_.begin(), storages_.end(), each.storage());
      if (storage == storages_.end()) storage = storages_.insert(storage, each.storage());
      made.index = static_cast<std::size_t>(storage - storages_.begin());
      made.offset = static_cast<const char*>(each.address()) -
                    static_cast<const char*>(each.storage()->data());
    } else {
      made.elsewhere = each.alias();
    }
  }
  return {};
}

std::string CapturedCall::note_accesses(const CallSignature& signature,
                                        const std::vector<Tensor>& inputs,
                                        const MemorySnapshot& pool) {
  const bool known = graph_.log()->visit([&](const Access& access) {
    const std::uintptr_t begin = address_of(access.address);
    const Range range{begin, begin + access.bytes, access.writes};
    bool own = is_in(pool, device_, begin);
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (!buffers_[i].defined() || !range.overlaps(range_of(buffers_[i]))) continue;
      own = true;
      if (access.writes) written_[i] = true;
    }
    if (!own) elsewhere_.push_back(range);
  });
  // Work that does not say what it touches may write to each.
  if (!known)
    for (std::size_t i = 0; i < buffers_.size(); ++i) written_[i] = buffers_[i].defined();
  const auto touched = [&](std::size_t i) {
    if (!known || written_[signature.arguments[i].same]) return true;
    const Range lies = range_of(inputs[i]);
    return std::any_of(elsewhere_.begin(), elsewhere_.end(),
                       [&](const Range& range) { return range.writes && range.overlaps(lies); });
  };
  for (const auto& [one, other] : signature.overlaps)
    if ((copied_[one] || copied_[other]) && (touched(one) || touched(other)))
      return "arguments " + std::to_string(other) + " and " + std::to_string(one) +
             " overlap, and are written to";
  return {};
}

std::vector<bool> CapturedCall::copied_for(const std::vector<Tensor>& arguments) const {
  std::vector<bool> copied = copied_;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].address() != addresses_[i]) copied[i] = true;
  return copied;
}

bool CapturedCall::conflicts(const std::vector<Tensor>& arguments) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!buffers_[i].defined()) continue;
    const Range given = range_of(arguments[i]);
    for (const Range& range : elsewhere_)
      if ((range.writes || written_[i]) && range.overlaps(given)) return true;
  }
  return false;
}

Tensor CapturedCall::result(const Result& made, const std::vector<Tensor>& arguments,
                            const std::vector<Ref<Storage>>& storages) const {
  if (made.of == Result::Of::elsewhere) return made.elsewhere.alias();
  if (made.itself) return arguments[made.index];
  const auto item = static_cast<std::ptrdiff_t>(item_size(made.dtype));
  if (made.of == Result::Of::pool)
    return {storages[made.index], made.dtype, made.sizes, made.strides, made.offset / item};
  const Tensor& given = arguments[made.index];
  const std::ptrdiff_t offset = static_cast<const char*>(given.address()) -
                                static_cast<const char*>(given.storage()->data()) + made.offset;
  return {given.storage(), made.dtype, made.sizes, made.strides, offset / item};
}

GraphedResults CapturedCall::replay(const std::vector<Tensor>& arguments, bool copy) {
  const Stream stream = current_stream(device_);
  // What may fail comes before what has effects.
  std::vector<Ref<Storage>> storages = storages_;
  if (copy)
    for (Ref<Storage>& storage : storages)
      storage = Storage::allocate(storage->device(), storage->bytes());
  GraphedResults made;
  for (const Result& each : results_) made.tensors.push_back(result(each, arguments, storages));
  made.rest = rest_;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!buffers_[i].defined()) continue;
    if (stream != *buffers_of_) buffers_[i].record_stream(stream);
    once(buffers_[i]).copy_(once(arguments[i]));
  }
  graph_.replay();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (buffers_[i].defined() && written_[i]) once(arguments[i]).copy_(once(buffers_[i]));
  if (copy)
    for (std::size_t i = 0; i < storages.size(); ++i)
      bytes_of(storages[i]).copy_(bytes_of(storages_[i]));
  return made;
}

}  // namespace ember::inline v0::cuda::detail
