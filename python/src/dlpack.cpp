// DLPack: tensors of other libraries as ours and back, without copying. The structures are those of
// the DLPack specification, version 1.
#include <memory>

#include "python.h"

namespace ember::python {
namespace {

enum : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kExtension = 12 };
enum : std::uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct DlType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  DlType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DlManaged {  // capsules named "dltensor"
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};
struct DlVersioned {  // capsules named "dltensor_versioned"
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(DlVersioned*);
  std::uint64_t flags;
  DlTensor tensor;
};
constexpr std::uint64_t kReadOnly = 1;
constexpr std::uint64_t kCopied = 2;

template <class Managed>
constexpr const char* kName = "dltensor";
template <>
constexpr const char* kName<DlVersioned> = "dltensor_versioned";
template <class Managed>
constexpr const char* kUsedName = "used_dltensor";
template <>
constexpr const char* kUsedName<DlVersioned> = "used_dltensor_versioned";

DlType type_of(Dtype dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * item_size(dtype));
  if (dtype == Dtype::bool_) return {kBool, bits, 1};
  if (is_integral(dtype) && !is_signed(dtype)) return {kUint, bits, 1};
  if (dtype == Dtype::bfloat16) return {kBfloat, bits, 1};
  if (is_complex_dtype(dtype)) return {kComplex, bits, 1};
  return {is_floating_point(dtype) ? kFloat : kInt, bits, 1};
}

Dtype dtype_of_type(const DlType& type) {
  for (int i = 0; i < kDtypes && type.lanes == 1; ++i) {
    const DlType known = type_of(static_cast<Dtype>(i));
    if (known.code == type.code && known.bits == type.bits) return static_cast<Dtype>(i);
  }
  throw Error("Unsupported DLPack type: code " + std::to_string(type.code) + ", " +
              std::to_string(type.bits) + " bits, " + std::to_string(type.lanes) + " lanes");
}

/// A simulated device is an extension of ours: nobody else can use its addresses.
std::pair<std::int32_t, std::int32_t> place_of(const Tensor& tensor) {
  if (!tensor.is_cuda()) return {kCpu, 0};
  return {cuda::is_simulated() ? kExtension : kCuda, tensor.get_device()};
}

Device device_of_place(std::int32_t type, std::int32_t id) {
  if (type == kCpu || type == kCudaHost) return Device::Type::cpu;
  if (type == kCuda && !cuda::is_simulated()) return {Device::Type::cuda, id};
  if (type == kExtension && cuda::is_simulated()) return {Device::Type::cuda, id};
  throw Error("Unsupported DLPack device type: " + std::to_string(type));
}

/// What an exported tensor keeps alive.
template <class Managed>
struct Exported {
  Tensor tensor;
  Shape sizes;
  Shape strides;
  Managed managed{};
};

template <class Managed>
nb::object exported(Tensor tensor, bool copied) {
  auto kept = std::make_unique<Exported<Managed>>();
  kept->tensor = std::move(tensor);
  kept->sizes = kept->tensor.sizes();
  kept->strides = kept->tensor.strides();
  const auto [type, id] = place_of(kept->tensor);
  DlTensor& about = kept->managed.tensor;
  unlocked([] {
    cuda::settle_deferred();
    cuda::Batch::hand_over();
  });
  about.data = kept->tensor.address();
  about.device_type = type;
  about.device_id = id;
  about.ndim = kept->tensor.dim();
  about.dtype = type_of(kept->tensor.dtype());
  about.shape = &kept->sizes[0];
  about.strides = &kept->strides[0];
  kept->managed.context = kept.get();
  kept->managed.deleter = [](Managed* managed) {
    delete static_cast<Exported<Managed>*>(managed->context);
  };
  if constexpr (std::is_same_v<Managed, DlVersioned>) {
    kept->managed.major = 1;
    kept->managed.minor = 0;
    kept->managed.flags = copied ? kCopied : 0;
  }
  PyObject* capsule = PyCapsule_New(&kept->managed, kName<Managed>, [](PyObject* self) {
    // A consumer renames the capsule and takes over.
    if (PyCapsule_IsValid(self, kName<Managed>) == 0) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(self, kName<Managed>));
    managed->deleter(managed);
  });
  if (capsule == nullptr) throw nb::python_error();
  kept.release();  // NOLINT(bugprone-unused-return-value): the capsule owns it
  return nb::steal(capsule);
}

/// Makes the consumer's stream wait for what ours holds.
void hand_over(const Tensor& tensor, nb::handle stream) {
  std::int64_t handle = 1;
  if (!stream.is_none()) {
    const auto given = index_from(stream);
    if (!given) throw TypeError("stream must be ``int`` or ``none``");
    handle = *given;
  }
  if (handle == -1) return;  // the consumer does not want to wait
  if (!tensor.is_cuda()) {
    if (!stream.is_none()) throw AssertionError("stream should be None on cpu.");
    return;
  }
  if (handle == 0) throw AssertionError("unsupported stream on CUDA: 0");
  // 1 and 2 are CUDA's names of the default streams.
  void* native =
      handle > 2 ? reinterpret_cast<void*>(handle) : nullptr;  // NOLINT(performance-no-int-to-ptr)
  const cuda::Stream current = cuda::current_stream(tensor.device());
  if (native == current.native()) return;
  const cuda::Stream consumer = native == nullptr ? cuda::default_stream(tensor.device())
                                                  : cuda::ExternalStream(native, tensor.device());
  unlocked([&] { consumer.wait_stream(current); });
}

using DevicePair = std::pair<std::int32_t, std::int32_t>;

nb::object to_dlpack(const Tensor& self, nb::handle stream, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy) {
  if (!dl_device.is_none()) {
    const auto wanted = argument<DevicePair>(dl_device, "dl_device", "a pair of ints");
    if (wanted != place_of(self))
      throw nb::buffer_error("__dlpack__: cannot move to another device");
  }
  const bool copied = copy.is(Py_True);
  const Tensor tensor = copied ? unlocked([&] { return self.clone(); }) : self.alias();
  hand_over(tensor, stream);
  tell_exposed(tensor, "dlpack");
  const bool versioned = !max_version.is_none() &&
                         argument<int>(nb::object(max_version[0]), "max_version", "ints") >= 1;
  return versioned ? exported<DlVersioned>(tensor, copied) : exported<DlManaged>(tensor, copied);
}

template <class Managed>
Tensor imported(nb::handle capsule) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), kName<Managed>));
  if (managed == nullptr) throw nb::python_error();
  if constexpr (std::is_same_v<Managed, DlVersioned>) {
    if (managed->major > 1) throw nb::buffer_error("from_dlpack: a DLPack version newer than 1");
    if ((managed->flags & kReadOnly) != 0) warn_user("The given buffer is not writable.");
  }
  const DlTensor& about = managed->tensor;
  const Dtype dtype = dtype_of_type(about.dtype);
  const Device device = device_of_place(about.device_type, about.device_id);
  const auto dims = static_cast<std::size_t>(about.ndim);
  const Shape sizes{std::span<const std::int64_t>(about.shape, dims)};
  std::optional<Shape> strides;
  if (about.strides != nullptr) strides = Shape(std::span<const std::int64_t>(about.strides, dims));
  for (int i = 0; strides && i < sizes.size(); ++i)
    if ((*strides)[i] < 0)
      throw ValueError("from_dlpack: negative strides are not supported; pass a copy");
  // Whoever lets the last tensor go need not have Python's lock.
  auto release = [managed] {
    if (managed->deleter == nullptr) return;
    if (const LockFromAnywhere lock; lock) managed->deleter(managed);
  };
  Tensor made = from_blob(static_cast<std::byte*>(about.data) + about.byte_offset, sizes,
                          Options(dtype, device), release, strides);
  PyCapsule_SetName(capsule.ptr(), kUsedName<Managed>);
  return made;
}

Tensor shared_dlpack(nb::handle source) {
  nb::object capsule = nb::borrow(source);
  if (nb::hasattr(source, "__dlpack__")) {
    const auto place =
        argument<DevicePair>(source.attr("__dlpack_device__")(), "__dlpack_device__", "two ints");
    nb::dict keywords;
    if (place.first == kCuda || place.first == kExtension) {
      const Device device = device_of_place(place.first, place.second);
      const auto stream = reinterpret_cast<std::intptr_t>(cuda::current_stream(device).native());
      keywords["stream"] = stream == 0 ? 1 : stream;
    }
    keywords["max_version"] = nb::make_tuple(1, 0);
    try {
      capsule = source.attr("__dlpack__")(**keywords);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      PyDict_DelItemString(keywords.ptr(), "max_version");  // a producer of before version 1
      capsule = source.attr("__dlpack__")(**keywords);
    }
  }
  if (PyCapsule_IsValid(capsule.ptr(), kName<DlVersioned>) != 0)
    return imported<DlVersioned>(capsule);
  if (PyCapsule_IsValid(capsule.ptr(), kName<DlManaged>) != 0) return imported<DlManaged>(capsule);
  if (!PyCapsule_CheckExact(capsule.ptr()))  // no TypeError: torch has the same class for both
    throw Error(
        std::string("from_dlpack: ext_tensor: expected a tensor of another library, which has "
                    "__dlpack__ and __dlpack_device__, or a DLPack capsule, got ") +
        Py_TYPE(capsule.ptr())->tp_name + "; ember.tensor makes tensors of numbers and lists");
  throw Error(
      "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
      "once, so you might have already constructed a tensor from it once.");
}

Tensor from_dlpack(nb::handle source, const DeviceLike& device, std::optional<bool> copy) {
  if (PyCapsule_CheckExact(source.ptr()) && (!device.given.is_none() || copy))
    throw AssertionError(
        "device and copy kwargs not supported when ext_tensor is already a DLPack capsule.");
  const Tensor shared = shared_dlpack(source);
  const Device place = device.place().value_or(shared.device());
  const bool moves =
      place.is_cuda() != shared.is_cuda() || (place.has_index() && place != shared.device());
  if (moves && copy == false)
    throw ValueError("from_dlpack: cannot move to another device with copy=False: it is on " +
                     shared.device().str() + ", and device is " + place.str());
  if (!moves && copy != true) return shared;
  return unlocked([&] { return moves ? shared.to(place) : shared.clone(); });
}

}  // namespace

std::optional<Tensor> dlpack_from(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return std::nullopt;
  return shared_dlpack(object);
}

void bind_dlpack(nb::class_<Tensor>& tensor, nb::module_& m) {
  tensor
      .def("__dlpack__", &to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none(),
           nb::sig(
               "def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | "
               "None = None, "
               "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any"))
      .def(
          "__dlpack_device__", [](const Tensor& self) { return place_of(self); },
          "(1, 0) on the CPU, (2, index) on CUDA devices; (12, index), an extension, on simulated "
          "ones, whose memory no other library can use.");
  m.def(
      "from_dlpack", &from_dlpack, nb::arg("ext_tensor").none(), nb::kw_only(),
      nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig(
          "def from_dlpack(ext_tensor: typing.Any, *, device: device | int | str | None = None, "
          "copy: bool | None = None) -> Tensor"),
      "A tensor over the memory of another library's tensor; a copy where another device is asked "
      "for, or copy=True.");
}

}  // namespace ember::python
