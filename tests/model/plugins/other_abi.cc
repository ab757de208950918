// A model library built for an embers of another time. Its factory must not be called.
#include <cstdint>
#include <cstdlib>

extern "C" uint32_t embers_model_abi() { return 4711; }
extern "C" void* embers_make_model(const void*) { std::abort(); }
