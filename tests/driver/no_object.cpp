// A shared library that is not the CUDA object.
extern "C" __attribute__((visibility("default"))) int ember_test_nothing() { return 0; }
