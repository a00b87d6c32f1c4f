"""Networks in: files, modules, programs, names and texts of operators in, a :class:`~tvm_backend.model.Model` out."""
