// A model library built for another version of embers. Its factory must not be called.
#include <cstdint>
#include <cstdlib>

extern "C" uint32_t embers_model_abi() { return 4711; }
extern "C" void* embers_make_model(const void*) { std::abort(); }
