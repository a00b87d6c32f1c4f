"""Networks as the passes see them, Relax or plain: expressions in, matches and types out.

:mod:`.compat` is the only module that knows TVM's names; :mod:`.expressions` is what passes are written over.
"""
