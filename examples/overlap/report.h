// What is printed.
#pragma once

#include <memory>
#include <vector>

#include "examples/support/progress.h"
#include "host_check.h"
#include "input.h"
#include "pipeline.h"

namespace overlap {

using Pipelines = std::vector<std::unique_ptr<Pipeline>>;

void print_input(const Input& input, std::uint32_t chunk_bytes);
void print_speed(const Pipelines& pipelines, std::uint64_t bytes, example::Seconds time);
/// Returns whether the two are equal.
bool print_digest(const Digest& computed, const HostCheck& check, const Input& input);

}  // namespace overlap
