"""Published results of other tools and machines, met by simulation."""
