// Tensors as text, as torch prints them: four digits, scientific numbers where the range asks for
// it, every element of one width, three elements of each edge of large tensors; or as it was told
// to.
#include "ember/tensor/print.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/number_text.h"
#include "ember/runtime/deferred.h"
#include "ember/tensor/accesses.h"

namespace ember::inline v0 {
namespace {

constinit Mutex options_mutex;
constinit PrintOptions options_now EMBER_GUARDED_BY(options_mutex);

void require_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least)
    throw ValueError(std::string("set_print_options: ") + name + " is " + std::to_string(value) +
                     ", expected at least " + std::to_string(least));
}

/// How the elements of one tensor are written: all alike.
class Formatter {
 public:
  /// Of floating-point numbers.
  Formatter(const std::vector<double>& values, const PrintOptions& options)
      : precision_(options.precision) {
    double least = INFINITY;
    double most = 0;
    bool any = false;
    for (const double value : values) {
      if (value == 0 || !std::isfinite(value)) continue;
      any = true;
      least = std::min(least, std::fabs(value));
      most = std::max(most, std::fabs(value));
      whole_ = whole_ && value == std::ceil(value);
    }
    if (!any) return;
    scientific_ =
        options.sci_mode.value_or(most / least > 1000.0 || most > 1.0e8 || least < 1.0e-4);
    for (const double value : values) {
      if (value == 0 || !std::isfinite(value)) continue;
      width_ = std::max(width_, number(value).size());
    }
  }
  /// Of anything else, already written.
  explicit Formatter(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) width_ = std::max(width_, text.size());
  }

  std::size_t width() const { return width_; }
  std::string padded(const std::string& text) const {
    return std::string(width_ > text.size() ? width_ - text.size() : 0, ' ') + text;
  }
  std::string number(double value) const {
    if (std::isnan(value)) return "nan";  // never "-nan"
    if (scientific_) return scientific_text(value, precision_);
    if (!whole_) return fixed_text(value, precision_);
    return fixed_text(value, 0) + (std::isfinite(value) ? "." : "");
  }

 private:
  int precision_ = 0;
  bool whole_ = true;
  bool scientific_ = false;
  std::size_t width_ = 1;
};

/// The elements that are shown, on the CPU and without gaps: all, or the edges of every dimension.
Tensor shown_part(const Tensor& tensor, bool summarise, std::int64_t edge) {
  if (!summarise) return tensor.cpu().contiguous();
  // One dimension after the other is cut down, so that little has to leave the device.
  Shape sizes = tensor.sizes();
  std::vector<int> cut;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] / 2 < edge || sizes[i] == 2 * edge) continue;
    sizes[i] = 2 * edge;
    cut.push_back(i);
  }
  const std::size_t bytes =
      static_cast<std::size_t>(element_count(sizes)) * item_size(tensor.dtype());
  Tensor made(Storage::allocate(Device::Type::cpu, bytes), tensor.dtype(), sizes,
              contiguous_strides(sizes));
  // Every corner: the low or the high edge of each dimension that was cut.
  for (std::uint32_t corner = 0; corner < (1U << cut.size()); ++corner) {
    Tensor from = tensor;
    Tensor to = made;
    for (std::size_t k = 0; k < cut.size(); ++k) {
      const bool high = (corner >> k & 1U) != 0;
      const int dim = cut[k];
      from = from.narrow(dim, high ? tensor.sizes()[dim] - edge : 0, edge);
      to = to.narrow(dim, high ? edge : 0, edge);
    }
    to.copy_(from);
  }
  return made;
}

/// The elements as texts of one width, in order.
struct Texts {
  std::vector<std::string> elements;
  std::size_t width = 0;  ///< what a line counts for each
};

Texts texts_of_real(const std::vector<double>& values, const PrintOptions& options) {
  const Formatter formatter(values, options);
  Texts made;
  made.width = formatter.width();
  made.elements.reserve(values.size());
  for (const double value : values)
    made.elements.push_back(formatter.padded(formatter.number(value)));
  return made;
}

template <class T>
Texts texts_of(const T* values, std::size_t count, const PrintOptions& options) {
  if constexpr (is_complex<T>) {
    std::vector<double> real(count);
    std::vector<double> imaginary(count);
    for (std::size_t i = 0; i < count; ++i) {
      real[i] = values[i].re;
      imaginary[i] = values[i].im;
    }
    Texts made = texts_of_real(real, options);
    const Texts other = texts_of_real(imaginary, options);
    made.width += other.width + 1;
    for (std::size_t i = 0; i < count; ++i) {
      std::string text = other.elements[i] + "j";
      text.erase(0, text.find_first_not_of(' '));
      made.elements[i] += (text[0] == '+' || text[0] == '-' ? "" : "+") + text;
    }
    return made;
  } else if constexpr (is_floating<T>) {
    std::vector<double> wide(count);
    for (std::size_t i = 0; i < count; ++i) wide[i] = static_cast<double>(Compute<T>(values[i]));
    return texts_of_real(wide, options);
  } else {
    std::vector<std::string> plain(count);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, bool>)
        plain[i] = values[i] ? "True" : "False";
      else
        plain[i] = std::to_string(values[i]);
    }
    const Formatter formatter(plain);
    Texts made;
    made.width = formatter.width();
    for (const std::string& text : plain) made.elements.push_back(formatter.padded(text));
    return made;
  }
}

class Writer {
 public:
  Writer(const Tensor& part, const Shape& full, bool summarise, const PrintOptions& options)
      : sizes_(part.sizes()), full_(full), summarise_(summarise), options_(options) {
    ops::host_reads("str", part);
    texts_ = with_type(part.dtype(), [&]<class T>() {
      return texts_of(static_cast<const T*>(part.address()), static_cast<std::size_t>(part.numel()),
                      options_);
    });
  }

  std::string text(int indent) {
    if (sizes_.empty()) return texts_.elements[0];
    return level(0, indent);
  }

 private:
  bool is_cut(int dim) const { return summarise_ && full_[dim] > sizes_[dim]; }

  std::string level(int dim, int indent) {
    const int left = sizes_.size() - dim;
    if (left == 1) return vector(dim, indent);
    const std::string between = "," + std::string(static_cast<std::size_t>(left - 1), '\n') +
                                std::string(static_cast<std::size_t>(indent + 1), ' ');
    std::string text = "[";
    for (std::int64_t i = 0; i < sizes_[dim]; ++i) {
      if (i > 0) text += between;
      if (is_cut(dim) && i == options_.edgeitems) text += "..." + between;
      text += level(dim + 1, indent + 1);
    }
    return text + "]";
  }

  std::string vector(int dim, int indent) {
    std::vector<std::string> data;
    for (std::int64_t i = 0; i < sizes_[dim]; ++i) {
      if (is_cut(dim) && i == options_.edgeitems) data.emplace_back(" ...");
      data.push_back(texts_.elements[next_++]);
    }
    const auto per_line = static_cast<std::size_t>(
        std::max(1, (options_.linewidth - indent) / (static_cast<int>(texts_.width) + 2)));
    std::string text = "[";
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (i > 0)
        text += i % per_line == 0 ? ",\n" + std::string(static_cast<std::size_t>(indent + 1), ' ')
                                  : ", ";
      text += data[i];
    }
    return text + "]";
  }

  Shape sizes_;
  Shape full_;
  bool summarise_;
  const PrintOptions& options_;
  Texts texts_;
  std::size_t next_ = 0;
};

/// "(2, 0)", "(3,)", "()": sizes as Python writes a tuple.
std::string tuple_text(const Shape& sizes) {
  std::string text = sizes.str();
  text.front() = '(';
  text.back() = sizes.size() == 1 ? ',' : ')';
  return sizes.size() == 1 ? text + ")" : text;
}

}  // namespace

void set_print_options(const PrintOptions& options) {
  require_at_least("precision", options.precision, 0);
  if (options.precision > 100)
    throw ValueError("set_print_options: precision is " + std::to_string(options.precision) +
                     ", expected at most 100");
  require_at_least("threshold", options.threshold, 0);
  require_at_least("edgeitems", options.edgeitems, 1);
  require_at_least("linewidth", options.linewidth, 1);
  const MutexLock lock(options_mutex);
  options_now = options;
}

PrintOptions print_options() {
  const MutexLock lock(options_mutex);
  return options_now;
}

std::string Tensor::str() const {
  if (!defined()) return "tensor(undefined)";
  const PrintOptions options = print_options();
  constexpr std::string_view kPrefix = "tensor(";
  const int indent = static_cast<int>(kPrefix.size());
  std::vector<std::string> suffixes;
  if (is_cuda()) suffixes.push_back("device='" + device().str() + "'");
  std::string text(kPrefix);
  const std::string type = std::string("dtype=torch.") + dtype_name(dtype());
  if (numel() == 0) {
    if (dim() != 1) suffixes.push_back("size=" + tuple_text(sizes()));
    if (dtype() != default_dtype()) suffixes.push_back(type);
    text += "[]";
  } else {
    const bool usual = dtype() == default_dtype() || dtype() == complex_dtype(default_dtype()) ||
                       dtype() == Dtype::int64 || dtype() == Dtype::bool_;
    if (!usual) suffixes.push_back(type);
    const bool summarise = numel() > options.threshold;
    const Tensor part = shown_part(*this, summarise, options.edgeitems);
    text += Writer(part, sizes(), summarise, options).text(indent);
  }
  // As torch counts: the length of the last line and one.
  const std::size_t newline = text.rfind('\n');
  int last =
      static_cast<int>(newline == std::string::npos ? text.size() + 2 : text.size() - newline + 1);
  for (const std::string& suffix : suffixes) {
    const int length = static_cast<int>(suffix.size());
    if (last + length + 2 > options.linewidth) {
      text += ",\n" + std::string(static_cast<std::size_t>(indent), ' ') + suffix;
      last = indent + length;
    } else {
      text += ", " + suffix;
      last += length + 2;
    }
  }
  return text + ")";
}

}  // namespace ember::inline v0
