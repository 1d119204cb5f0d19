#include "ember/sanitizer/report.h"

#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "ember/base/json_text.h"
#include "ember/base/stack.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::cuda::sanitizer {
namespace {

using Kind = Activity::Kind;

std::string hex(const void* address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%zx", reinterpret_cast<std::uintptr_t>(address));
  return text;
}

std::string what(const Operation& operation) {
  switch (operation.kind) {
    case Kind::copied: return "copy";
    case Kind::filled: return "fill";
    case Kind::host_function_queued: return "host function";
    default: return operation.name != nullptr ? operation.name : "unknown work";
  }
}

std::string who(const Operation& operation) {
  if (operation.host) return "the host (thread " + std::to_string(operation.thread) + ")";
  const std::string device = " (cuda:" + std::to_string(operation.device) + ")";
  if (operation.stream == nullptr) return "the default stream" + device;
  return "stream " + hex(operation.stream) + device;
}

std::string stream_number(const Operation& operation) {
  return std::to_string(reinterpret_cast<std::uintptr_t>(operation.stream));
}

std::string stack_lines(std::uint64_t stack) {
  const std::string text = stack_text(stack);
  return text.empty() ? "  (not recorded)\n" : text;
}

void append_side(std::string& text, const char* which, const Side& side) {
  const Operation& operation = side.operation;
  text.append(which);
  if (operation.host)
    text.append(" by ").append(who(operation)).append(":\n");
  else
    text.append(" by stream ").append(stream_number(operation)).append(" during kernel:\n");
  text.append(what(operation)).append("\n");
  text.append(side.writes ? "writing to" : "reading from");
  const std::string arguments = side.arguments.text();
  if (!arguments.empty()) text.append(" argument(s) ").append(arguments);
  if (side.arguments.output) text.append(arguments.empty() ? " the output" : ", and to the output");
  text.append("\nWith stack trace:\n").append(stack_lines(operation.stack)).append("\n");
}

const char* text_of(Conflict::Kind kind) noexcept {
  switch (kind) {
    case Conflict::Kind::reuse: return "reuse";
    case Conflict::Kind::use_after_free: return "use after free";
    case Conflict::Kind::never_written: return "never written";
    default: return "race";
  }
}

const char* text_of(Conflict::Certainty certainty) noexcept {
  switch (certainty) {
    case Conflict::Certainty::by_query: return "ordered only by a query";
    case Conflict::Certainty::possible: return "possible";
    default: return "certain";
  }
}

void field(std::string& json, const char* name, const std::string& value) {
  if (json.back() != '{') json += ", ";
  json.append("\"").append(name).append("\": ");
  append_json_text(json, value);
}

void field(std::string& json, const char* name, std::uint64_t value) {
  if (json.back() != '{') json += ", ";
  json.append("\"").append(name).append("\": ").append(std::to_string(value));
}

void append_json(std::string& json, const char* name, const Side& side) {
  const Operation& operation = side.operation;
  json.append(", \"").append(name).append("\": {");
  field(json, "operation", what(operation));
  field(json, "access", side.writes ? "write" : "read");
  field(json, "by", operation.host ? "host" : "stream");
  if (!operation.host) {
    field(json, "device", static_cast<std::uint64_t>(operation.device));
    field(json, "stream", reinterpret_cast<std::uintptr_t>(operation.stream));
    field(json, "stream_id", static_cast<std::uint64_t>(operation.stream_id));
  }
  field(json, "thread", operation.thread);
  field(json, "number", operation.serial);
  field(json, "address", hex(side.address));
  field(json, "bytes", side.bytes);
  const Arguments& arguments = side.arguments;
  field(json, "argument", static_cast<std::uint64_t>(arguments.first));
  if (arguments.names != nullptr || arguments.output)
    field(json, "argument_name",
          std::string(arguments.names != nullptr ? arguments.names : kOutputArgument));
  if (arguments.output) json += R"(, "output": true)";
  field(json, "stack", stack_text(operation.stack));
  json += '}';
}

}  // namespace

namespace {
/// Whether `name` is one of those that ", " separates.
bool has_name(std::string_view names, std::string_view name) {
  for (;;) {
    const std::size_t end = names.find(", ");
    if (names.substr(0, end) == name) return true;
    if (end == std::string_view::npos) return false;
    names.remove_prefix(end + 2);
  }
}
}  // namespace

void Arguments::join(const Arguments& other) {
  output |= other.output;
  if (other.names == nullptr) return;
  if (names == nullptr)
    names = other.names;
  else if (!has_name(names, other.names))
    names = driver::Name::intern(std::string(names) + ", " + other.names).c_str();
}

std::string Arguments::text() const {
  if (names != nullptr) return names;
  return output ? "" : std::to_string(first);
}

std::string name_of(const Side& side) {
  return what(side.operation) + " of " + who(side.operation);
}

std::string missing_order(const Conflict& conflict) {
  if (conflict.kind == Conflict::Kind::never_written)
    return "a write of these bytes before " + what(conflict.now.operation) + " is enqueued";
  const Operation& before = conflict.before.operation;
  const Operation& now = conflict.now.operation;
  if (conflict.kind == Conflict::Kind::use_after_free)
    return "keeping the memory until " + what(now) +
           " is enqueued, and record_stream() if that is " + "on another stream than the memory's";
  const std::string point = "after " + what(before);
  std::string order;
  if (now.host)
    order = "a wait of the host for " + who(before) + ", or for an event recorded there " + point +
            ", before " + what(now);
  else
    order = "a wait of " + who(now) + " for an event recorded on " + who(before) + " " + point +
            ", before " + what(now);
  if (conflict.kind == Conflict::Kind::reuse)
    order =
        "record_stream() of the memory for " + who(before) + " before it was freed; or " + order;
  return order;
}

namespace {

void append_allocation(std::string& text, const Conflict& conflict) {
  if (conflict.allocation_stack != 0)
    text.append("Tensor was allocated with stack trace:\n")
        .append(stack_lines(conflict.allocation_stack));
  else
    text.append("Trace for tensor allocation not found.\n");
}

std::string never_written_text(const Conflict& conflict) {
  std::string text = "============================\n";
  text.append("CSAN detected a read of memory that was never written on tensor with data pointer ");
  text.append(std::to_string(reinterpret_cast<std::uintptr_t>(conflict.now.address))).append("\n");
  append_side(text, "Access", conflict.now);
  append_allocation(text, conflict);
  text.append("\nKind: ").append(text_of(conflict.kind));
  text.append("\nBytes: ").append(hex(conflict.now.address)).append(" + ");
  text.append(std::to_string(conflict.now.bytes)).append(", of which never written from ");
  text.append(hex(conflict.missing)).append(" + ").append(std::to_string(conflict.missing_bytes));
  text.append(" on\nWhat is missing: ").append(missing_order(conflict)).append("\n");
  return text;
}

}  // namespace

std::string report_text(const Conflict& conflict) {
  if (conflict.kind == Conflict::Kind::never_written) return never_written_text(conflict);
  std::string text = "============================\n";
  text.append("CSAN detected a possible data race on tensor with data pointer ");
  const void* const address =
      conflict.allocation != nullptr ? conflict.now.address : conflict.before.address;
  text.append(std::to_string(reinterpret_cast<std::uintptr_t>(address))).append("\n");
  append_side(text, "Access", conflict.now);
  append_side(text, "Previous access", conflict.before);
  append_allocation(text, conflict);
  if (conflict.free_stack != 0)
    text.append("\nThe memory was freed before with stack trace:\n")
        .append(stack_lines(conflict.free_stack));
  text.append("\nKind: ").append(text_of(conflict.kind));
  switch (conflict.certainty) {
    case Conflict::Certainty::by_query:
      text.append(", ordered only by a query that happened to answer done");
      break;
    case Conflict::Certainty::possible:
      text.append(", possible: whether the strided accesses meet took too long to find out");
      break;
    default: break;
  }
  text.append("\nBytes: ").append(hex(conflict.now.address)).append(" + ");
  text.append(std::to_string(conflict.now.bytes)).append(" and before ");
  text.append(hex(conflict.before.address)).append(" + ");
  text.append(std::to_string(conflict.before.bytes));
  text.append("\nWhat would have ordered them: ").append(missing_order(conflict)).append("\n");
  return text;
}

std::string report_json(const Conflict& conflict) {
  std::string json = "{";
  field(json, "kind", text_of(conflict.kind));
  field(json, "certainty", text_of(conflict.certainty));
  append_json(json, "access", conflict.now);
  if (conflict.kind == Conflict::Kind::never_written) {
    field(json, "never_written", hex(conflict.missing));
    field(json, "never_written_bytes", conflict.missing_bytes);
  } else {
    append_json(json, "previous", conflict.before);
  }
  field(json, "missing_order", missing_order(conflict));
  field(json, "allocation", hex(conflict.allocation));
  field(json, "allocation_bytes", conflict.allocation_bytes);
  field(json, "allocation_stack", stack_text(conflict.allocation_stack));
  field(json, "free_stack", stack_text(conflict.free_stack));
  return json + "}";
}

}  // namespace ember::inline v0::cuda::sanitizer
