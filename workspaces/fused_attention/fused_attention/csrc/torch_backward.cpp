// One translation unit: most of the compile time of these files goes into torch's headers.
#include "autograd.cpp"
#include "backward.cpp"
