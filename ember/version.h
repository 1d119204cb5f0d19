#pragma once

/// The version of this library; CMake reads it from here.
#define EMBER_VERSION_STRING "0.1.0"
