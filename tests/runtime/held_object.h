// A CUDA object (driver/cuda_object.h) that stops where a test wants it to.
#pragma once

/// Called by the object, from its own loading ("load") and from counting ("count"); defined by the
/// test program.
extern "C" __attribute__((visibility("default"))) void ember_test_visit(const char* where);
