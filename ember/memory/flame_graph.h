// Flame graphs of memory: who holds how much, as a picture. Chapter 10 of the documents.
#pragma once

#include <string>
#include <string_view>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

enum class FoldedBy {
  segment,  ///< lines begin with `stream_S;seg_A`
  stream,   ///< lines begin with `stream_S`
};

/// A snapshot, read as snapshot_json() does, as the lines that flame graphs are made of: for each
/// block `stream_S;seg_A;STATE;FRAMES BYTES`, with the outermost frame first and the bytes that
/// were asked for, and another one, `<gaps>` in place of the frames, for the rest of the block.
/// Without recorded frames there is `<non-python>`. ValueError for what is no snapshot.
/// Thread-safe; needs no device. (PyTorch: torch.cuda._memory_viz.segments and memory)
EMBER_API std::string folded_memory(std::string_view snapshot, FoldedBy by);

/// The same for segments of which the other snapshot has none at that address and of that size,
/// behind `only_before;` or `only_after;`. (PyTorch: torch.cuda._memory_viz.compare)
EMBER_API std::string folded_changes(std::string_view before, std::string_view after);

/// A flame graph as a picture (SVG, UTF-8) that any browser shows without a network: widths are
/// bytes, a pointer over a part shows its name, a click makes it as wide as the picture. Each line
/// of `folded` is names, separated by `;`, a blank and a number; equal lines are added up, and
/// names more than 1,000 deep are left out. ValueError that names the line for what is none, and if
/// the sum is 2^63 or more. Thread-safe; needs no device.
EMBER_API std::string flame_graph(std::string_view folded, std::string_view title);

}  // namespace ember::inline v0::cuda
