// A model library whose author forgot EMBERS_MODEL.
#include <cstdint>

extern "C" uint32_t embers_model_abi() { return 2; }
