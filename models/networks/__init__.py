"""Well-known networks as torch modules with sizes as parameters; :mod:`archloom.models.catalogue` names them."""
