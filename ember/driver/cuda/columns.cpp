#include "ember/driver/cuda/columns.h"

#include <string_view>
#include <unordered_map>

#include "ember/base/no_destructor.h"

namespace ember::driver::cuda {
namespace {
// Filled while the object is loaded, which is one thread's work.
constinit Columns* first = nullptr;
}  // namespace

Columns::Columns(std::span<const NamedColumn> columns) noexcept : columns_(columns), next_(first) {
  first = this;
}

CudaColumn column(const char* kernel) noexcept {
  using Index = std::unordered_map<std::string_view, CudaColumn>;
  static NoDestructor<Index> index([] {
    Index made;
    for (const Columns* table = first; table != nullptr; table = table->next_)
      for (const NamedColumn& entry : table->columns_) made.emplace(entry.name, entry.column);
    return made;
  }());
  const auto found = index->find(kernel);
  return found == index->end() ? nullptr : found->second;
}

}  // namespace ember::driver::cuda
