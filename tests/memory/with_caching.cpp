// These tests are about caching, so they choose it, whatever the environment says; those without it
// choose that in processes of their own, before the first allocation reads the variable.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kChosen = unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");

}  // namespace
