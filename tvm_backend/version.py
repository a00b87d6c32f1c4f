"""The version of archloom, as the package metadata, artifacts and reports state it."""

VERSION = "0.1.0"
