// A picture as a file.
#pragma once

#include <string>

#include "ember/timeline/picture.h"

namespace ember::inline v0::cuda::timeline {

/// What the ending of a file's name asks for.
enum class Format { json, html };
/// ValueError that names `argument` for any other ending than .json and .html.
Format format_of(const std::string& file, const char* argument);

/// Writes it anew, in the trace event format, which Perfetto and chrome://tracing read. Error if
/// that fails.
void write_json(const Picture& picture, const std::string& file);
/// The same as one page that needs nothing else.
void write_html(const Picture& picture, const std::string& file);

}  // namespace ember::inline v0::cuda::timeline
