"""Well-known networks as torch modules with sizes as parameters; :mod:`models.catalogue` names them."""
