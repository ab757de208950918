// Gives the library that owns the precompiled libtorch headers a source; see CMakeLists.txt.
