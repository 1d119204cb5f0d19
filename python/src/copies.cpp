// Copies between tensors, and from device to device. What changes nothing returns the tensor
// itself.
#include "python.h"

namespace ember::python {
namespace {

nb::object to(const Tensor& self, const Options& options, bool non_blocking, bool copy) {
  return itself_or(self, unlocked([&] { return self.to(options, non_blocking, copy); }));
}

/// 'torch.FloatTensor', 'torch.cuda.FloatTensor'.
std::string type_name(Dtype dtype, bool is_cuda) {
  return std::string(is_cuda ? "torch.cuda." : "torch.") + legacy_name(dtype) + "Tensor";
}

/// The dtype and the kind of device that such a name stands for.
Options options_of_type(const std::string& name) {
  for (int i = 0; i < kDtypes; ++i)
    for (const bool is_cuda : {false, true})
      if (name == type_name(static_cast<Dtype>(i), is_cuda))
        return {static_cast<Dtype>(i), is_cuda ? Device("cuda") : Device("cpu")};
  throw ValueError("invalid type: '" + name + "'");
}

nb::object convert_to_type(const Tensor& self, nb::handle type, bool non_blocking) {
  if (type.is_none()) return nb::cast(type_name(self.dtype(), self.is_cuda()));
  if (const auto dtype = dtype_from(type)) return to(self, *dtype, non_blocking, false);
  std::string name;
  if (nb::isinstance<nb::str>(type))
    name = nb::cast<std::string>(type);
  else if (PyType_Check(type.ptr()))  // such as cuda.FloatTensor
    name = nb::cast<std::string>(nb::str(type.attr("__module__"))) + "." +
           nb::cast<std::string>(nb::str(type.attr("__name__")));
  else
    throw TypeError("type: dtype must be a type, str, or dtype object");
  Options options = options_of_type(name);
  if (self.is_cuda() && options.device->is_cuda()) options.device.reset();  // it is there already
  return to(self, options, non_blocking, false);
}

}  // namespace

void bind_copies(nb::class_<Tensor>& tensor, nb::module_& m) {
  const auto copy_into = [](Tensor& self, const Operand& source, bool non_blocking) {
    unlocked([&] {
      if (source.tensor() == nullptr)  // not fill_(), which elements may share memory for
        self.index_put_({Ellipsis}, source);
      else
        self.copy_(*source.tensor(), non_blocking);
    });
    return same_object(self);
  };
  both(
      tensor, m, "clone", [](const Tensor& self) { return unlocked([&] { return self.clone(); }); },
      "A copy without gaps.");
  both_as(
      tensor, m, "fill_", "value: Tensor | complex) -> Tensor",
      [](Tensor& self, const Operand& value) {
        unlocked([&] {
          if (value.tensor() == nullptr)
            self.fill_(value.number());
          else if (value.tensor()->dim() != 0)
            throw Error("fill_ only supports 0-dimension value tensor but got tensor with " +
                        std::to_string(value.tensor()->dim()) + " dimensions.");
          else  // which may be an element of this tensor
            self.copy_(value.tensor()->storage() == self.storage() ? value.tensor()->clone()
                                                                   : *value.tensor());
        });
        return same_object(self);
      },
      "All elements become that number.", nb::arg("value"));
  both_as(
      tensor, m, "zero_", ") -> Tensor",
      [](Tensor& self) {
        unlocked([&] { self.zero_(); });
        return same_object(self);
      },
      "All elements become zero.");
  tensor.def(
      "type_as",
      [](const Tensor& self, const Tensor& other) {
        return to(self, {other.dtype(), other.device()}, false, false);
      },
      nb::arg("other"), nb::sig("def type_as(self, other: Tensor) -> Tensor"),
      "With another tensor's dtype, on its device.");
  tensor
      .def(
          "to",
          [](const Tensor& self, Dtype dtype, bool non_blocking, bool copy) {
            return to(self, dtype, non_blocking, copy);
          },
          nb::arg("dtype"), nb::arg("non_blocking") = false, nb::arg("copy") = false,
          nb::sig("def to(self, dtype: dtype, non_blocking: bool = False, copy: bool = False) -> "
                  "Tensor"),
          "This tensor with another dtype, on another device, or like another tensor. Itself if "
          "nothing changes, unless copy. Waits for the copy to or from a device unless "
          "non_blocking.")
      .def(
          "to",
          [](const Tensor& self, const Tensor& other, bool non_blocking, bool copy) {
            return to(self, {other.dtype(), other.device()}, non_blocking, copy);
          },
          nb::arg("other"), nb::arg("non_blocking") = false, nb::arg("copy") = false,
          nb::sig("def to(self, other: Tensor, non_blocking: bool = False, copy: bool = False) -> "
                  "Tensor"))
      .def(
          "to",
          [](const Tensor& self, const DeviceLike& device, std::optional<Dtype> dtype,
             bool non_blocking,
             bool copy) { return to(self, options_of(dtype, device), non_blocking, copy); },
          nb::arg("device") = nb::none(), nb::arg("dtype") = nb::none(),
          nb::arg("non_blocking") = false, nb::arg("copy") = false,
          nb::sig(
              "def to(self, device: device | int | str | None = None, dtype: dtype | None = None, "
              "non_blocking: bool = False, copy: bool = False) -> Tensor"))
      .def(
          "cuda",
          [](const Tensor& self, const DeviceLike& device, bool non_blocking) {
            const auto place = device.place();
            return itself_or(self, unlocked([&] {
                               return place ? self.cuda(*place, non_blocking)
                                            : self.cuda({}, non_blocking);
                             }));
          },
          nb::arg("device") = nb::none(), nb::arg("non_blocking") = false,
          nb::sig("def cuda(self, device: device | int | str | None = None, non_blocking: bool = "
                  "False) -> Tensor"),
          "On a CUDA device, the current one unless given; itself if it is there already.")
      .def(
          "cpu",
          [](const Tensor& self) { return itself_or(self, unlocked([&] { return self.cpu(); })); },
          nb::sig("def cpu(self) -> Tensor"), "On the CPU; waits for the copy.")
      .def(
          "contiguous",
          [](const Tensor& self) {
            return itself_or(self, unlocked([&] { return self.contiguous(); }));
          },
          nb::sig("def contiguous(self) -> Tensor"),
          "Without gaps, in order; itself if it is so already.")
      .def(
          "pin_memory",
          [](const Tensor& self, const DeviceLike& device) {
            device.place();  // whether it names a device: there is one kind to be pinned for
            return itself_or(self, unlocked([&] { return self.pin_memory(); }));
          },
          nb::arg("device") = nb::none(),
          nb::sig("def pin_memory(self, device: device | int | str | None = None) -> Tensor"),
          "In page-locked memory; itself if it is there already. Initialises CUDA.")
      .def(
          "copy_", copy_into, nb::arg("src"), nb::arg("non_blocking") = false,
          nb::sig("def copy_(self, src: Tensor | complex, non_blocking: bool = False) -> Tensor"),
          "The elements of another tensor, of any dtype and on any device, broadcast; or a number.")
      .def(
          "copy_", copy_into, nb::arg("other"), nb::arg("non_blocking") = false,
          nb::sig("def copy_(self, other: Tensor | complex, non_blocking: bool = False) -> Tensor"))
      .def(
          "type", &convert_to_type, nb::arg("dtype") = nb::none(), nb::arg("non_blocking") = false,
          nb::sig(
              "def type(self, dtype: dtype | str | type | None = None, non_blocking: bool = False) "
              "-> typing.Any"),
          "Such as 'torch.cuda.FloatTensor'; with such a name, its class or a dtype, the tensor as "
          "that.")
      .def(
          "record_stream",
          [](const Tensor& self, const cuda::Stream& stream) {
            unlocked([&] { self.record_stream(stream); });
          },
          nb::arg("stream"),
          "Work on a stream uses the memory: it is not reused before that is done.");
  // float(), int() and so on: `to` with a name.
  struct Named {
    const char* name;
    Dtype dtype;
  };
  for (const Named& named :
       {Named{"float", Dtype::float32}, Named{"double", Dtype::float64},
        Named{"half", Dtype::float16}, Named{"bfloat16", Dtype::bfloat16},
        Named{"bool", Dtype::bool_}, Named{"byte", Dtype::uint8}, Named{"char", Dtype::int8},
        Named{"short", Dtype::int16}, Named{"int", Dtype::int32}, Named{"long", Dtype::int64},
        Named{"chalf", Dtype::complex32}, Named{"cfloat", Dtype::complex64},
        Named{"cdouble", Dtype::complex128}}) {
    const Dtype dtype = named.dtype;
    const std::string signature = std::string("def ") + named.name + "(self) -> Tensor";
    const std::string doc = std::string("The same as to(") + dtype_name(dtype) + ").";
    tensor.def(
        named.name, [dtype](const Tensor& self) { return to(self, dtype, false, false); },
        nb::sig(signature.c_str()), doc.c_str());
  }
}

}  // namespace ember::python
