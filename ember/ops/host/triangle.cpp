// The host implementations of the kernels that copy one side of a diagonal.
#include <algorithm>
#include <bit>
#include <cstring>

#include "ember/driver/extent.h"
#include "ember/driver/kernels.h"
#include "ember/ops/host/parts.h"
#include "ember/ops/triangle_kernels.h"

namespace ember::inline v0::ops {
namespace {

using driver::HostLaunch;

std::int64_t matrices(const TriangleArgs& args) {
  std::int64_t count = 1;
  for (int d = 0; d < args.dims; ++d) count *= args.size[d];
  return count;
}

/// A row of the input, and those after it.
class Row {
 public:
  Row(const TriangleArgs& args, std::int64_t number) : args_(args), row_(number % args.rows) {
    std::int64_t rest = number / args.rows;
    for (int d = 0; d < args.dims; ++d) {
      at_[d] = rest % args.size[d];
      rest /= args.size[d];
      matrix_ += at_[d] * args.stride[d];
    }
  }

  std::int64_t offset() const { return matrix_ + row_ * args_.row_stride; }
  std::int64_t edge() const { return args_.edge + row_; }
  void advance() {
    if (++row_ < args_.rows) return;
    row_ = 0;
    for (int d = 0; d < args_.dims; ++d) {
      matrix_ += args_.stride[d];
      if (++at_[d] < args_.size[d]) return;
      matrix_ -= args_.size[d] * args_.stride[d];
      at_[d] = 0;
    }
  }

 private:
  const TriangleArgs& args_;
  std::int64_t row_;
  std::int64_t matrix_ = 0;  ///< where it begins
  std::int64_t at_[kTriangleDims] = {};
};

/// Writes elements of the output, in its order. No input: it is the output.
template <std::size_t item>
void fill(const TriangleArgs& args, std::byte* out, const std::byte* in, std::int64_t first,
          std::int64_t last) {
  const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count) * item; };
  std::int64_t begin = first % args.columns;
  out += bytes(first);
  std::int64_t left = last - first;
  for (Row row(args, first / args.columns); left > 0; row.advance()) {
    const std::int64_t end = std::min(begin + left, args.columns);
    const std::int64_t edge = std::clamp(row.edge(), begin, end);
    const std::int64_t kept = args.lower ? begin : edge;
    const std::int64_t kept_end = args.lower ? edge : end;
    if (in != nullptr)
      std::memcpy(out + bytes(kept - begin), in + bytes(row.offset() + kept),
                  bytes(kept_end - kept));
    const std::int64_t zero = args.lower ? edge : begin;
    std::memset(out + bytes(zero - begin), 0, bytes((end - begin) - (kept_end - kept)));
    out += bytes(end - begin);
    left -= end - begin;
    begin = 0;
  }
}

template <int item>
Status host_implementation(const driver::Params& params, const HostLaunch& on) {
  const auto& args = params.as<TriangleArgs>();
  const std::int64_t count = matrices(args) * args.rows * args.columns;
  const auto bytes = [](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * std::size_t{item};
  };
  const std::byte* in = nullptr;
  if (args.in != args.out) {
    in = driver::Extent()
             .add(args.columns, 1)
             .add(args.rows, args.row_stride)
             .add(args.dims, args.size, args.stride)
             .place(on, static_cast<const std::byte*>(args.in), item);
    if (in == nullptr) return on.fault();
  }
  std::byte* out = on.at(static_cast<std::byte*>(args.out), bytes(count));
  if (out == nullptr) return on.fault();
  on.in_pieces(count, host::kLeastElements, [&](std::int64_t first, std::int64_t last) {
    fill<std::size_t{item}>(args, out, in, first, last);
  });
  return {};
}

constinit driver::Kernel kernels[] = {
    {"triangle.1", &host_implementation<1>, nullptr},
    {"triangle.2", &host_implementation<2>, nullptr},
    {"triangle.4", &host_implementation<4>, nullptr},
    {"triangle.8", &host_implementation<8>, nullptr},
    {"triangle.16", &host_implementation<16>, nullptr},
};
const driver::kernels::Table table(kernels, driver::arguments<TriangleArgs>());

}  // namespace

const driver::Kernel& triangle_kernel(std::size_t item) noexcept {
  return kernels[std::countr_zero(item)];
}

}  // namespace ember::inline v0::ops
