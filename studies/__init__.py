"""Studies: each a folder with a command, a config and the numbers to expect. Not a part of the package.

python -m studies.moons --quick
"""
