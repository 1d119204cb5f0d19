#include "tests/sweep/program.h"

#include <algorithm>

#include "ember/base/error.h"

namespace ember::test {
namespace {

constexpr std::size_t kMostValues = 10;
constexpr std::int64_t kMostElements = 4000;

}  // namespace

Program::Program(std::uint64_t seed, Device on)
    : random_(seed),
      device_(on),
      real_device_(!cuda::is_simulated()),
      side_stream_(on),
      generators_{Generator(), Generator(on)} {
  for (Generator& generator : generators_) generator.manual_seed(seed);
  for (const Dtype dtype : {Dtype::float32, Dtype::int64, Dtype::bool_, Dtype::float64})
    add(fresh(dtype, {3, 4}));
  const std::vector<Shape> shapes{{6}, {2, 3, 4}, {1, 4, 1}, {}, {0, 3}, {5, 70}, {2, 2, 3, 2}};
  for (int i = 0; i < 3; ++i) {
    const auto dtype = static_cast<Dtype>(number(0, static_cast<int>(Dtype::complex128)));
    add(fresh(
        dtype,
        shapes[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(shapes.size()) - 1))]));
  }
}

std::string Program::text() const {
  std::string text;
  for (const std::string& line : lines_) text += "  " + line + "\n";
  return text;
}

std::int64_t Program::number(std::int64_t low, std::int64_t high) {
  // Not std::uniform_int_distribution, which is another one on every platform.
  return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
}

std::optional<std::size_t> Program::pick(const Condition& condition) {
  std::vector<std::size_t> fit;
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (!condition || condition(at(i))) fit.push_back(i);
  if (fit.empty()) return {};
  return fit[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(fit.size()) - 1))];
}

const Tensor& Program::at(std::size_t value, Side side) const {
  return values_[value].tensors[side];
}

Tensor Program::apart(std::size_t value, std::size_t target, Side side) const {
  const Tensor& tensor = at(value, side);
  return tensor.storage() == at(target, side).storage() ? tensor.clone() : tensor;
}

Program::Fresh Program::fresh(const Elements& elements) {
  std::optional<Strided> where;
  while (!where || where->shared)
    where = strided(static_cast<Layout>(number(0, kLayouts - 1)), elements.sizes);
  return {{place(elements, *where, Device("cpu")), place(elements, *where, device_)}};
}

Program::Fresh Program::fresh(Dtype dtype, const Shape& sizes) {
  return fresh(numbers(dtype, sizes, static_cast<int>(number(0, 60))));
}

Program::Fresh Program::indices(const Shape& sizes, std::int64_t limit) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < limit; ++i) list.push_back(static_cast<double>(i));
  for (std::size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1],
              list[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(i) - 1))]);
  return fresh(elements(Dtype::int64, sizes, list));
}

bool Program::run_both(const std::string& text, const std::function<void(Side)>& run) {
  lines_.push_back(text);
  std::string refusal;
  try {
    run(cpu);
  } catch (const Error& error) {
    refusal = error.what();
  }
  // Some steps on another stream, so that memory goes back and forth between two.
  const bool aside = chance(25);
  const cuda::Stream main_stream = cuda::current_stream(device_);
  const cuda::Stream& stream = aside ? side_stream_ : main_stream;
  if (aside) {
    stream.wait_stream(main_stream);
    lines_.back() += "    # on the side stream";
  }
  bool refused = false;
  try {
    const cuda::StreamGuard on(stream);
    run(device);
  } catch (const Error& error) {
    refused = true;
    if (refusal.empty())
      wrong_ = "the device refused, and the CPU did not: " + std::string(error.what());
  }
  if (aside) main_stream.wait_stream(stream);
  if (!refusal.empty()) {
    lines_.back() += "    # refused: " + refusal;
    if (!refused) wrong_ = "the CPU refused, and the device did not: " + refusal;
  }
  return !refused && refusal.empty();
}

void Program::make(const std::string& text, const Run& run) {
  Fresh made;
  if (run_both("v" + std::to_string(made_) + " = " + text,
               [&](Side side) { made.sides[side] = run(side); })) {
    lines_.back() +=
        "    # " + std::string(dtype_name(made[cpu].dtype())) + " " + made[cpu].sizes().str();
    add(made);
  }
}

void Program::change(std::size_t target, const std::string& text,
                     const std::function<void(Side)>& run) {
  run_both(name(target) + text, run);
}

void Program::add(const Fresh& tensors) {
  Value value{made_++, tensors};
  if (values_.size() < kMostValues) {
    values_.push_back(std::move(value));
    return;
  }
  const auto place = static_cast<std::size_t>(number(0, kMostValues - 1));
  values_[place] = std::move(value);
}

void Program::compare() {
  for (std::size_t i = 0; i < values_.size() && wrong_.empty(); ++i) {
    const Tensor& here = at(i, cpu);
    const Tensor& there = at(i, device);
    if (here.strides() != there.strides() || here.storage_offset() != there.storage_offset())
      wrong_ = name(i) + ": strides " + there.strides().str() + " and offset " +
               std::to_string(there.storage_offset()) + " on the device, " + here.strides().str() +
               " and " + std::to_string(here.storage_offset()) + " on the CPU";
    else if (const std::string text = difference(read(there), read(here), 0); !text.empty())
      wrong_ = name(i) + ": " + text;
  }
}

bool Program::step() {
  const std::vector<ProgramStep>& steps = program_steps();
  const std::size_t before = lines_.size();
  // Until one finds values that are fit for it.
  while (lines_.size() == before)
    steps[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(steps.size()) - 1))](*this);
  compare();
  // What has grown too large goes, once it was compared.
  std::erase_if(values_, [](const Value& value) {
    return value.tensors[cpu].numel() > kMostElements || value.tensors[cpu].dim() > 6;
  });
  return wrong_.empty();
}

}  // namespace ember::test
