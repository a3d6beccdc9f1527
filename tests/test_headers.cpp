// Nothing of its own: a header is precompiled for a source that reads it (CMakeLists.txt).
