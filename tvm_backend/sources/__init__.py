"""What a user gives as a network: paths, names and texts of operators, protos, modules in; a model out."""
