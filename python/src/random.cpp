// Random numbers: generators, seeding, tensors of random numbers. The module ember.random and the
// names in ember and ember.cuda.
#include <memory>
#include <mutex>

#include "define.h"

namespace ember::python {
namespace {

using MaybeDtype = std::optional<Dtype>;

/// A seed: -2^63 to 2^64 - 1, negative ones wrap.
std::uint64_t seed_of(nb::handle seed) {
  const nb::object number = nb::steal(PyNumber_Long(seed.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) return static_cast<std::uint64_t>(value);
  const unsigned long long wide =
      overflow > 0 ? PyLong_AsUnsignedLongLong(number.ptr()) : static_cast<unsigned long long>(-1);
  if (overflow < 0 || PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw ValueError("Overflow when unpacking long long: seeds are from -2^63 to 2^64 - 1, got " +
                     std::string(nb::str(number).c_str()));
  }
  return wide;
}

/// The same for generators, which take no other object that int() would make one of.
std::uint64_t seed_of_int(nb::handle seed) {
  if (PyIndex_Check(seed.ptr()) == 0 || PyBool_Check(seed.ptr()))
    throw Error(std::string("manual_seed expected a long, but got ") +
                Py_TYPE(seed.ptr())->tp_name);
  return seed_of(seed);
}

void bind_generator(nb::module_& m) {
  nb::class_<Generator>(m, "Generator", "A source of random numbers for one device.",
                        nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Generator* self, const DeviceLike& device) {
            const Device place = device.place().value_or(Device(Device::Type::cpu));
            new (self) Generator(unlocked([&] { return Generator(place); }));
          },
          nb::arg("device") = nb::none())
      .def_prop_ro("device", &Generator::device)
      .def(
          "manual_seed",
          [](Generator& self, nb::handle seed) {
            const std::uint64_t value = seed_of_int(seed);
            unlocked([&] { self.manual_seed(value); });
            return nb::find(self);
          },
          nb::arg("seed").none(), nb::sig("def manual_seed(self, seed: int) -> Generator"))
      .def("seed", [](Generator& self) { return unlocked([&] { return self.seed(); }); })
      .def("initial_seed",
           [](const Generator& self) { return unlocked([&] { return self.initial_seed(); }); })
      .def("get_offset",
           [](const Generator& self) { return unlocked([&] { return self.get_offset(); }); })
      .def(
          "set_offset",
          [](Generator& self, std::uint64_t offset) {
            unlocked([&] { self.set_offset(offset); });
            return nb::find(self);
          },
          nb::arg("offset"), nb::sig("def set_offset(self, offset: int) -> Generator"))
      .def("get_state",
           [](const Generator& self) { return unlocked([&] { return self.get_state(); }); })
      .def(
          "set_state",
          [](Generator& self, const Tensor& state) {
            unlocked([&] { self.set_state(state); });
            return nb::find(self);
          },
          nb::arg("new_state"), nb::sig("def set_state(self, new_state: Tensor) -> Generator"))
      .def("clone_state",
           [](const Generator& self) { return unlocked([&] { return self.clone_state(); }); })
      .def("graphsafe_get_state",
           [](const Generator& self) {
             return unlocked([&] { return self.graphsafe_get_state(); });
           })
      .def(
          "graphsafe_set_state",
          [](Generator& self, const Generator& state) {
            unlocked([&] { self.graphsafe_set_state(state); });
            return nb::find(self);
          },
          nb::arg("state"), nb::sig("def graphsafe_set_state(self, state: Generator) -> Generator"))
      // For copy.copy, copy.deepcopy and pickle: another generator of the device, in this state.
      .def(
          "__getstate__",
          [](const Generator& self) {
            return nb::make_tuple(self.device(), unlocked([&] { return self.get_state(); }));
          },
          nb::sig("def __getstate__(self) -> tuple[device, Tensor]"))
      .def("__reduce_ex__", &reduce_by_newer_protocol, nb::sig(kReduceSignature))
      .def(
          "__setstate__",
          [](Generator& self, const nb::tuple& saved) {
            const nb::object device = saved[0];
            const Device place = DeviceLike{device}.place().value_or(Device(Device::Type::cpu));
            const auto state = argument<Tensor>(saved[1], "state", "a device and a tensor");
            Generator made = unlocked([&] { return Generator(place); });
            unlocked([&] { made.set_state(state); });
            new (&self) Generator(std::move(made));
          },
          nb::sig("def __setstate__(self, state: tuple[device, Tensor], /) -> None"));
}

/// rand, randn: sizes in both ways, with a generator and out-of-band keywords.
template <class Make, class Into>
void define_sized(nb::module_& m, const char* name, Make make, Into into, const char* doc) {
  const auto run = [make, into](const Shape& shape, GeneratorArg generator, Tensor* out,
                                MaybeDtype dtype, const DeviceLike& device, MaybeBool pin_memory) {
    const Options options = new_options(dtype, device, pin_memory);
    return made_or_into(
        out, options, [&] { return make(shape, options, generator); },
        [&](Tensor& output) { static_cast<void>(into(output, shape, generator)); });
  };
  define_factory(
      m, name,
      [run](const Sizes& size, GeneratorArg generator, Tensor* out, MaybeDtype dtype,
            const DeviceLike& device, MaybeBool pin_memory) {
        return run(size.shape(), generator, out, dtype, device, pin_memory);
      },
      nb::arg("size"), nb::kw_only(), nb::arg("generator") = nb::none(),
      nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false, doc);
  define_factory(
      m, name,
      [run](const nb::args& size, GeneratorArg generator, Tensor* out, MaybeDtype dtype,
            const DeviceLike& device, MaybeBool pin_memory) {
        return run(shape_of(size), generator, out, dtype, device, pin_memory);
      },
      nb::arg("size"), nb::arg("generator") = nb::none(), nb::arg("out") = nb::none(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("pin_memory") = false);
}

/// normal() with a tensor for the mean, the standard deviation, or both.
template <class Mean, class Std, class... Arguments>
void define_normal_of(nb::module_& m, const Arguments&... arguments) {
  m.def(
      "normal",
      [](Mean mean, Std std, GeneratorArg generator, Tensor* out) {
        return maybe_into(
            out, [&] { return normal(mean, std, generator); },
            [&](Tensor& into) { normal_out(into, mean, std, generator); });
      },
      arguments..., nb::kw_only(), nb::arg("generator") = nb::none(), nb::arg("out") = nb::none());
}

void define_new(nb::module_& m) {
  define_sized(m, "rand", EMBER_CALL(rand), EMBER_CALL(rand_out), "Uniform from 0 to below 1.");
  define_sized(m, "randn", EMBER_CALL(randn), EMBER_CALL(randn_out), "Standard normal.");
  const auto like = [&](const char* name, auto make, const char* doc) {
    define_factory(
        m, name,
        [make](const Tensor& input, GeneratorArg generator, MaybeDtype dtype,
               const DeviceLike& device, MaybeBool pin_memory) {
          const Options options = options_of(dtype, device, pin_memory);
          return unlocked([&] { return make(input, options, generator); });
        },
        nb::arg("input"), nb::kw_only(), nb::arg("generator") = nb::none(),
        nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
        nb::arg("pin_memory") = false, doc);
  };
  like(
      "rand_like",
      [](const Tensor& t, const Options& o, const GeneratorArg& g) { return rand_like(t, o, g); },
      "Uniform from 0 to below 1, like another tensor.");
  like(
      "randn_like",
      [](const Tensor& t, const Options& o, const GeneratorArg& g) { return randn_like(t, o, g); },
      "Standard normal, like another tensor.");
  const auto whole_like = [](const Tensor& input, std::int64_t low, std::int64_t high,
                             GeneratorArg generator, MaybeDtype dtype, const DeviceLike& device,
                             MaybeBool pin_memory) {
    const Options options = options_of(dtype, device, pin_memory);
    return unlocked([&] { return randint_like(input, low, high, options, generator); });
  };
  // Before the one with a number, which tensors of one element are taken for.
  define_factory(
      m, "randint_like",
      [whole_like](const Tensor& input, const Tensor& high, GeneratorArg generator,
                   MaybeDtype dtype, const DeviceLike& device, MaybeBool pin_memory) {
        if (high.dim() != 0 || high.is_cuda())
          throw Error("high must be a scalar tensor and on CPU");
        return whole_like(input, 0, high.item<std::int64_t>(), generator, dtype, device,
                          pin_memory);
      },
      nb::arg("input"), nb::arg("high"), nb::kw_only(), nb::arg("generator") = nb::none(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "Whole numbers from low (0) to below high, like another tensor.");
  define_factory(
      m, "randint_like",
      [whole_like](const Tensor& input, std::int64_t high, GeneratorArg generator, MaybeDtype dtype,
                   const DeviceLike& device, MaybeBool pin_memory) {
        return whole_like(input, 0, high, generator, dtype, device, pin_memory);
      },
      nb::arg("input"), nb::arg("high"), nb::kw_only(), nb::arg("generator") = nb::none(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("pin_memory") = false);
  define_factory(m, "randint_like", whole_like, nb::arg("input"), nb::arg("low"), nb::arg("high"),
                 nb::kw_only(), nb::arg("generator") = nb::none(), nb::arg("dtype") = nb::none(),
                 nb::arg("device") = nb::none(), nb::arg("pin_memory") = false);
  const auto whole = [](std::int64_t low, std::int64_t high, const Sizes& size,
                        GeneratorArg generator, Tensor* out, MaybeDtype dtype,
                        const DeviceLike& device, MaybeBool pin_memory) {
    const Options options = new_options(dtype, device, pin_memory);
    const Shape shape = size.shape();
    return made_or_into(
        out, options, [&] { return randint(low, high, shape, options, generator); },
        [&](Tensor& into) { randint_out(into, low, high, shape, generator); });
  };
  define_factory(
      m, "randint",
      [whole](std::int64_t high, const Sizes& size, GeneratorArg generator, Tensor* out,
              MaybeDtype dtype, const DeviceLike& device, MaybeBool pin_memory) {
        return whole(0, high, size, generator, out, dtype, device, pin_memory);
      },
      nb::arg("high"), nb::arg("size"), nb::kw_only(), nb::arg("generator") = nb::none(),
      nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false,
      "Whole numbers from low (0) to below high; int64 unless another dtype is given.");
  define_factory(m, "randint", whole, nb::arg("low"), nb::arg("high"), nb::arg("size"),
                 nb::kw_only(), nb::arg("generator") = nb::none(), nb::arg("out") = nb::none(),
                 nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
                 nb::arg("pin_memory") = false);
  define_factory(
      m, "randperm",
      [](std::int64_t n, GeneratorArg generator, Tensor* out, MaybeDtype dtype,
         const DeviceLike& device, MaybeBool pin_memory) {
        const Options options = new_options(dtype, device, pin_memory);
        return made_or_into(
            out, options, [&] { return randperm(n, options, generator); },
            [&](Tensor& into) { randperm_out(into, n, generator); });
      },
      nb::arg("n"), nb::kw_only(), nb::arg("generator") = nb::none(), nb::arg("out") = nb::none(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "The numbers from 0 to below n in random order; int64 unless another dtype is given.");
  define_factory(
      m, "normal",
      [](double mean, double std, const Sizes& size, GeneratorArg generator, Tensor* out,
         MaybeDtype dtype, const DeviceLike& device, MaybeBool pin_memory) {
        const Options options = new_options(dtype, device, pin_memory);
        const Shape shape = size.shape();
        return made_or_into(
            out, options, [&] { return normal(mean, std, shape, options, generator); },
            [&](Tensor& into) { normal_out(into, mean, std, shape, generator); });
      },
      nb::arg("mean"), nb::arg("std"), nb::arg("size"), nb::kw_only(),
      nb::arg("generator") = nb::none(), nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "Normal with a mean and a standard deviation.");
  define_normal_of<const Tensor&, const Tensor&>(m, nb::arg("mean"), nb::arg("std"));
  define_normal_of<double, const Tensor&>(m, nb::arg("mean"), nb::arg("std"));
  define_normal_of<const Tensor&, double>(m, nb::arg("mean"), nb::arg("std") = 1.0);
  m.def(
      "bernoulli",
      [](const Tensor& input, GeneratorArg generator, Tensor* out) {
        return maybe_into(
            out, [&] { return bernoulli(input, generator); },
            [&](Tensor& into) { bernoulli_out(into, input, generator); });
      },
      nb::arg("input"), nb::kw_only(), nb::arg("generator") = nb::none(),
      nb::arg("out") = nb::none(), "Ones with the probabilities that a tensor holds, else zeros.");
  m.def(
      "bernoulli",
      [](const Tensor& input, double p, GeneratorArg generator) {
        return unlocked([&] { return bernoulli(input, p, generator); });
      },
      nb::arg("input"), nb::arg("p"), nb::kw_only(), nb::arg("generator") = nb::none());
}

void define_multinomial(nb::class_<Tensor>& tensor, nb::module_& m) {
  constexpr const char* text =
      "Numbers of categories, drawn by weights in one row or in every row of a matrix. Without "
      "replacement it waits for a device.";
  tensor.def(
      "multinomial",
      [](const Tensor& self, std::int64_t count, bool replacement, GeneratorArg generator) {
        return unlocked([&] { return multinomial(self, count, replacement, generator); });
      },
      nb::arg("num_samples"), nb::arg("replacement") = false, nb::kw_only(),
      nb::arg("generator") = nb::none(), text);
  m.def(
      "multinomial",
      [](const Tensor& input, std::int64_t count, bool replacement, GeneratorArg generator,
         Tensor* out) {
        return maybe_into(
            out, [&] { return multinomial(input, count, replacement, generator); },
            [&](Tensor& into) { multinomial_out(into, input, count, replacement, generator); });
      },
      nb::arg("input"), nb::arg("num_samples"), nb::arg("replacement") = false, nb::kw_only(),
      nb::arg("generator") = nb::none(), nb::arg("out") = nb::none(), text);
}

/// Methods that fill a tensor and return it.
template <class Fill>
nb::object filled(Tensor& self, Fill&& fill) {
  unlocked(fill);
  return same_object(self);
}

void define_fills(nb::class_<Tensor>& tensor) {
  tensor
      .def(
          "uniform_",
          [](Tensor& self, double from, double to, GeneratorArg generator) {
            return filled(self, [&] { uniform_(self, from, to, generator); });
          },
          nb::arg("from") = 0.0, nb::arg("to") = 1.0, nb::kw_only(),
          nb::arg("generator") = nb::none(),
          nb::sig("def uniform_(self, from_: float = 0, to: float = 1, *, generator: Generator | "
                  "None = None) -> Tensor"),
          "Uniform from one number to below another.")
      .def(
          "normal_",
          [](Tensor& self, double mean, double std, GeneratorArg generator) {
            return filled(self, [&] { normal_(self, mean, std, generator); });
          },
          nb::arg("mean") = 0.0, nb::arg("std") = 1.0, nb::kw_only(),
          nb::arg("generator") = nb::none(),
          nb::sig("def normal_(self, mean: float = 0, std: float = 1, *, generator: Generator | "
                  "None = None) -> Tensor"),
          "Normal with a mean and a standard deviation.")
      .def(
          "exponential_",
          [](Tensor& self, double lambd, GeneratorArg generator) {
            return filled(self, [&] { exponential_(self, lambd, generator); });
          },
          nb::arg("lambd") = 1.0, nb::kw_only(), nb::arg("generator") = nb::none(),
          nb::sig("def exponential_(self, lambd: float = 1, *, generator: Generator | None = None) "
                  "-> Tensor"),
          "Exponential with a rate.")
      .def(
          "bernoulli",
          [](const Tensor& self, GeneratorArg generator) {
            return unlocked([&] { return bernoulli(self, generator); });
          },
          nb::kw_only(), nb::arg("generator") = nb::none(),
          "Ones with the probabilities that the tensor holds, or with one for all, else zeros.")
      .def(
          "bernoulli",
          [](const Tensor& self, double p, GeneratorArg generator) {
            return unlocked([&] { return bernoulli(self, p, generator); });
          },
          nb::arg("p"), nb::kw_only(), nb::arg("generator") = nb::none())
      .def(
          "bernoulli_",
          [](Tensor& self, double p, GeneratorArg generator) {
            return filled(self, [&] { bernoulli_(self, p, generator); });
          },
          nb::arg("p") = 0.5, nb::kw_only(), nb::arg("generator") = nb::none(),
          nb::sig("def bernoulli_(self, p: float = 0.5, *, generator: Generator | None = None) -> "
                  "Tensor"),
          "Ones with a probability, or with those that a tensor holds, else zeros.")
      .def(
          "bernoulli_",
          [](Tensor& self, const Tensor& p, GeneratorArg generator) {
            return filled(self, [&] { bernoulli_(self, p, generator); });
          },
          nb::arg("p"), nb::kw_only(), nb::arg("generator") = nb::none(),
          nb::sig(
              "def bernoulli_(self, p: Tensor, *, generator: Generator | None = None) -> Tensor"))
      .def(
          "random_",
          [](Tensor& self, GeneratorArg generator) {
            return filled(self, [&] { random_(self, generator); });
          },
          nb::kw_only(), nb::arg("generator") = nb::none(),
          nb::sig("def random_(self, *, generator: Generator | None = None) -> Tensor"),
          "Whole numbers from one to below another, or all that the dtype holds.")
      .def(
          "random_",
          [](Tensor& self, std::int64_t to, GeneratorArg generator) {
            return filled(self, [&] { random_(self, to, generator); });
          },
          nb::arg("to"), nb::kw_only(), nb::arg("generator") = nb::none(),
          nb::sig("def random_(self, to: int, *, generator: Generator | None = None) -> Tensor"))
      .def(
          "random_",
          [](Tensor& self, std::int64_t from, std::optional<std::int64_t> to,
             GeneratorArg generator) {
            return filled(self, [&] { random_(self, from, to, generator); });
          },
          nb::arg("from"), nb::arg("to").none(), nb::kw_only(), nb::arg("generator") = nb::none(),
          nb::sig("def random_(self, from_: int, to: int | None, *, generator: Generator | None = "
                  "None) -> Tensor"));
}

/// `with ember.random.fork_rng():`.
struct Fork {
  std::optional<std::vector<cuda::DeviceArg>> devices;
  bool enabled = true;
  std::vector<std::unique_ptr<random::ForkRng>> saved;
  Fork() = default;
  Fork(Fork&&) = default;
  ~Fork() = default;
};

void bind_module(nb::module_& m) {
  m.def(
      "manual_seed",
      [](nb::handle seed) {
        const std::uint64_t value = seed_of(seed);
        unlocked([&] { (void)manual_seed(value); });
        return nb::module_::import_("ember._C").attr("default_generator");
      },
      nb::arg("seed"), nb::sig("def manual_seed(seed: int) -> ember._C.Generator"),
      "Seeds the default generators of the CPU and of all CUDA devices.");
  m.def(
      "seed", [] { return unlocked([] { return seed(); }); },
      "Seeds all default generators with a random number, which it returns.");
  m.def(
      "initial_seed", [] { return unlocked([] { return initial_seed(); }); },
      "The seed in force on the CPU.");
  m.def(
      "get_rng_state", [] { return unlocked([] { return get_rng_state(); }); },
      "The state of the CPU's default generator.");
  m.def(
      "set_rng_state", [](const Tensor& new_state) { unlocked([&] { set_rng_state(new_state); }); },
      nb::arg("new_state"), "Takes a state of get_rng_state.");
}

void bind_fork(nb::module_& m) {
  nb::class_<Fork> fork(m, "_ForkRng");
  fork.def("__enter__", [](Fork& self) {
    self.saved.push_back(unlocked_warning(
        [&] { return std::make_unique<random::ForkRng>(self.devices, self.enabled); }));
  });
  define_exit(fork, [](Fork& self) {
    if (!self.saved.empty()) unlocked([&] { self.saved.pop_back(); });
  });
  define_decorator(fork, [](const Fork& self) {
    Fork another;
    another.devices = self.devices;
    another.enabled = self.enabled;
    return another;
  });
  m.def(
      "fork_rng",
      [](nb::handle devices, bool enabled, const std::string& device_type) {
        if (device_type != "cuda")
          throw ValueError("fork_rng: device_type='" + device_type + "', expected 'cuda'");
        Fork fork;
        fork.enabled = enabled;
        if (!devices.is_none()) {
          fork.devices.emplace();
          for (const nb::handle device : devices) fork.devices->push_back(DeviceLike{device}.arg());
        }
        return fork;
      },
      nb::arg("devices") = nb::none(), nb::arg("enabled") = true, nb::kw_only(),
      nb::arg("device_type") = "cuda",
      nb::sig("def fork_rng(devices: collections.abc.Iterable[ember._C.device | int | str] | None "
              "= None, enabled: bool = True, *, device_type: str = 'cuda') -> _ForkRng"),
      "Puts the states of the CPU's and some CUDA devices' (all unless given) default generators "
      "back at the end of a with block.");
}

/// Devices are counted when it is asked for them.
struct DefaultGenerators {};

}  // namespace

void bind_random(nb::class_<Tensor>& tensor, nb::module_& m) {
  bind_generator(m);
  define_new(m);
  define_fills(tensor);
  define_multinomial(tensor, m);
  bind_module(m);
  nb::module_ random = m.def_submodule("random", "Seeding and saving the default generators.");
  bind_module(random);
  bind_fork(random);
  m.attr("default_generator") = default_generator();
}

void bind_cuda_random(nb::module_& m) {
  nb::class_<DefaultGenerators>(m, "_DefaultGenerators",
                                "The generators that each device has by default.")
      .def("__len__", [](const DefaultGenerators&) { return cuda::device_count(); })
      .def(
          "__getitem__",
          [](const DefaultGenerators&, std::int64_t index) {
            const int count = unlocked([] { return cuda::device_count(); });
            const std::int64_t device = index < 0 ? index + count : index;
            if (device < 0 || device >= count)
              throw nb::index_error(("default_generators: index " + std::to_string(index) +
                                     " is out of range for " + std::to_string(count) + " devices")
                                        .c_str());
            return default_generator(Device(Device::Type::cuda, static_cast<int>(device)));
          },
          nb::arg("index"));
  m.attr("default_generators") = DefaultGenerators();
  m.def(
      "manual_seed",
      [](nb::handle seed) {
        const std::uint64_t value = seed_of(seed);
        unlocked([&] { cuda::manual_seed(value); });
      },
      nb::arg("seed").none(), nb::sig("def manual_seed(seed: int) -> None"),
      "Seeds the current device's default generator; put off until CUDA is initialised.");
  m.def(
      "manual_seed_all",
      [](nb::handle seed) {
        const std::uint64_t value = seed_of(seed);
        unlocked([&] { cuda::manual_seed_all(value); });
      },
      nb::arg("seed").none(), nb::sig("def manual_seed_all(seed: int) -> None"),
      "Seeds every device's default generator; put off until CUDA is initialised.");
  m.def(
      "seed", [] { unlocked([] { cuda::seed(); }); },
      "Seeds the current device's default generator with a random number.");
  m.def(
      "seed_all", [] { unlocked([] { cuda::seed_all(); }); },
      "Seeds every device's default generator with the same random number.");
  m.def(
      "initial_seed", [] { return unlocked([] { return cuda::initial_seed(); }); },
      "The seed in force on the current device.");
  m.def(
      "get_rng_state",
      [](const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return cuda::get_rng_state(given); });
      },
      nb::arg("device") = "cuda", "The state of a device's default generator: 16 bytes.");
  m.def(
      "get_rng_state_all", [] { return unlocked([] { return cuda::get_rng_state_all(); }); },
      "The states of all devices' default generators.");
  m.def(
      "set_rng_state",
      [](const Tensor& new_state, const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        unlocked([&] { cuda::set_rng_state(new_state, given); });
      },
      nb::arg("new_state"), nb::arg("device") = "cuda",
      "Takes a state of get_rng_state; put off until CUDA is initialised.");
  m.def(
      "set_rng_state_all",
      [](nb::handle new_states) {
        std::vector<Tensor> states;
        for (const nb::handle state : new_states) {
          if (!nb::isinstance<Tensor>(state))
            throw TypeError("RNG state must be a torch.ByteTensor");
          states.push_back(nb::cast<const Tensor&>(state));
        }
        unlocked([&] { cuda::set_rng_state_all(states); });
      },
      nb::arg("new_states"),
      nb::sig(
          "def set_rng_state_all(new_states: collections.abc.Iterable[ember._C.Tensor]) -> None"),
      "Takes states of get_rng_state_all.");
  m.def(
      "_get_rng_state_offset",
      [](const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return cuda::get_rng_state_offset(given); });
      },
      nb::arg("device") = "cuda");
  m.def(
      "_set_rng_state_offset",
      [](std::uint64_t offset, const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        unlocked([&] { cuda::set_rng_state_offset(offset, given); });
      },
      nb::arg("offset"), nb::arg("device") = "cuda");
}

}  // namespace ember::python
