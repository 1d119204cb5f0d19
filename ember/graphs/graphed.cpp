#include "ember/graphs/graphed.h"

#include <utility>

#include "ember/base/error.h"
#include "ember/graphs/graph_cache.h"

namespace ember::inline v0::cuda {

detail::GraphedCalls::GraphedCalls(GraphedFunctionOptions options, Same same,
                                   std::function<void()> before_capture) {
  if (options.max_graphs < 1)
    throw ValueError("graphed: max_graphs has to be at least 1, got " +
                     std::to_string(options.max_graphs));
  cache_ =
      std::make_shared<GraphCache>(std::move(options), std::move(same), std::move(before_capture));
}

detail::GraphedResults detail::GraphedCalls::call(const GraphedFunctionBody& body,
                                                  const std::vector<Tensor>& arguments,
                                                  const std::shared_ptr<const void>& other,
                                                  const std::string& refusal) const {
  return cache_->call(body, arguments, other, refusal);
}

void detail::GraphedCalls::clear() const { cache_->clear(); }

GraphedFunction::GraphedFunction(TensorFunction function, detail::GraphedCalls calls)
    : function_(std::move(function)), calls_(std::move(calls)) {}

std::vector<Tensor> GraphedFunction::operator()(const std::vector<Tensor>& arguments) const {
  const auto body = [this](const std::vector<Tensor>& given, bool) {
    return detail::GraphedResults{function_(given), nullptr};
  };
  return calls_.call(body, arguments).tensors;
}

GraphedFunction graphed(TensorFunction function, GraphedFunctionOptions options) {
  if (!function) throw ValueError("graphed: got an empty function, expected a callable one");
  return {std::move(function), detail::GraphedCalls(std::move(options))};
}

}  // namespace ember::inline v0::cuda
