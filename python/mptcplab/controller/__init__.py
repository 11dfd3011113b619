"""The controller of controlled switches: computes their entries, and keeps them while links fail
and return.

Everything that is decided is in modules without input and output. Only `openflow` and `application`
know os-ken.
"""
