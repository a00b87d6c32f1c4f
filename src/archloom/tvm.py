"""archloom's targets as backends of TVM.

    import archloom, tvm
    from tvm import relax

    module = archloom.tvm.partition_for("gemmini", module, dim=16)
    module = relax.transform.RunCodegen()(module)
    executable = tvm.compile(module, target="llvm")
    relax.VirtualMachine(executable, tvm.cpu())["main"](x)

Importing this module imports TVM, and puts the patterns of all targets into its registry. See docs/tvm.md.
"""

from archloom.tvm_backend.inside.library import Library, report
from archloom.tvm_backend.inside.partition import partition_for
from archloom.tvm_backend.inside.passes import Offload, Prepare
from archloom.tvm_backend.inside.registration import use

__all__ = ["Library", "Offload", "Prepare", "partition_for", "report"]

use()
