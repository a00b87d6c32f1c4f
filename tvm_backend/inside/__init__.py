"""Targets as backends of TVM: modules of TVM's own importers in, partitioned and compiled modules of TVM out. TVM keeps
the flow (passes, ``RunCodegen``, ``tvm.compile``, virtual machine, libraries); what runs a region is what runs it
elsewhere in archloom."""
