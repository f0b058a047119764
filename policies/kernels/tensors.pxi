"""How compiled parts read tensors: they come in as objects, of which only addresses and strides are read."""

from libc.stdint cimport int64_t, intptr_t, uint8_t, uint16_t


cdef inline float* floats(tensor) except? NULL:
    return <float*><intptr_t>tensor.data_ptr()


cdef inline int64_t* integers(tensor) except? NULL:
    return <int64_t*><intptr_t>tensor.data_ptr()


cdef inline uint8_t* booleans(tensor) except? NULL:
    return <uint8_t*><intptr_t>tensor.data_ptr()
