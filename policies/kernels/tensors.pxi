"""How compiled parts read tensors: they come in as objects, whose addresses are read once all else is as it must be.

Of what no kernel may be given as if it were right, nothing gets past here: another type, device, shape or layout.
"""

from libc.stdint cimport int64_t, intptr_t, uint8_t, uint16_t

import torch

cdef object FLOAT32 = torch.float32
cdef object INT64 = torch.int64
cdef object BOOL = torch.bool


cdef int refuse(x, str name, object dtype, object shape, str layout) except -1:
    raise ValueError(
        f"{__name__.rpartition('._')[2]}: {name} is {str(x.dtype)[6:]} {tuple(x.shape)} on {x.device}, with strides "
        f"{tuple(x.stride())}; it must be {str(dtype)[6:]} {tuple(shape)} on cpu, {layout}; give it `.contiguous()` "
        f"and of that type, or set LEAGUE_KERNELS=off"
    )


cdef void* whole(x, str name, object dtype, tuple shape) except? NULL:
    """The address of a tensor that is contiguous altogether."""
    if x.dtype is not dtype or not x.is_cpu or x.shape != shape or not x.is_contiguous():
        refuse(x, name, dtype, shape, "contiguous")
    return <void*><intptr_t>x.data_ptr()


cdef void* by_rows(x, str name, object dtype, tuple shape) except? NULL:
    """The address of a tensor whose last axis is contiguous."""
    if x.dtype is not dtype or not x.is_cpu or x.shape != shape or (x.stride(-1) != 1 and x.size(-1) > 1):
        refuse(x, name, dtype, shape, "its last axis contiguous")
    return <void*><intptr_t>x.data_ptr()


cdef inline float* floats(x, str name, tuple shape) except? NULL:
    return <float*>whole(x, name, FLOAT32, shape)


cdef inline float* rows_of_floats(x, str name, tuple shape) except? NULL:
    return <float*>by_rows(x, name, FLOAT32, shape)


cdef inline float* matrix(x, str name, tuple shape) except? NULL:
    """The address of a tensor of which one of the last two axes is contiguous."""
    if x.dtype is not FLOAT32 or not x.is_cpu or x.shape != shape or (x.stride(-2) != 1 and x.stride(-1) != 1):
        refuse(x, name, FLOAT32, shape, "one of its last two axes contiguous")
    return <float*><intptr_t>x.data_ptr()


cdef inline int64_t* integers(x, str name, tuple shape) except? NULL:
    return <int64_t*>whole(x, name, INT64, shape)


cdef inline uint8_t* booleans(x, str name, tuple shape) except? NULL:
    return <uint8_t*>whole(x, name, BOOL, shape)
